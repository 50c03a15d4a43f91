//! What a server says that answers nothing: progress, log messages, changes of lists, resources and tasks, and what it withdraws.

use bytes::Bytes;

use super::{Effect, Instance};
use crate::era::Era;

impl Instance {
    pub(super) fn notification(&mut self, line: Bytes, method: &Bytes, params: Option<Bytes>) -> Effect {
        match &method[..] {
            b"notifications/progress" => self.progress(&line, params.as_ref()),
            b"notifications/message" => return self.log_message(line, params),
            b"notifications/tasks/status" => self.task_status(&line, params.as_ref()),
            b"notifications/subscriptions/acknowledged" => return self.acknowledged(params.as_ref()),
            b"notifications/tasks" => return self.task_told(&line, params.as_ref()),
            b"notifications/resources/updated" => return self.updated(line, params),
            b"notifications/cancelled" if self.wire.era() == Era::Modern => self.withdrawn_by_server(params.as_ref()),
            b"notifications/cancelled" => self.withdraw_question(line, params.as_ref()),
            b"notifications/elicitation/complete" => self.completed(&line, params.as_ref()),
            _ if self.is_heard(params.as_ref()) => self.lists.notified(method),
            _ => {}
        }
        Effect::Nothing
    }
}
