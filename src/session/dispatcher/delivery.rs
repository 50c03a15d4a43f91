//! Messages of servers to the agent: responses, notifications and requests.

use std::sync::Arc;

use bytes::Bytes;

use super::Session;
use crate::calls::CallOutcome;
use crate::catalog::visible_response;
use crate::client_capabilities::ClientCapability;
use crate::era::Era;
use crate::jsonrpc::error_in;
use crate::jsonrpc::mcpd_error::{Delivery, is_refusal_of_stopping_daemon};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use crate::manager::Member;
use crate::methods::{ELICITATION_COMPLETE, TASK_STATUS};
use crate::server::messages::call::{CallError, CallKey, Failure, ToAgent};
use crate::server::messages::server_notification::{
    ExtensionNotification, LegacyTaskStatus, ResourceUpdate, ServerNotification,
};
use crate::server::messages::tasks::TaskEvent;
use crate::server::server_request::ForwardedRequest;
use crate::session::output::{OutgoingNotification, Output};
use crate::session::results::{self, invalid};
use crate::session::transport::{Address, Transport};
use crate::session::unanswered::{OnResponse, SkillRequest, UnansweredCall};

impl<T: Transport> Session<T> {
    pub(super) fn deliver(&mut self, message: ToAgent) {
        match message {
            ToAgent::Response { key, line, outcome, task, .. } => self.deliver_response(key, line, outcome, task),
            ToAgent::CallNotification { key, line } => self.notify(OutgoingNotification { key: Some(key), line }),
            ToAgent::ServerNotification(notification) => self.deliver_notification(notification),
            ToAgent::Request(request) if !self.permits_request(&request) => {
                request.response_handle.refuse_undeclared(request.capability);
            }
            ToAgent::Request(request) => {
                self.server_requests.receive(*request, &self.agent, &mut self.output, &mut self.events);
            }
        }
    }

    /// Whether policy permits the request. Only extensions can be hidden.
    fn permits_request(&self, request: &ForwardedRequest) -> bool {
        let method = || members(&request.line, ["method"]).ok().and_then(|[method]| text(&method?));
        request.capability != ClientCapability::Extension
            || method().is_some_and(|method| {
                let (server, method) = (request.response_handle.server(), String::from_utf8_lossy(&method));
                self.view.legacy().permits_message(server, &method, Era::Legacy)
            })
    }

    /// Answers the agent with the response of a server. A cancelled call gets nothing. Its id may be in use again, so the call is found
    /// by its key.
    fn deliver_response(&mut self, key: CallKey, line: Bytes, outcome: CallOutcome, task: Option<Box<TaskEvent>>) {
        let (output, address) = self.output_and_address();
        output.flush_or_drop_delayed(key, address);
        let Some((id, call)) = self.unanswered.remove_call(key) else {
            let (tasks, context) = self.task_pages();
            return tasks.polled(key, outcome, task.map(|task| *task), context);
        };
        let is_unknown = outcome == CallOutcome::Error { code: Some(METHOD_NOT_FOUND.into()) };
        let lacks = |path: &[&str]| is_unknown && !call.server.published().declares(path);
        let (line, outcome) = match &call.on_response {
            OnResponse::ReplaceTaskId(replacement) => {
                (self.tasks.tokens().replace_id(replacement, task.as_deref(), line), outcome)
            }
            // The agent sees these capabilities because another server has them, or because its server was not known yet, so −32601 is
            // replaced.
            OnResponse::Completion(era) if lacks(&["completions"]) => {
                (results::empty_completion(&id, *era), CallOutcome::Ok)
            }
            OnResponse::Subscription(_) if lacks(&["resources", "subscribe"]) => {
                let refusal = no_subscriptions(call.server.name());
                (reply::error(Some(&id), &refusal), CallOutcome::Error { code: Some(refusal.code.into()) })
            }
            OnResponse::Skill(sent) => (self.visible_skill(sent, call.server.name(), line), outcome),
            _ => (line, outcome),
        };
        let early = task.map_or_else(|| Ok(Vec::new()), |task| self.tasks.apply_response(&call, *task));
        let (line, outcome) = match early {
            Ok(early) => {
                if self.agent.version_has(TASK_STATUS) {
                    early.into_iter().for_each(|line| self.notify_line(line));
                }
                (line, outcome)
            }
            Err(error) => (reply::error(Some(&id), &error), CallOutcome::Malformed),
        };
        let UnansweredCall { server, record, on_response, .. } = call;
        let is_subrequest = matches!(on_response, OnResponse::Subrequest);
        let is_success = matches!(outcome, CallOutcome::Ok | CallOutcome::ToolError);
        if let OnResponse::Topic(topic) = on_response {
            self.recorder.end(record, Some(&server), outcome, line.len());
            self.subscriptions.record_topic(&id, is_success.then_some((&*topic, &server)));
            // The server may have been replaced meanwhile.
            self.update_subscriptions();
            return self.continue_listen(&id);
        }
        if let OnResponse::Subscription(subscription) = on_response
            && is_success
            && self.subscriptions.resources_mut().accepted(*subscription, &server)
        {
            // The server may have been replaced meanwhile, or may have ended the subscription for others, too.
            self.update_subscriptions();
        }
        let (line, outcome) = match self.refused_response(&line, outcome, server.name(), is_subrequest) {
            Some((error, outcome)) => (reply::error(Some(&id), &error), outcome),
            None => (line, outcome),
        };
        self.recorder.end(record, Some(&server), outcome, line.len());
        if is_subrequest {
            return self.record_part(&id, key, &line);
        }
        if matches!(outcome, CallOutcome::Ok | CallOutcome::ToolError) {
            self.view.note_result(server.name(), &line);
        }
        self.output.respond_line(&id, line);
    }

