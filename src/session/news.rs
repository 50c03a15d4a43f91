//! What servers say that answers nobody: what of it the agent is told.

use super::Session;
use crate::kind::Kind;
use crate::server::unasked::{Unasked, Updated};

impl Session {
    /// Tells the agent, unless it is not to know.
    pub(super) fn tell_unasked(&mut self, unasked: Unasked) {
        match unasked {
            Unasked::Updated(updated) => {
                if self.may_know(&updated) {
                    self.tell_or_keep(None, updated.line);
                }
            }
        }
    }

    /// Whether what has changed is not denied, which it may be by now.
    fn may_know(&self, Updated { server, uri, .. }: &Updated) -> bool {
        let Ok(uri) = str::from_utf8(uri) else { return false };
        let view = self.setup.view.borrow();
        let member = view.servers.iter().find(|member| member.handle.name() == server && member.enabled);
        member.is_some_and(|member| member.config.policy.permits(Kind::Resources, uri, None))
    }
}
