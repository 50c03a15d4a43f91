//! The combined instructions and extensions of the servers of a view.

use serde_json::{Map, Value, json};

use super::View;
use crate::era::{Era, TASKS};
use crate::instructions::combine;
use crate::list_kind::ListKind;

impl View {
    /// The extensions of all servers with exposed items. If several servers declare one, the first server's settings apply. The tasks
    /// extension is included if a modern server declares it, or a legacy server makes tasks.
    ///
    /// Source: MCP 2026-07-28, `basic/versioning`, "Extension Negotiation".
    #[must_use]
    pub fn extensions(&self) -> Map<String, Value> {
        let mut all = Map::new();
        for (member, exposure) in self.servers.iter().zip(self.catalog.exposure()) {
            let published = member.handle.published();
            let (declared, has_tasks) = (published.extensions.clone(), published.eras.contains(Era::Modern));
            let makes_tasks = published.makes_tasks;
            drop(published);
            let is_seen = ListKind::ALL.iter().any(|kind| exposure[*kind].exposed > 0);
            if is_seen && makes_tasks {
                all.entry(TASKS.to_owned()).or_insert_with(|| json!({}));
            }
            if let Some(declared) = declared.filter(|_| is_seen)
                && let Ok(declared) = serde_json::from_slice::<Map<String, Value>>(&declared)
            {
                for (name, settings) in declared.into_iter().filter(|(name, _)| has_tasks || name != TASKS) {
                    all.entry(name).or_insert(settings);
                }
            }
        }
        all
    }

    /// The instructions of all servers with exposed items; `None` if there are none. Those of a face are unchanged.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        if let Some(member) = self.face_member() {
            return member.handle.published().instructions.as_deref().map(str::to_owned);
        }
        let exposed = self.servers.iter().zip(self.catalog.exposure());
        let exposed = exposed.filter(|(_, exposure)| ListKind::ALL.iter().any(|kind| exposure[*kind].exposed > 0));
        let texts: Vec<_> = exposed
            .filter_map(|(member, _)| Some((&**member.handle.name(), member.handle.published().instructions.clone()?)))
            .collect();
        combine(texts.iter().map(|(name, text)| (*name, &**text)))
    }
}
