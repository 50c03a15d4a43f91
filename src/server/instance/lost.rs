//! Requests that are not answered because of what happened on their way, which only a server that is reached by HTTP has.

use crate::server::call::Failure;
use crate::transport::http::Lost;
use reqwest::StatusCode;

use super::{Effect, Instance, Owner};
use crate::jsonrpc::pending::Taken;

impl Instance {
    /// Ends the request of this id.
    pub(in crate::server) fn lost(&mut self, request: u64, lost: Lost) -> Effect {
        let id = request.to_string();
        match self.pending.take(id.as_bytes()) {
            Taken::Owner(Owner::Call(call)) => {
                let (failure, sent) = failure(lost);
                self.fail_sent(call, failure, sent);
                Effect::Nothing
            }
            Taken::Owner(owner) => self.own_request_failed(owner),
            Taken::Stray => {
                self.given_up.answered(id.as_bytes());
                Effect::Nothing
            }
        }
    }
}

/// What it is for the agent, and whether the server may have done what it was asked.
fn failure(lost: Lost) -> (Failure, bool) {
    match lost {
        Lost::NotSent { reason } => (Failure::Unavailable { reason, retry_after: None }, false),
        Lost::Cut { reason } => (Failure::Died { how: reason }, true),
        Lost::TooLarge => (Failure::AnswerTooLarge, true),
        Lost::NoAnswer => (Failure::AnswerMalformed, true),
        Lost::Status { status, retry_after, said } => {
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            let reason = format!("it answers with HTTP {status}{said}");
            let is_refusal = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
            if is_refusal {
                (Failure::Unavailable { reason, retry_after }, false)
            } else {
                (Failure::Status { status: reason }, true)
            }
        }
    }
}
