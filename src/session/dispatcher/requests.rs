//! Messages of the agent: requests that mcpd answers, notifications, and responses to requests of servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{ServerCommand, Session};
use crate::account::{Charge, Cost};
use crate::calls::CallOutcome;
use crate::clock::Moment;
use crate::era::request_meta::MetaError;
use crate::era::response::missing_task_support;
use crate::era::subscription::ListenFilter;
use crate::era::{self, Era};
use crate::jsonrpc::MessageError;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{members, string};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR};
use crate::jsonrpc::splice::{Edit, splice};
use crate::list_kind::ListKind;
use crate::manager::Member;
use crate::methods::{AnsweredBy, Method, NotificationMeaning, OwnMethod, TargetKind, may_be_extension_notification};
use crate::server::server_request::Cancellation;
use crate::session::agent::InitializeMeta;
use crate::session::agent_message::{AgentMessage, Notification, Request};
use crate::session::declaration::Declaration;
use crate::session::extension_route::{ExtensionRoute, UNKNOWN_CURSOR};
use crate::session::own_request::OwnRequest;
use crate::session::received_call::{ExtensionRequest, ReceivedCall};
use crate::session::results::invalid;
use crate::session::task_directory::{PageContext, TaskDirectory};
use crate::session::transport::Transport;
use crate::session::unanswered::{ParkableRequest, UnansweredCall};

/// Maximum time that `initialize` or `server/discover` waits for the server's own handshake. Clients commonly wait 30 s.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(25);

const NOT_INTRODUCED: &str = "send `initialize` first, or add what MCP 2026-07-28 requires to `_meta` of each request: \
    `io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities`";
const INITIALIZING: &str = "`initialize` is unanswered: its server is starting";

impl<T: Transport> Session<T> {
    pub(super) fn receive(&mut self, message: AgentMessage) {
        let (output, server_requests) = (&mut self.output, &mut self.server_requests);
        match message {
            AgentMessage::Request(request) => self.handle_request(request),
            AgentMessage::Notification(notification) => self.handle_notification(notification),
            AgentMessage::Response { line, id } => server_requests.answer(&line, &id),
            AgentMessage::Malformed(MessageError::BadResponse { id }) => {
                server_requests.refuse(&id, INTERNAL_ERROR, "the answer of the agent is no valid response");
            }
            AgentMessage::TooLarge { id: Some(id), is_response: true, size } => {
                let code = ErrorCode::TooLarge.number();
                let why = format!("the answer of the agent {}", output.limit().excess(Some(size)));
                server_requests.refuse(&id, code, &why);
            }
            AgentMessage::Malformed(MessageError::NotJson) => output.refuse(None, PARSE_ERROR, "not JSON"),
            AgentMessage::Malformed(MessageError::Batch) => {
                output.refuse(None, INVALID_REQUEST, "batches are not supported");
            }
            // A peer with the same rule would answer the answer, and so on.
            AgentMessage::Malformed(MessageError::StrayResponse { .. })
            | AgentMessage::TooLarge { id: None, is_response: true, .. } => server_requests.count_stray_response(),
            AgentMessage::Malformed(MessageError::NotAMessage { id }) => {
                output.refuse(id.as_ref(), INVALID_REQUEST, "not a JSON-RPC 2.0 message");
            }
            AgentMessage::TooLarge { id, size, .. } => {
                let message = format!("the message {}", output.limit().excess(Some(size)));
                let error = ErrorObject::of_mcpd(ErrorCode::TooLarge, message, Delivery::NotSent);
                output.respond_error(id.as_ref(), &error);
            }
        }
    }

