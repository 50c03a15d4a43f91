//! Notifications of a server: progress, log messages, changes of lists, resources and tasks, and cancellations.

use bytes::Bytes;

use super::{Effect, Instance};
use crate::era::Era;
use crate::era::notification::without_subscription;
use crate::era::task::Status;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::applied;

impl Instance {
    pub(super) fn notification(&mut self, line: Bytes, method: &Bytes, params: Option<Bytes>) -> Effect {
        match &method[..] {
            b"notifications/progress" => self.progress(&line, params.as_ref()),
            b"notifications/message" => return self.log_message(line, params),
            b"notifications/tasks/status" => self.task_status(&line, params.as_ref()),
            b"notifications/subscriptions/acknowledged" => return self.acknowledged(params.as_ref()),
            b"notifications/tasks" => return self.task_reported(&line, params.as_ref()),
            b"notifications/resources/updated" => return self.updated(line, params),
            b"notifications/cancelled" if self.wire.era() == Era::Modern => {
                self.subscriptions.cancelled_by_server(&mut self.wire, params.as_ref());
            }
            b"notifications/cancelled" => {
                if let Some(id) = self.server_requests.cancelled_by_server(line, params.as_ref()) {
                    self.withdraw_held(&id);
                }
            }
            b"notifications/elicitation/complete" => {
                self.server_requests.elicitation_completed(&line, params.as_ref());
            }
            _ if self.subscriptions.is_expected(&self.wire, params.as_ref()) => self.lists.notified(method),
            _ => {}
        }
        Effect::Nothing
    }

    fn acknowledged(&mut self, params: Option<&Bytes>) -> Effect {
        let Some(acknowledgement) = self.subscriptions.acknowledged(&mut self.wire, params) else {
            return Effect::Nothing;
        };
        if acknowledgement.lists_may_have_changed {
            self.lists.have_changed();
        }
        Effect::Acknowledged { accepted: acknowledgement.accepted, refused: acknowledgement.refused }
    }

    /// A resource has changed.
    fn updated(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        match self.wire.era() {
            Era::Legacy => Effect::Updated { line, params },
            Era::Modern if !self.subscriptions.is_expected(&self.wire, params.as_ref()) => Effect::Nothing,
            Era::Modern => {
                let line = applied(&line, &without_subscription(params.as_ref())).into();
                Effect::Updated { line, params }
            }
        }
    }

    /// The state of a task, which a modern server reports only to clients that listen for it.
    ///
    /// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".
    fn task_reported(&mut self, line: &Bytes, params: Option<&Bytes>) -> Effect {
        let id = params.and_then(|params| members(params, ["taskId"]).ok()).and_then(|[raw]| text(&raw?));
        let (true, Some(id)) = (self.subscriptions.is_of_stream(params), id) else { return Effect::Nothing };
        let status = params.and_then(Status::read);
        let ended = matches!(status, Some(Status::Completed(_) | Status::Failed(_) | Status::Cancelled));
        if ended {
            self.subscriptions.task_ended(&id);
            self.stated.at_work.end(&id);
        }
        Effect::TaskTold { line: applied(line, &without_subscription(params)).into(), id, ended }
    }
}
