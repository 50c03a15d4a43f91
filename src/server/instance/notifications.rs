//! Notifications: of the server to agents, and of agents to the server.
//!
//! A notification of an extension may name requests by their ids or progress tokens. mcpd assigns both at a server, so each is translated.
//! One that names no pending request belongs to a request that has ended.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::attribution::{LogRecipient, MessageOwner, level_of};
use super::pending_request::{PendingCall, PendingRequest};
use super::subscriptions::Acknowledgement;
use super::{Effect, Effects, Instance, Recipients};
use crate::client_capabilities::ClientCapability;
use crate::config::Sharing;
use crate::era::Era;
use crate::era::subscription::without_subscription;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::normalise::own_id;
use crate::jsonrpc::splice::{Change, Edit, applied, splice};
use crate::methods;
use crate::server::fairness::MAX_IN_FLIGHT;
use crate::server::messages::server_notification::{ExtensionNotification, ResourceUpdate, ServerNotification};

/// Queued lines for a server that does not read, beyond which it gets no notifications of agents.
const MAX_NOTIFICATIONS: usize = MAX_IN_FLIGHT;

/// Notifications of the server.
impl Instance {
    /// Takes a notification of the server.
    pub(super) fn handle_notification(&mut self, line: Bytes, method: &Bytes, params: Option<Bytes>) -> Effects {
        match &method[..] {
            b"notifications/progress" => self.forward_progress(&line, params.as_ref()),
            b"notifications/message" => return self.forward_log_message(line, params),
            b"notifications/tasks/status" => self.note_task_status(&line, params.as_ref()),
            b"notifications/subscriptions/acknowledged" => {
                let Some(acknowledged) = self.subscriptions.acknowledged(&mut self.wire, params.as_ref()) else {
                    return Effects::none();
                };
                if acknowledged.lists_may_have_changed {
                    self.lists.mark_all_changed();
                }
                let Acknowledgement { accepted, refused, .. } = acknowledged;
                return Effect::TopicsAnswered { accepted, refused }.into();
            }
            b"notifications/tasks" => return self.forward_modern_task_status(&line, params.as_ref()),
            b"notifications/resources/updated" => return self.forward_update(&line, params.as_ref()),
            b"notifications/cancelled" if self.wire.era() == Era::Modern => {
                self.subscriptions.cancelled_by_server(&mut self.wire, params.as_ref());
            }
            b"notifications/cancelled" => {
                if let Some(id) = self.forwarded_requests.cancelled_by_server(line, params.as_ref()) {
                    self.wire
                        .calls_mut()
                        .filter_map(|call| call.bridge.as_mut())
                        .for_each(|bridge| bridge.state.withdraw(&id));
                }
            }
            b"notifications/elicitation/complete" => {
                self.forwarded_requests.elicitation_completed(&line, params.as_ref());
            }
            _ if methods::may_be_extension_notification(method) => {
                return self.forward_of_extension(&line, method, params.as_ref());
            }
            _ if self.subscriptions.is_expected(&self.wire, params.as_ref()) => self.lists.notified(method),
            _ => {}
        }
        Effects::none()
    }

    /// A notification of an extension goes to the agent whose calls it names, to the agent of the instance, or to the agents of one user.
    fn forward_of_extension(&mut self, line: &Bytes, method: &Bytes, params: Option<&Bytes>) -> Effects {
        let era = self.wire.era();
        let Some((named, line)) = self.translate_to_agent(line, params) else { return Effects::none() };
        let recipients = match named.or_else(|| self.attribution.known_owner(&self.workload())) {
            Some(owner) => Recipients::Owner(owner),
            // A modern server may send notifications only about requests and subscriptions.
            None if era == Era::Modern => return Effects::none(),
            None => Recipients::OneUser,
        };
        let (server, method) = (Arc::clone(&self.config.name), Arc::from(&*String::from_utf8_lossy(method)));
        let notification = ExtensionNotification { server, era, method, line };
        Effect::Notify { notification: ServerNotification::Extension(Box::new(notification)), recipients }.into()
    }

    /// A notification with the agent's own ids and tokens of the calls that it names, and the agent, if it names any. `None` if it names
    /// one that is not pending, or calls of several agents.
    fn translate_to_agent(&mut self, line: &Bytes, params: Option<&Bytes>) -> Option<(Option<MessageOwner>, Bytes)> {
        let (mut owner, mut changes) = (None::<MessageOwner>, Vec::new());
        for reference in Reference::all(params)? {
            let Some(PendingRequest::Call(call)) = self.wire.get_mut(&reference.raw) else { return None };
            let replacement = reference.at_agent(call)?.clone();
            let (session, to) = (call.response_handle.key.session, call.response_handle.to().cloned());
            if owner.is_some_and(|owner| owner.session != session) {
                return None;
            }
            owner = Some(MessageOwner { session, to });
            changes.push(Change { part: reference.raw, replacement });
        }
        Some((owner, splice(line, &mut changes.iter().map(Change::edit).collect::<Vec<_>>())))
    }

    /// Forwards the notification of a changed resource to its subscribers.
    fn forward_update(&self, line: &Bytes, params: Option<&Bytes>) -> Effects {
        let Some(Ok([Some(uri)])) = params.map(|params| members(params, ["uri"])) else { return Effects::none() };
        let Some(uri) = text(&uri) else { return Effects::none() };
        let line = match self.wire.era() {
            Era::Legacy => splice(line, &mut []),
            Era::Modern if !self.subscriptions.is_expected(&self.wire, params) => return Effects::none(),
            Era::Modern => splice(&Bytes::from(applied(line, &without_subscription(params))), &mut []),
        };
        let update = ResourceUpdate { server: self.config.name.clone(), uri: uri.clone(), line };
        let notification = ServerNotification::Updated(Box::new(update));
        Effect::Notify { notification, recipients: Recipients::ResourceSubscribers(uri) }.into()
    }