    fn handle_notification(&mut self, notification: Notification) {
        if let Some(id) = notification.id.clone() {
            if self.is_unanswered(&id) {
                let error = ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered");
                return self.output.respond_error(Some(&id), &error);
            }
            self.output.respond(&id, b"{}");
        }
        let Notification { line, method, meaning, about, .. } = notification;
        match (meaning, about) {
            (Some(NotificationMeaning::Initialized), _) => {
                self.agent.set_ready();
                if self.agent.is_ready() {
                    self.server_requests.send_early(&mut self.output, &mut self.events);
                }
                self.announce_list_changes();
            }
            (Some(NotificationMeaning::Cancelled), Some(id)) => self.cancel(line, &id),
            (Some(NotificationMeaning::Progress), Some(token)) => self.server_requests.forward_progress(&line, &token),
            (Some(NotificationMeaning::UseFace), Some(server)) if !self.agent.is_introduced() => {
                if let Some(server) = string(&server) {
                    self.view.set_face(server.into());
                }
            }
            (Some(NotificationMeaning::ProfileDirectory), Some(directory)) if !self.agent.is_introduced() => {
                self.agent.set_profile_directory(string(&directory));
            }
            (Some(NotificationMeaning::RootsChanged), _) => self.command = Some(ServerCommand::RootsChanged(line)),
            (None, _) if may_be_extension_notification(&method) => self.forward_notification(&line, &method),
            _ => {}
        }
    }

    /// Forwards a notification of an extension to the only possible server. It counts for the rate of requests; beyond the quotas of
    /// the agent it is dropped.
    fn forward_notification(&mut self, line: &Bytes, method: &Bytes) {
        if !self.agent.is_introduced() {
            return;
        }
        let Ok(_charge) = self.unanswered.charge(Cost::Message(line.len())) else { return };
        let era = if self.agent.protocol_version().is_some() { Era::Legacy } else { Era::Modern };
        let (view, params) = (self.view.of(era, None), members(line, ["params"]).ok().and_then(|[params]| params));
        let Some(notification) = ExtensionRequest::read(method, params.as_ref()) else { return };
        let route = ExtensionRoute::of(&notification, &view, era);
        let ExtensionRoute::One { server, rename, .. } = route else { return };
        let Some(Member { handle, .. }) = view.servers.get(server) else { return };
        let rename = rename.iter().map(|(part, name)| Edit { part, replacement: name });
        let line = splice(line, &mut rename.collect::<Vec<_>>());
        self.command = Some(ServerCommand::Notify(handle.clone(), era, line.slice(..line.len() - 1)));
    }

    fn cancel(&mut self, line: Bytes, id: &Bytes) {
        if let Some(parked) = self.unanswered.cancel_parked(id) {
            self.record_cancelled(&parked);
        }
        if self.tasks.has_page(id) {
            let (tasks, context) = self.task_pages();
            tasks.cancel_page(id, context);
        }
        let is_listen = self.subscriptions.contains(id);
        let changes = self.subscriptions.unlisten(id, &self.unanswered);
        self.change_subscriptions(changes);
        if self.unanswered.fan_outs_mut().remove(id).is_some() || is_listen {
            self.cancel_subrequests(id, &line);
        } else if let Some(UnansweredCall { key, server, record, .. }) = self.unanswered.remove(id) {
            self.recorder.end(record, Some(&server), CallOutcome::Cancelled, 0);
            let cancellation = Cancellation { line, request: id.clone() };
            self.command = Some(ServerCommand::Cancel(server, key, cancellation));
        }
    }

    pub(super) fn record_cancelled(&self, parked: &ParkableRequest) {
        match parked {
            ParkableRequest::Call { call, .. } => self.recorder.record_unforwarded(call, CallOutcome::Cancelled, 0),
            ParkableRequest::Own(request) => self.recorder.count_own(request, CallOutcome::Cancelled),
        }
    }

    fn handle_request(&mut self, request: Request) {
        let id = request.id.clone();
        if let Err(error) = self.accept_request(request) {
            self.output.respond_error(Some(&id), &error);
        }
    }

