//! Carries out what the router decides: answers, sends, parks or refuses a request.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{ServerCommand, Session};
use crate::account::{Charge, Cost, OverLimit};
use crate::calls::CallOutcome;
use crate::catalog::{Route, identity};
use crate::durations::Operation;
use crate::era::{self, Era};
use crate::extensions::SKILLS;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::message::{Rename, RequestLine};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::manager::{Member, View, start_for_call};
use crate::methods::{Forwarding, Method, TargetKind};
use crate::server::messages::call::{
    Access, AccessTarget, AppliedOverride, Call, CallKey, RequestKind, ResponseHandle,
};
use crate::session::call_record::CallRecorder;
use crate::session::declaration::Declaration;
use crate::session::own_request::OwnRequest;
use crate::session::received_call::ReceivedCall;
use crate::session::results;
use crate::session::router::{self, AwaitedChange, Decision, Destination, RoutingState};
use crate::session::transport::Transport;
use crate::session::unanswered::{OnResponse, ParkableRequest, SkillRequest, UnansweredCall};
use crate::validity::ResultKind;

/// The response to a call that was not sent.
pub(super) struct Unsent {
    id: Bytes,
    pub(super) line: Bytes,
}

impl Unsent {
    fn of(call: &ReceivedCall, error: &ErrorObject) -> Self {
        Self { id: call.id.clone(), line: reply::error(Some(&call.id), error) }
    }
}

/// The form of the result of a request, which may be a call of `tool`.
fn result_kind(method: &Method, tool: Option<&Route>) -> Option<ResultKind> {
    match method.result {
        Some(ResultKind::Call) if tool.is_some_and(|tool| tool.has_output_schema) => Some(ResultKind::StructuredCall),
        result => result,
    }
}

/// What a request for a server counts as. `name` is the server's own name of what it is about.
fn operation(request: &ReceivedCall, name: Option<&Arc<str>>) -> Operation {
    let is_named = matches!(request.target_kind, TargetKind::Tool | TargetKind::Prompt);
    Operation::new(request.method.name, name.filter(|_| is_named).cloned())
}

impl<T: Transport> Session<T> {
    /// Answers, sends, parks or refuses a request. It has a charge if it was parked, which ends before it is charged for what becomes of it.
    pub(super) fn route(&mut self, request: ParkableRequest, charge: Option<Charge>) {
        let (view, now) = (self.view.of(request.era(), request.face()), Instant::now());
        let decision = router::route(request, &view, &self.routing_state(), now);
        let charge = charge.filter(|_| matches!(decision, Decision::Park(..)));
        match decision {
            Decision::Answer(request) => self.answer(request, &view),
            Decision::Send(call, to) => self.send(call, to, &view),
            Decision::FanOut(call, extension, servers) => self.fan_out(call, extension, &servers, &view),
            Decision::Park(request, awaited) => self.park(request, &awaited, charge, &view),
            Decision::Refuse(call, error, outcome) => self.refuse_call(&call, &error, outcome),
        }
    }