    /// Forwards progress to the call or task with this token, and restarts the time limit of the call or task.
    fn forward_progress(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(token)])) = params.map(|params| members(params, ["progressToken"])) else { return };
        let own = own_id(&token).unwrap_or(&token);
        let Some(call) = self.wire.get_mut(own).and_then(PendingRequest::call_mut) else {
            return self.tasks.forward_progress(&mut self.wire, line, &token);
        };
        let Some(agent_token) = &call.progress_token else { return };
        call.deadline.extend(Instant::now());
        let line = splice(line, &mut [Edit { part: &token, replacement: agent_token }]);
        call.response_handle.notify(line);
    }

    fn forward_log_message(&self, line: Bytes, params: Option<Bytes>) -> Effects {
        match self.attribution.log_recipient(&self.workload(), params.as_ref(), Instant::now()) {
            LogRecipient::Call(call) => call.response_handle.notify(splice(&line, &mut [])),
            LogRecipient::Session(owner) => {
                let to_all = (self.config.settings.sharing == Sharing::Session).then_some(Recipients::All);
                if let Some(recipients) = to_all.or(owner.map(Recipients::Owner)) {
                    let level = level_of(params.as_ref());
                    let notification = ServerNotification::Logged { level, line: splice(&line, &mut []) };
                    return Effect::Notify { notification, recipients }.into();
                }
            }
            LogRecipient::Nobody => {}
        }
        Effects::none()
    }
}

/// Notifications of agents.
impl Instance {
    /// An agent of this era has sent a notification of an extension. It is dropped if it names a request that is not a pending one of the
    /// agent, or if the server does not read.
    pub(in crate::server) fn forward_notification(&mut self, session: u64, era: Era, line: &Bytes) {
        let is_connected = self.wire.era() == era && self.wire.protocol().is_some();
        if !is_connected || self.wire.unwritten_lines() >= MAX_NOTIFICATIONS {
            return;
        }
        let Ok([params]) = members(line, ["params"]) else { return };
        let change = |reference: Reference| {
            let is_it = |call: &PendingCall| {
                call.response_handle.key.session == session && reference.at_agent(call) == Some(&reference.raw)
            };
            let (id, _) = self.wire.calls().find(|(_, call)| is_it(call))?;
            Some(Change { part: reference.raw, replacement: id.to_string().into() })
        };
        let references = Reference::all(params.as_ref());
        let changes = references.and_then(|all| all.into_iter().map(change).collect::<Option<Vec<_>>>());
        if let Some(changes) = changes {
            self.wire.try_queue_line(splice(line, &mut changes.iter().map(Change::edit).collect::<Vec<_>>()));
        }
    }

    /// The roots of an agent have changed. The server is notified if it serves this agent alone.
    pub(in crate::server) fn roots_changed(&mut self, session: u64, line: &Bytes) {
        let agent = self.attribution.agent().filter(|agent| agent.session == session);
        if agent.is_some_and(|agent| agent.capabilities.include(ClientCapability::Roots)) {
            self.wire.try_queue_line(splice(line, &mut []));
        }
    }
}

/// An id or token of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference {
    /// Raw: a slice of the params.
    raw: Bytes,
    is_token: bool,
}

impl Reference {
    /// The references in these params; `None` if they are malformed.
    fn all(params: Option<&Bytes>) -> Option<Vec<Self>> {
        let Some(params) = params else { return Some(Vec::new()) };
        let [id, token, meta] = members(params, ["requestId", "progressToken", "_meta"]).ok()?;
        let in_meta = match meta.filter(|meta| meta.starts_with(b"{")) {
            Some(meta) => members(&meta, ["progressToken"]).ok()?[0].take(),
            None => None,
        };
        let id = id.map(|raw| Self { raw, is_token: false });
        let tokens = [token, in_meta].into_iter().flatten().map(|raw| Self { raw, is_token: true });
        Some(id.into_iter().chain(tokens).collect())
    }

    /// The agent's own id or token of this call; `None` if the call has no token.
    fn at_agent<'a>(&self, call: &'a PendingCall) -> Option<&'a Bytes> {
        if self.is_token { call.progress_token.as_ref() } else { Some(call.response_handle.id()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tokens_are_found_wherever_they_are() {
        for (params, expected) in [
            (r#"{"requestId":1,"k":{"requestId":2}}"#, Some(vec![("1", false)])),
            (r#"{"progressToken":"t","_meta":{"progressToken":3}}"#, Some(vec![("\"t\"", true), ("3", true)])),
            (r#"{"_meta":null}"#, Some(vec![])),
            (r#"{"requestId":1,"requestId":2}"#, None),
            (r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, None),
            ("[]", None),
        ] {
            let found = Reference::all(Some(&Bytes::from_static(params.as_bytes())));
            let reference =
                |(raw, is_token): (&'static str, bool)| Reference { raw: Bytes::from_static(raw.as_bytes()), is_token };
            let expected = expected.map(|all| all.into_iter().map(reference).collect());
            assert_eq!(found, expected, "{params}");
        }
        assert_eq!(Reference::all(None), Some(Vec::new()));
    }
}