    fn accept_request(&mut self, request: Request) -> Result<(), ErrorObject> {
        let Request { id, method, method_name, params, call, modern, face } = request;
        if self.is_unanswered(&id) {
            self.recorder.warn_of_reused_id();
            return Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"));
        }
        if let Some(refusal) = &self.drain.refusal {
            return Err(refusal.clone());
        }
        let (modern, params) = (modern.map_err(|error| error.to_object())?, params.as_ref());
        let protocol = if modern.is_some() {
            let face = self.view.check_face(face.as_ref()).map_err(|unknown| invalid(unknown.to_string()))?;
            let is_discover =
                method.is_some_and(|method| method.answered_by == AnsweredBy::Daemon(OwnMethod::Discover));
            self.record_client(params, is_discover, face);
            Some(era::MODERN)
        } else {
            self.agent.protocol_version()
        };
        let method = method.filter(|method| {
            protocol.is_none_or(|protocol| {
                method.versions.include(protocol) && !self.is_undeclared(method, call.as_ref(), protocol, face.as_ref())
            })
        });
        match (method.map(|method| method.answered_by), call) {
            (Some(AnsweredBy::Daemon(OwnMethod::Initialize)), _) => self.initialize(&id, params)?,
            (Some(AnsweredBy::Daemon(OwnMethod::Ping)), _) => self.output.respond(&id, b"{}"),
            _ if protocol.is_none() => return Err(invalid(NOT_INTRODUCED)),
            (Some(AnsweredBy::Daemon(OwnMethod::Discover)), _) => self.answer_handshake(&id, era::MODERN, face, None),
            (Some(AnsweredBy::Daemon(OwnMethod::SetLevel)), _) => {
                self.agent.set_level(params).map_err(invalid)?;
                self.command = Some(ServerCommand::AgentChanged);
                self.output.respond(&id, b"{}");
            }
            (Some(AnsweredBy::Daemon(OwnMethod::ListTasks)), _) => self.list_tasks(&id, params)?,
            (Some(AnsweredBy::Daemon(OwnMethod::Listen)), _) => {
                let supports_tasks = modern.is_some_and(|modern| modern.supports_tasks);
                self.route(ParkableRequest::Own(read_listen(&id, params, supports_tasks, face)?), None);
            }
            (Some(AnsweredBy::List(kind)), _) => {
                let era = if modern.is_some() { Era::Modern } else { Era::Legacy };
                self.route(ParkableRequest::Own(read_list(kind, id, params, (era, face))?), None);
            }
            (Some(AnsweredBy::Server(_)), Some(Ok(call))) => {
                self.route(ParkableRequest::Call { call, until: None }, None);
            }
            (Some(AnsweredBy::Server(_)), Some(Err(error))) => return Err(error.to_object()),
            (Some(AnsweredBy::Server(_)) | None, _) => {
                return Err(TargetKind::Method.unknown(&method_name, Era::Legacy));
            }
        }
        Ok(())
    }

    /// Whether the agent uses the face of a server that has not declared the capability that this request needs, and does not expose what
    /// it names.
    fn is_undeclared(
        &self,
        method: &Method,
        call: Option<&Result<ReceivedCall, MetaError>>,
        protocol: &'static str,
        face: Option<&Arc<str>>,
    ) -> bool {
        let era = era::of(protocol);
        let Some(capability) = method.capability(era).filter(|_| self.view.is_face(face)) else { return false };
        if self.view.has_declared(capability) {
            return false;
        }
        let view = self.view.of(era, face);
        let is_exposed = match (method.answered_by, call) {
            (AnsweredBy::List(kind), _) => view.catalog.count(kind) > 0,
            (_, Some(Ok(call))) => call.names_item() && self.routing_state().target(call, &view).is_some(),
            _ => false,
        };
        if is_exposed {
            return false;
        }
        let identity = self.view.identity(&view, self.agent.session(), era);
        Declaration { protocol, view: &view, identity: identity.as_deref() }.lacks(capability)
    }