    /// The error in place of a response that the agent may not receive: it claims to be of mcpd, or is too large.
    fn refused_response(
        &self,
        line: &Bytes,
        outcome: CallOutcome,
        server: &Arc<str>,
        is_subrequest: bool,
    ) -> Option<(ErrorObject, CallOutcome)> {
        if matches!(outcome, CallOutcome::Error { .. }) && speaks_for_daemon(line) {
            return Some((reserved(server), CallOutcome::Malformed));
        }
        let limit = Some(self.output.limit()).filter(|limit| !is_subrequest && !limit.permits(line))?;
        let failure = Failure::ResponseTooLarge { size: Some(line.len() - 1), limit: limit.clone() };
        let error = CallError { server: Arc::clone(server), failure, may_have_arrived: true };
        Some((error.to_object(), CallOutcome::TooLarge))
    }

    /// The response of a server with rules on skills, without what policy hides. An unknown skill gets the same bytes as a denied one.
    fn visible_skill(&self, sent: &SkillRequest, server: &str, line: Bytes) -> Bytes {
        let view = self.view.of(sent.era, sent.face.as_ref());
        let member = view.servers.iter().find(|member| *member.config.name == *server);
        match (member, error_in(&line)) {
            (Some(Member { config, .. }), None) => {
                visible_response(&line, &config.policy).unwrap_or(sent.unknown.clone())
            }
            (Some(Member { config, .. }), Some(error)) if config.policy.narrows_skills() && means_unknown(&error) => {
                sent.unknown.clone()
            }
            (Some(_), Some(_)) => line,
            (None, _) => sent.unknown.clone(),
        }
    }

    fn deliver_notification(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::Updated(updated) => self.deliver_update(*updated),
            // A message of an unknown level is always sent.
            ServerNotification::Logged { level: Some(level), .. }
                if self.agent.level().is_some_and(|least| level < least) => {}
            ServerNotification::Logged { line, .. } => self.notify_line(line),
            ServerNotification::ElicitationCompleted(line) => {
                if self.agent.version_has(ELICITATION_COMPLETE) {
                    self.notify_line(line);
                }
            }
            ServerNotification::LegacyTaskStatus(status) => {
                let LegacyTaskStatus { state, line } = *status;
                if self.tasks.update(state, &self.view.legacy()) && self.agent.version_has(TASK_STATUS) {
                    self.notify_line(line);
                }
            }
            ServerNotification::ModernTaskStatus(update) => {
                self.view.note_result(&update.server, &update.line);
                let notifications = self.subscriptions.task_updated(&update, &self.view);
                notifications.into_iter().for_each(|notification| self.notify(notification));
            }
            ServerNotification::Extension(notification) => {
                let ExtensionNotification { server, era, method, line } = *notification;
                let is_listening = era == Era::Modern || self.agent.is_ready();
                if is_listening && self.view.of(era, None).permits_message(&server, &method, era) {
                    self.notify_line(line);
                }
            }
        }
    }

    fn deliver_update(&mut self, ResourceUpdate { server, uri, line }: ResourceUpdate) {
        if !self.view.permits_resource(&server, &uri) {
            return;
        }
        let notifications = self.subscriptions.resource_updated(&uri, &line);
        notifications.into_iter().for_each(|notification| self.notify(notification));
        if self.subscriptions.resources().include(&uri, &self.unanswered) {
            self.notify_line(line);
        }
    }

    /// Sends a notification. An agent that is behind loses the oldest.
    fn notify(&mut self, notification: OutgoingNotification) {
        let (output, address) = self.output_and_address();
        output.notify(notification, address);
    }

    /// Sends a notification of no call.
    fn notify_line(&mut self, line: Bytes) {
        self.notify(OutgoingNotification { key: None, line });
    }

    /// The output, and what a notification of the call or subscription with this key belongs to. `None` if it may not be sent any more.
    pub(super) fn output_and_address<'a>(&'a mut self) -> (&'a mut Output<T>, impl Fn(CallKey) -> Option<Address<'a>>) {
        let Self { output, unanswered, tasks, subscriptions, view, .. } = self;
        let (unanswered, tasks, subscriptions, view) = (&*unanswered, &*tasks, &*subscriptions, &*view);
        let address = move |key| {
            let of_task = || tasks.has_running_task(key, &view.legacy()).then_some(Address::Session);
            let id = unanswered.id_of(key).or_else(|| subscriptions.id_of(key));
            id.map(Address::DuringCall).or_else(of_task)
        };
        (output, address)
    }
}

/// Whether a raw error means that the server does not have the requested item.
fn means_unknown(error: &Bytes) -> bool {
    let error = serde_json::from_slice::<ErrorObject>(error);
    error.is_ok_and(|error| matches!(error.code, INVALID_PARAMS | RESOURCE_NOT_FOUND))
}

/// Whether an error of a server claims that the daemon is stopping: `mcpd connect` would resend requests because of it.
fn speaks_for_daemon(line: &Bytes) -> bool {
    error_in(line).is_some_and(|error| is_refusal_of_stopping_daemon(&error))
}

fn reserved(server: &str) -> ErrorObject {
    let message = format!("server `{server}` answered with an error that is reserved for mcpd");
    ErrorObject::new(INTERNAL_ERROR, message).about_server(server).with_delivery(Delivery::Unknown)
}

fn no_subscriptions(server: &str) -> ErrorObject {
    invalid(format!("server `{server}` does not support resource subscriptions")).about_server(server)
}