    /// What routing needs to know of this session.
    pub(super) fn routing_state(&self) -> RoutingState<'_> {
        RoutingState {
            session: self.agent.session(),
            to_session: self.agent.to_session(),
            has_first_lists: self.view.has_first_lists(),
            all_instances_listed: self.view.all_instances_listed(),
            named_uris: self.view.named_uris(),
            resources: self.subscriptions.resources(),
            unanswered: &self.unanswered,
            tasks: &self.tasks,
        }
    }

    fn answer(&mut self, request: OwnRequest, view: &View) {
        let session = self.agent.session();
        self.recorder.count_own(&request, CallOutcome::Ok);
        match request {
            OwnRequest::Handshake { id, protocol, .. } => {
                let identity = self.view.identity(view, session, era::of(protocol));
                let declaration = Declaration { protocol, view, identity: identity.as_deref() };
                self.view.note_declared(view.face_member().map(|_| declaration.read_capabilities()));
                let result = match era::of(protocol) {
                    Era::Legacy => results::initialize(&declaration),
                    Era::Modern => results::discover(&declaration),
                };
                self.output.respond(&id, result.as_bytes());
            }
            OwnRequest::List { id, kind, era: Era::Modern, face, .. } => {
                self.subscriptions.note_list_sent(kind, face.as_ref(), &view.catalog);
                let identity = self.view.identity(view, session, Era::Modern);
                let declaration = Declaration { protocol: era::MODERN, view, identity: identity.as_deref() };
                self.output.respond_in_parts(&id, results::modern_list(&id, kind, &declaration));
            }
            OwnRequest::List { id, kind, era: Era::Legacy, .. } => {
                self.view.note_list_sent(kind, &view.catalog);
                self.output.respond_in_parts(&id, results::list(&id, kind, &view.catalog));
            }
            OwnRequest::Listen { id, filter, face } => self.begin_listen(&id, filter, face),
        }
    }

    /// Parks a request, unless the agent has too much unanswered.
    fn park(&mut self, request: ParkableRequest, awaited: &AwaitedChange<'_>, charge: Option<Charge>, view: &View) {
        let charge = match self.charge_parking(&request, charge) {
            Ok(charge) => charge,
            Err(error) => return self.refuse_parkable(&request, &error, CallOutcome::Overloaded),
        };
        match awaited {
            AwaitedChange::Handshake(until) if !self.agent.to_session().daemon_is_stopping() => {
                self.view.await_handshake(view, self.agent.session(), request.era(), *until, &mut self.events);
            }
            AwaitedChange::List(candidates, until) => {
                start_for_call(candidates, Instant::now());
                self.view.await_lists(view, *until, &mut self.events);
            }
            AwaitedChange::FirstLists | AwaitedChange::Handshake(_) => {}
        }
        self.unanswered.park(request, charge);
    }

    /// The charge of a request that is to be parked, which it has if it was parked before.
    fn charge_parking(&self, request: &ParkableRequest, charge: Option<Charge>) -> Result<Charge, ErrorObject> {
        let charge = charge.map_or_else(|| self.unanswered.charge(Cost::Request(request.bytes())), Ok);
        charge.map_err(|over| over.to_object(Delivery::NotSent))
    }

    pub(super) async fn retry_parked(&mut self) {
        for (request, charge) in self.unanswered.take_parked() {
            self.route(request, Some(charge));
            self.send_command().await;
        }
    }

    /// Answers a request that is parked, or would have to be, with an error.
    pub(super) fn refuse_parkable(&mut self, request: &ParkableRequest, error: &ErrorObject, outcome: CallOutcome) {
        match request {
            ParkableRequest::Call { call, .. } => self.refuse_call(call, error, outcome),
            ParkableRequest::Own(request) => {
                self.recorder.count_own(request, outcome);
                self.output.respond_error(Some(request.id()), error);
            }
        }
    }

    /// Answers a request that reaches no server with an error.
    pub(super) fn refuse_call(&mut self, request: &ReceivedCall, error: &ErrorObject, outcome: CallOutcome) {
        let line = reply::error(Some(&request.id), error);
        self.recorder.record_unforwarded(request, outcome, line.len());
        self.output.respond_line(&request.id, line);
    }

    /// Sends a request to a server, unless the agent has too much unanswered.
    fn send(&mut self, request: ReceivedCall, to: Destination<'_>, view: &View) {
        if let Err(Unsent { id, line }) = self.send_call(request, to, view, None) {
            self.output.respond_line(&id, line);
        }
    }

    /// Sends a call and returns its key, unless the agent has too much unanswered.
    pub(super) fn send_call(
        &mut self,
        request: ReceivedCall,
        to: Destination<'_>,
        view: &View,
        on_response: Option<OnResponse>,
    ) -> Result<CallKey, Unsent> {
        let server = to.server().clone();
        let Destination { member, tool, rename, access, time_limits, kind, .. } = to;
        // Not recorded: such calls would displace others in the history. They are counted.
        let (is_subrequest, size) = (on_response.is_some(), request.line.len());
        let charge = self.charge_call(if is_subrequest { Cost::Part(size) } else { Cost::Call(size) }, &kind);
        let (named, log_arguments) = (tool.map(|tool| &tool.name), member.config.settings.log_arguments);
        let own_name = access.as_ref().and_then(AccessTarget::own_name).cloned();
        let operation = operation(&request, named.or(own_name.as_ref()));
        let counted = (!is_subrequest).then_some(&operation);
        let begin =
            |recorder: &CallRecorder| recorder.begin(&request, server.name(), named, counted.cloned(), log_arguments);
        let charge = charge.map_err(|over| {
            let unsent = Unsent::of(&request, &over.to_object(Delivery::NotSent));
            if over.is_of_connection() {
                self.recorder.end(begin(&self.recorder), Some(&server), CallOutcome::Overloaded, unsent.line.len());
            }
            unsent
        })?;
        let record = begin(&self.recorder);
        let is_of_skills = access.as_ref().is_some_and(|access| access.is_of(SKILLS));
        let access = access.map(|target| self.access(&request, target, tool, member, view));
        let key = self.unanswered.next_key();
        if !is_subrequest {
            self.agent.count_call();
        }
        let mut response_handle = ResponseHandle::new(key, &request.id, server.name(), self.agent.to_session());
        response_handle.set_span(record.client_span());
        let id = response_handle.id().clone();
        let on_response =
            on_response.unwrap_or_else(|| self.on_response(&request, &kind, server.name(), own_name, is_of_skills));
        if matches!(on_response, OnResponse::Subscription(_) | OnResponse::Topic(_) | OnResponse::NewTask { .. }) {
            // The server ends the subscription or the task when the agent disconnects.
            self.view.attach_for_disconnect(&server, self.agent.for_servers());
        }
        let origin = self.agent.origin(request.modern.as_ref());
        let ReceivedCall { line, id: request_id, progress_token, method, .. } = request;
        let rename = rename.map(|(exposed, server_name)| Rename { exposed, server_name });
        let request = RequestLine { line, id: request_id, rename, progress_token };
        let (result_kind, limit) = (result_kind(method, tool), time_limits);
        let call = Box::new(Call { request, operation, kind, result_kind, limit, origin, access, response_handle });
        if is_subrequest {
            server.call_soon(call);
        } else {
            let unsent = record.in_scope(|| server.try_call(call));
            self.command = unsent.map(|call| ServerCommand::Call(server.clone(), call));
        }
        self.unanswered.insert(id, UnansweredCall { key, server, record, on_response, charge });
        Ok(key)
    }

    /// What the response of `server` to a request of this kind leads to. `name` is the server's own name of what it is about.
    fn on_response(
        &self,
        request: &ReceivedCall,
        kind: &RequestKind,
        server: &Arc<str>,
        name: Option<Arc<str>>,
        is_of_skills: bool,
    ) -> OnResponse {
        match kind {
            RequestKind::ResourceSubscription(subscription) => OnResponse::Subscription(subscription.clone()),
            RequestKind::NewTask => OnResponse::NewTask { tool: name.unwrap_or_default() },
            _ if request.forwarding == Forwarding::Complete => OnResponse::Completion(request.era()),
            _ if is_of_skills => {
                let unknown = reply::error(Some(&request.id), &request.unknown_skill());
                let (era, face) = (request.era(), request.face.clone());
                OnResponse::Skill(Box::new(SkillRequest { era, face, unknown }))
            }
            _ => {
                let replacement = self.tasks.tokens().id_replacement(request, server, name);
                replacement.map_or(OnResponse::Nothing, OnResponse::ReplaceTaskId)
            }
        }
    }

    /// The permission of a request that `view` leads to `member`.
    fn access(
        &self,
        request: &ReceivedCall,
        target: AccessTarget,
        tool: Option<&Route>,
        member: &Member,
        view: &View,
    ) -> Box<Access> {
        let (error_kind, era) = (request.target_kind, request.era());
        // Copied, so that a small name does not keep a large line in memory.
        let requested_name = Bytes::copy_from_slice(&request.exposed_name);
        let (current, lists) = (self.view.exposure(era, request.face.as_ref()), identity(&member.lists));
        let (version, tool_override) = (view.version(), tool.map(AppliedOverride::of).unwrap_or_default());
        Box::new(Access { view: current, target, error_kind, requested_name, era, version, lists, tool_override })
    }

    /// Charges a call, unless it would exceed the limit of subscriptions or tasks.
    fn charge_call(&mut self, cost: Cost, kind: &RequestKind) -> Result<Charge, OverLimit> {
        let charge = self.unanswered.charge(cost)?;
        let subscriptions = self.subscriptions.resources();
        match kind {
            RequestKind::ResourceSubscription(one) if !subscriptions.has_room_for(one, &self.unanswered) => {
                Err(OverLimit::SUBSCRIPTIONS)
            }
            RequestKind::NewTask if !self.tasks.has_room(&self.unanswered) => Err(OverLimit::TASKS),
            _ => Ok(charge),
        }
    }
}
