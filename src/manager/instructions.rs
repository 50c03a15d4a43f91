//! The combined instructions of the servers of a view.

use super::{Member, View};
use crate::era::Era;
use crate::instructions::combine;
use crate::list_kind::ListKind;

impl View {
    /// The combined instructions of all servers with exposed items, for agents of this era; `None` if there are none.
    #[must_use]
    pub fn instructions(&self, era: Era) -> Option<String> {
        let text = |member: &Member| member.instructions(member.handle.published().identity(era).map(|one| &**one));
        let texts: Vec<_> = self.exposed().filter_map(|one| Some((&**one.handle.name(), text(one)?))).collect();
        combine(texts.iter().map(|(name, text)| (*name, &**text)))
    }

    /// The servers with exposed items.
    pub(crate) fn exposed(&self) -> impl Iterator<Item = &Member> {
        let exposed = self.servers.iter().zip(self.catalog.exposure());
        let exposed = exposed.filter(|(_, exposure)| ListKind::ALL.iter().any(|kind| exposure[*kind].exposed > 0));
        exposed.map(|(member, _)| member)
    }
}
