//! Sends a fan-out request to its servers page by page, and answers the agent with the merged list. Subscribes to
//! the resources of a `subscriptions/listen` at their servers, then acknowledges it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{ServerCommand, Session};
use crate::account::Cost;
use crate::calls::CallOutcome;
use crate::clock::Moment;
use crate::config::CallLimit;
use crate::era::subscription::ListenFilter;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::reply;
use crate::manager::{Member, View};
use crate::message_limit::list_bytes;
use crate::server::messages::call::{AccessTarget, CallError, CallKey, Failure};
use crate::server::server_request::Cancellation;
use crate::server::{ResourceSubscriptionChange, ServerHandle, SubscriptionChange};
use crate::session::fan_out::{FanOut, FanOutStep, MergedList};
use crate::session::received_call::ReceivedCall;
use crate::session::results;
use crate::session::router::Destination;
use crate::session::transport::{Address, Transport};
use crate::session::unanswered::{OnResponse, UnansweredCall};

impl<T: Transport> Session<T> {
    /// Sends a request for a list of an extension to several servers. It counts as one call.
    pub(super) fn fan_out(&mut self, request: ReceivedCall, extension: Arc<str>, servers: &[usize], view: &View) {
        let began = Instant::now();
        let charge = match self.unanswered.charge(Cost::Message(request.line.len())) {
            Ok(charge) => charge,
            Err(over) => return self.output.respond_error(Some(&request.id), &over.to_object(Delivery::NotSent)),
        };
        self.agent.count_call();
        let mut sent = Vec::new();
        for member in servers.iter().filter_map(|server| view.servers.get(*server)) {
            // The others do not wait for a server that is down.
            let subrequest = match member.failure() {
                Some(failure) if servers.len() > 1 => Err(failed_part(&request, member, failure)),
                _ => self.send_subrequest(&request, &extension, began, None, member, view),
            };
            sent.push((Arc::clone(&member.config.name), subrequest));
        }
        let (id, max_message) = (request.id.clone(), list_bytes(self.output.limit().bytes()));
        let fan_out = FanOut::new(request, extension, began, sent, max_message, charge);
        self.unanswered.fan_outs_mut().add(fan_out);
        let next = self.unanswered.fan_outs_mut().take_if_complete(&id);
        self.advance_fan_out(next);
    }

    /// Sends one server its part of a request whose first parts were sent at `began`. The error is a response line.
    fn send_subrequest(
        &mut self,
        request: &ReceivedCall,
        extension: &Arc<str>,
        began: Instant,
        cursor: Option<&Bytes>,
        member: &Member,
        view: &View,
    ) -> Result<CallKey, Bytes> {
        let subrequest =
            request.subrequest(cursor).map_err(|error| reply::error(Some(&request.id), &error.to_object()))?;
        // Like lists that mcpd itself requests, so that a slow server delays the others a little only. All pages together have this time.
        let after = member.config.settings.handshake_timeout;
        let total = after.saturating_sub(began.elapsed());
        if total.is_zero() {
            return Err(failed_part(request, member, Failure::TimedOut { after }));
        }
        let time_limits = CallLimit { progress_timeout: total, total };
        let access = Some(AccessTarget::Extension { id: Some(Arc::clone(extension)), items: Vec::new() });
        let to = Destination { time_limits, ..Destination::of(member, access) };
        self.send_call(subrequest, to, view, Some(OnResponse::Subrequest)).map_err(|unsent| unsent.line)
    }

    /// A server has answered the subrequest of the request with this raw id.
    pub(super) fn record_part(&mut self, id: &Bytes, key: CallKey, line: &Bytes) {
        let next = self.unanswered.fan_outs_mut().answered(id, key, line);
        self.advance_fan_out(next);
    }

    fn advance_fan_out(&mut self, mut next: FanOutStep) {
        loop {
            match next {
                FanOutStep::Wait => return,
                FanOutStep::Complete(fan_out) => return self.answer_fan_out(fan_out),
                FanOutStep::Page { request, extension, server, cursor, began } => {
                    let view = self.view.of(request.era(), request.face.as_ref());
                    let member = view.servers.iter().find(|member| member.config.name == server);
                    let sent = match member.filter(|member| is_owner(&request, &extension, member)) {
                        Some(member) => self.send_subrequest(&request, &extension, began, Some(&cursor), member, &view),
                        None => Err(reply::error(Some(&request.id), &request.unknown())),
                    };
                    next = self.unanswered.fan_outs_mut().page_sent(&request.id, &server, sent);
                }
            }
        }
    }

