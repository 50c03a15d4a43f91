//! What the servers of a view tell a model of themselves.

use super::View;
use crate::instructions::combine;
use crate::kind::Kind;

impl View {
    /// The instructions of all servers of which agents see anything; `None` if there are none.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        let exposed = self.servers.iter().zip(self.catalog.exposure());
        let exposed = exposed.filter(|(_, exposure)| Kind::ALL.iter().any(|kind| exposure[*kind].exposed > 0));
        let said: Vec<_> = exposed
            .filter_map(|(member, _)| Some((&**member.handle.name(), member.handle.published().instructions.clone()?)))
            .collect();
        combine(said.iter().map(|(name, text)| (*name, &**text)))
    }
}
