//! Asking a server how it is: at the times its task sets, and whenever somebody wants to know now.

use serde_json::json;
use tokio::sync::oneshot;

use super::{Effect, Instance, Owner};

/// Who wants to know now how a server is. One question is out for all of them: a server that does not answer is not
/// sent more and more.
#[derive(Debug, Default)]
pub(in crate::server) struct Askers {
    is_asked: bool,
    all: Vec<oneshot::Sender<()>>,
}

impl Askers {
    /// Tells each that the server is well.
    pub(in crate::server) fn tell(self) {
        for asker in self.all {
            // Whoever asked may have gone.
            let _ = asker.send(());
        }
    }
}

impl Instance {
    /// Asks how it is; a ping that is unanswered still is not waited for any more.
    pub(in crate::server) fn ping(&mut self) {
        self.pending.remove_where(|owner| matches!(owner, Owner::Ping));
        self.ask(self.era().greeting(), json!({}), Owner::Ping);
    }

    /// Sends a ping behind a cancellation, unless one is unanswered.
    pub(super) fn check_cancellations(&mut self) {
        let is_out = self.pending.iter().any(|owner| matches!(owner, Owner::CancellationCheck));
        if !is_out && self.given_up.has_unread() {
            self.ask(self.era().greeting(), json!({}), Owner::CancellationCheck);
        }
    }

    /// Asks how it is, for one who wants to know now.
    pub(in crate::server) fn check(&mut self, asker: oneshot::Sender<()>) {
        // Whoever has waited for too long is gone.
        self.askers.all.retain(|asker| !asker.is_closed());
        self.askers.all.push(asker);
        if !std::mem::replace(&mut self.askers.is_asked, true) {
            self.ask(self.era().greeting(), json!({}), Owner::Check);
        }
    }

    /// It has answered.
    pub(super) fn checked(&mut self) -> Effect {
        Effect::Checked(std::mem::take(&mut self.askers))
    }
}