    /// Answers a request for a list that every server has answered.
    fn answer_fan_out(&mut self, fan_out: FanOut) {
        fan_out.failed().for_each(|server| self.recorder.warn_of_incomplete_list(server));
        let (request, extension) = (fan_out.request.clone(), Arc::clone(&fan_out.extension));
        let line = match fan_out.merge() {
            Ok(MergedList { member, items, ttl }) => {
                let view = self.view.of(request.era(), request.face.as_ref());
                // Policy may have changed since the servers were sent the request.
                let is_current = |server: &Arc<str>| {
                    let member = view.servers.iter().find(|member| member.config.name == *server);
                    member.is_some_and(|member| is_owner(&request, &extension, member))
                };
                let current = items.into_iter().filter(|(server, _)| is_current(server));
                let items: Vec<Bytes> = current.flat_map(|(_, items)| items).collect();
                results::merged_list(&request.id, request.era(), &member, &items, ttl)
            }
            Err(line) => line.unwrap_or_else(|| reply::error(Some(&request.id), &request.unknown())),
        };
        self.output.respond_line(&request.id, line);
    }

    /// Cancels the calls for a request that several servers answer. `line` is the agent's cancellation.
    pub(super) fn cancel_subrequests(&mut self, id: &Bytes, line: &Bytes) {
        while let Some(UnansweredCall { key, server, record, on_response, .. }) = self.unanswered.remove(id) {
            self.recorder.end(record, Some(&server), CallOutcome::Cancelled, 0);
            server.cancel_soon(key, Some(Cancellation { line: line.clone(), request: id.clone() }));
            // The server may have accepted it already.
            if let OnResponse::Topic(topic) = on_response
                && !self.subscriptions.resources().contains(&topic.uri)
            {
                server.subscribe_soon(self.agent.for_servers(), ResourceSubscriptionChange { begins: false, ..*topic });
            }
        }
    }
}

/// Whether the server exposes this extension with the method of a request that several servers answer.
fn is_owner(request: &ReceivedCall, extension: &str, member: &Member) -> bool {
    let method = request.extension.as_ref().map(|extension| &*extension.method);
    method.is_some_and(|method| member.owner(method, request.era()).is_some_and(|owner| *owner == *extension))
}

/// The response line of a server that has not received its part of a request.
fn failed_part(request: &ReceivedCall, member: &Member, failure: Failure) -> Bytes {
    let server = Arc::clone(&member.config.name);
    let error = CallError { server, failure, may_have_arrived: false }.to_object();
    reply::error(Some(&request.id), &error)
}

impl<T: Transport> Session<T> {
    pub(super) fn begin_listen(&mut self, id: &Bytes, mut filter: ListenFilter, face: Option<Arc<str>>) {
        let charge = match self.unanswered.charge(Cost::Request(0)) {
            Ok(charge) => charge,
            Err(over) => return self.output.respond_error(Some(id), &over.to_object(Delivery::NotSent)),
        };
        let view = &self.view.modern(face.as_ref());
        filter.uris.retain(|(uri, _)| self.view.server_of_resource(uri, view).is_some());
        match self.subscriptions.listen((id, face, charge), filter, self.tasks.tokens(), view, &mut self.unanswered) {
            Ok(changes) => {
                for (server, _) in &changes {
                    self.view.attach_for_disconnect(server, self.agent.for_servers());
                }
                self.change_subscriptions(changes);
                self.continue_listen(id);
            }
            Err(over) => self.output.respond_error(Some(id), &over.to_object(Delivery::NotSent)),
        }
    }

    /// Requests the next resources of a `subscriptions/listen` from their servers. Acknowledges it once they have answered all.
    pub(super) fn continue_listen(&mut self, id: &Bytes) {
        loop {
            let topics = self.subscriptions.next_topics(id);
            if topics.is_empty() {
                break;
            }
            for (uri, raw) in topics {
                if self.request_topic(id, uri, raw).is_none() {
                    self.subscriptions.record_topic(id, None);
                }
            }
        }
        if let Some(line) = self.subscriptions.acknowledge(id) {
            self.output.send(Address::DuringCall(id), line);
            self.announce_list_changes();
        }
    }

    /// Requests a resource of a `subscriptions/listen`. `None` if it cannot be requested.
    fn request_topic(&mut self, id: &Bytes, uri: Bytes, raw: Bytes) -> Option<CallKey> {
        let face = self.subscriptions.face(id);
        let request = ReceivedCall::of_topic(id, &raw, face, Moment::now()).ok()?;
        let view = self.view.modern(request.face.as_ref());
        let target = self.routing_state().target(&request, &view)?;
        let member = view.servers.get(target.server())?;
        // A slow server delays the acknowledgement a little only.
        let total = member.config.settings.handshake_timeout;
        let (access, kind) = (request.access_target(target), request.kind());
        let time_limits = CallLimit { progress_timeout: total, total };
        let to = Destination { time_limits, kind, ..Destination::of(member, access) };
        let topic = ResourceSubscriptionChange { uri, raw, begins: true };
        self.send_call(request, to, &view, Some(OnResponse::Topic(Box::new(topic)))).ok()
    }

    pub(super) fn change_subscriptions(&mut self, changes: Vec<(ServerHandle, SubscriptionChange)>) {
        if !changes.is_empty() {
            self.command = Some(ServerCommand::SubscriptionChanges(changes));
        }
    }
}
