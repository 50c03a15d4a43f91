//! Requests of agents about tasks, and reports of the server about them.

use bytes::Bytes;

use super::pending_request::PendingRequest;
use super::tasks::Lookup;
use super::{Effect, Effects, Instance, Recipients};
use crate::era::Era;
use crate::era::subscription::without_subscription;
use crate::jsonrpc::splice::applied;
use crate::server::messages::call::{Call, CallKey, RequestKind};
use crate::server::messages::server_notification::{ModernTaskStatus, ServerNotification};
use crate::task_state::TaskState;

impl Instance {
    /// Forwards a request of a legacy agent about a task, if this instance has created the task for the agent.
    pub(in crate::server) fn request_about_task(&mut self, call: Box<Call>) -> Effects {
        let RequestKind::LegacyTask(task_request) = &call.kind else { return Effects::none() };
        match self.tasks.look_up(call.response_handle.key.session, task_request) {
            Lookup::Unknown => call.refuse_unknown_task(),
            Lookup::NotCancellable => call.refuse_with(&self.tasks.cancellation_refusal(&self.config.name)),
            Lookup::Forward => return self.call(call),
        }
        Effects::none()
    }

    /// A legacy server reports the status of a task.
    pub(super) fn note_task_status(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(state) = params.and_then(TaskState::read) else { return self.stats().stray_notifications.add_one() };
        let may_create = self.may_create_tasks();
        let dropped = self.tasks.note_status(&mut self.wire, line, state, may_create);
        self.stats().stray_notifications.add(dropped);
    }

    /// A modern server reports the status of a task to clients that listen for it.
    ///
    /// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".
    pub(super) fn forward_modern_task_status(&mut self, line: &Bytes, params: Option<&Bytes>) -> Effects {
        if !self.subscriptions.is_of_stream(params) {
            return Effects::none();
        }
        let Some((id, ended)) = self.tasks.note_modern_status(params) else { return Effects::none() };
        if ended {
            self.subscriptions.task_ended(&id);
        }
        let line = Bytes::from(applied(line, &without_subscription(params)));
        let (server, instance_tag) = (self.config.name.clone(), self.tag);
        let status = ModernTaskStatus { server, instance_tag, id: id.clone(), line };
        let notification = ServerNotification::ModernTaskStatus(Box::new(status));
        Effect::Notify { notification, recipients: Recipients::TaskSubscribers { id, ended } }.into()
    }

    /// An agent subscribes to a task. Returns whether the server can report it.
    pub(in crate::server) fn subscribe_task(&mut self, id: &Bytes) -> bool {
        let is_modern = self.wire.era() == Era::Modern;
        if is_modern {
            self.subscriptions.subscribe_task(id);
        }
        is_modern
    }

    /// The last subscriber of a task has gone.
    pub(in crate::server) fn unsubscribe_task(&mut self, id: &Bytes) {
        self.subscriptions.unsubscribe_task(id);
    }

    /// Whether a call may be answered with a task that is not known yet.
    fn may_create_tasks(&self) -> bool {
        self.tasks.support().declared && self.wire.has_pending(PendingRequest::creates_task)
    }

    /// Drops notifications about unknown tasks, unless a call is pending that may have created them.
    pub(super) fn drop_early_tasks(&mut self) {
        if !self.may_create_tasks() {
            let dropped = self.tasks.drop_early();
            self.stats().stray_notifications.add(dropped);
        }
    }

    /// An agent has missed the response that a task was created for it.
    pub(in crate::server) fn drop_task(&mut self, session: u64, id: &Bytes) {
        if let Some(task) = self.tasks.of_session(session, id) {
            self.disown_task(task);
        }
    }

    /// A call has ended whose agent does not know of the task that the call has created.
    pub(super) fn drop_task_of(&mut self, key: CallKey) {
        if let Some(task) = self.tasks.created_by(key) {
            self.disown_task(task);
        }
        self.tasks.forget_modern(key);
    }

    /// An agent has disconnected. No agent can request its tasks any more.
    pub(in crate::server) fn drop_tasks(&mut self, session: u64) {
        for task_key in self.tasks.all_of_session(session) {
            self.disown_task(task_key);
        }
    }

    pub(super) fn disown_task(&mut self, task_key: u64) {
        let deadline = self.request_deadline();
        self.tasks.disown(&mut self.wire, task_key, deadline);
    }
}
