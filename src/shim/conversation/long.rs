//! Lines of the agent that are too long to be kept: they pass as they come, or not at all.

use bytes::Bytes;

use super::{Conversation, Stage, gone, overloaded};
use crate::jsonrpc::codec::Oversized;
use crate::jsonrpc::oversize;
use crate::shim::asking::Asking;

/// What becomes of a line that is passed on before its end has come.
#[derive(Debug, PartialEq)]
pub(super) enum Long {
    Passed,
    /// There was nobody to pass it to.
    Refused,
    /// Whom it was passed to has gone.
    Lost,
}

impl Conversation {
    pub(super) fn agent_part(&mut self, part: Bytes) {
        let is_live = self.stage == Stage::Live;
        let fate = self.long.get_or_insert(if is_live { Long::Passed } else { Long::Refused });
        if *fate == Long::Passed {
            self.to_daemon.push(part);
        }
    }

    pub(super) fn agent_long_ended(&mut self, Oversized { head, tail }: &Oversized) {
        let fate = self.long.take();
        let Some(id) = oversize::id(head, tail) else { return };
        if oversize::is_response(head) {
            return self.memory.question_ended(&id);
        }
        let asking = Asking::plain(id);
        match fate {
            // It has begun to be written, or is too large to wait.
            Some(Long::Passed) => self.unanswered.push(0, None, asking, None),
            Some(Long::Lost) => self.refuse(&asking, &gone()),
            Some(Long::Refused) | None => {
                self.refuse(&asking, &overloaded("the message is too large to wait for mcpd"))
            }
        }
    }
}