    fn initialize(&mut self, id: &Bytes, params: Option<&Bytes>) -> Result<(), ErrorObject> {
        if self.agent.protocol_version().is_some() {
            let why = if self.unanswered.has_initialize() { INITIALIZING } else { "already initialized" };
            return Err(ErrorObject::new(INVALID_REQUEST, why));
        }
        let mut meta = params.map(InitializeMeta::of).unwrap_or_default();
        let face = self.view.check_face(meta.face.as_ref()).map_err(|unknown| invalid(unknown.to_string()))?;
        // Requested first, so that an agent whose `initialize` is refused can send another one.
        let charge = face.is_some().then(|| self.unanswered.charge(Cost::Request(id.len()))).transpose();
        let charge = charge.map_err(|over| over.to_object(Delivery::NotSent))?;
        let introduction = self.agent.initialize(params, &meta, face).map_err(invalid)?;
        if let Some(face) = meta.face.take() {
            self.view.set_face(face);
        }
        self.recorder.set_client(introduction.client);
        if let Some(cwd) = meta.cwd {
            self.view.set_cwd(cwd);
        }
        self.server_requests.begin_at(meta.ids_from);
        self.attach();
        self.answer_handshake(id, introduction.protocol_version, None, charge);
        Ok(())
    }

    /// Answers `initialize` or `server/discover`, perhaps when the server of a face has completed its handshake.
    fn answer_handshake(&mut self, id: &Bytes, protocol: &'static str, face: Option<Arc<str>>, charge: Option<Charge>) {
        let until = Instant::now() + HANDSHAKE_WAIT;
        // The id outlives the line.
        let request =
            OwnRequest::Handshake { id: Bytes::copy_from_slice(id), protocol, face, until, received: Moment::now() };
        self.route(ParkableRequest::Own(request), charge);
    }

    fn record_client(&mut self, params: Option<&Bytes>, is_discover: bool, face: Option<Arc<str>>) {
        if let Some(introduction) = self.agent.record_client(params, is_discover, face) {
            self.recorder.set_client(introduction.client);
            if let Some(cwd) = params.and_then(|params| InitializeMeta::of(params).cwd) {
                self.view.set_cwd(cwd);
            }
            self.attach();
        }
    }

    fn list_tasks(&mut self, id: &Bytes, params: Option<&Bytes>) -> Result<(), ErrorObject> {
        let after = self.tasks.read_cursor(params).map_err(invalid)?;
        let charge = self.unanswered.charge(Cost::Request(0)).map_err(|over| over.to_object(Delivery::NotSent))?;
        let (tasks, context) = self.task_pages();
        tasks.list(id, after, charge, context);
        Ok(())
    }

    /// The task directory, and what it needs to list tasks.
    pub(super) fn task_pages(&mut self) -> (&mut TaskDirectory, PageContext<'_, T>) {
        let Self { tasks, agent, view, unanswered, output, .. } = self;
        (tasks, PageContext { agent, view: view.legacy(), unanswered, output })
    }
}

fn read_list(
    kind: ListKind,
    id: Bytes,
    params: Option<&Bytes>,
    (era, face): (Era, Option<Arc<str>>),
) -> Result<OwnRequest, ErrorObject> {
    match params.map(|params| members(params, ["cursor"])) {
        Some(Err(_)) => Err(invalid("`params` is not an object")),
        Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => Err(invalid(UNKNOWN_CURSOR)),
        _ => Ok(OwnRequest::List { id, kind, era, face, received: Moment::now() }),
    }
}

fn read_listen(
    id: &Bytes,
    params: Option<&Bytes>,
    supports_tasks: bool,
    face: Option<Arc<str>>,
) -> Result<OwnRequest, ErrorObject> {
    let params = params.ok_or_else(|| invalid("the params are missing"))?;
    let filter = ListenFilter::read(params).map_err(invalid)?;
    if !filter.tasks.is_empty() && !supports_tasks {
        return Err(missing_task_support());
    }
    // The id outlives the line.
    Ok(OwnRequest::Listen { id: Bytes::copy_from_slice(id), filter, face })
}
