//! Lines of the agent that are too long to be kept: they are forwarded in parts, or refused.

use bytes::Bytes;

use super::{Relay, State, gone, overloaded};
use crate::jsonrpc::codec::LineEnds;
use crate::jsonrpc::oversize;
use crate::shim::request::Request;

/// The state of such a line before its end.
#[derive(Debug, PartialEq)]
pub(super) enum OversizedLine {
    Forwarded,
    /// There was no daemon.
    Refused,
    /// The daemon was lost meanwhile.
    Lost,
}

impl Relay {
    pub(super) fn agent_part(&mut self, part: Bytes) {
        let is_live = self.state == State::Connected;
        let state =
            self.oversized.get_or_insert(if is_live { OversizedLine::Forwarded } else { OversizedLine::Refused });
        if *state == OversizedLine::Forwarded {
            self.to_daemon.push(part);
        }
    }

    pub(super) fn agent_oversized_ended(&mut self, LineEnds { head, tail, .. }: &LineEnds) {
        let state = self.oversized.take();
        let Some(id) = oversize::id(head, tail) else { return };
        if oversize::is_response(head) {
            return self.memory.daemon_request_ended(&id);
        }
        let request = Request::plain(id);
        match state {
            // It is partly written, or too large to be parked.
            Some(OversizedLine::Forwarded) => self.in_flight.push(0, None, request, None),
            Some(OversizedLine::Lost) => self.refuse(&request, &gone()),
            Some(OversizedLine::Refused) | None => {
                self.refuse(&request, &overloaded("the message is too large to wait for mcpd"))
            }
        }
    }
}
