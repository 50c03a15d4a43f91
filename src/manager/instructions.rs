//! The combined instructions and extensions of the servers of a view.

use serde_json::{Map, Value};

use super::{Member, View};
use crate::era::{Era, TASKS};
use crate::instructions::combine;
use crate::list_kind::ListKind;

impl View {
    /// The extensions of all servers with exposed items, for modern agents. If several servers declare one, the first server's settings
    /// apply. The tasks extension is included if a modern server declares it, or a legacy server makes tasks.
    ///
    /// Source: MCP 2026-07-28, `basic/versioning`, "Extension Negotiation".
    #[must_use]
    pub fn extensions(&self) -> Map<String, Value> {
        let mut all = Map::new();
        for identity in self.exposed().filter_map(|member| member.handle.published().identity(Era::Modern).cloned()) {
            let declared = match identity.era() {
                Era::Modern => identity.extensions(),
                Era::Legacy if identity.tasks().of_calls => vec![(TASKS.into(), "{}".into())],
                Era::Legacy => Vec::new(),
            };
            for (id, settings) in declared {
                if let Ok(settings) = serde_json::from_slice(&settings) {
                    all.entry(String::from_utf8_lossy(&id)).or_insert(settings);
                }
            }
        }
        all
    }

    /// The instructions of all servers with exposed items, for agents of this era; `None` if there are none. Those of a face are
    /// unchanged.
    #[must_use]
    pub fn instructions(&self, era: Era) -> Option<String> {
        let text = |member: &Member| member.handle.published().identity(era)?.instructions.clone();
        if let Some(member) = self.face_member() {
            return text(member).map(|text| text.as_ref().to_owned());
        }
        let texts: Vec<_> = self.exposed().filter_map(|one| Some((&**one.handle.name(), text(one)?))).collect();
        combine(texts.iter().map(|(name, text)| (*name, &**text)))
    }

    /// The servers with exposed items.
    fn exposed(&self) -> impl Iterator<Item = &Member> {
        let exposed = self.servers.iter().zip(self.catalog.exposure());
        let exposed = exposed.filter(|(_, exposure)| ListKind::ALL.iter().any(|kind| exposure[*kind].exposed > 0));
        exposed.map(|(member, _)| member)
    }
}
