//! Where each request of an agent goes. Pure: it reads the view and the session, and changes nothing.
//!
//! The session carries the [`Decision`] out. It charges the limits of the agent when it parks or sends the request.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::extension_route::{ExtensionRoute, UNKNOWN_CURSOR};
use super::named_uris::NamedUris;
use super::own_request::OwnRequest;
use super::received_call::{ExtensionRequest, ReceivedCall, RouteTarget};
use super::resource_subscriptions::ResourceSubscriptions;
use super::results::invalid;
use super::task_directory::TaskDirectory;
use super::task_token::TaskTokenContents;
use super::unanswered::{ParkableRequest, UnansweredRequests};
use super::view::FaceHandshake;
use crate::calls::CallOutcome;
use crate::catalog::Route;
use crate::config::CallLimit;
use crate::era;
use crate::era::response::missing_task_support;
use crate::extensions::SKILLS;
use crate::jsonrpc::reply::ErrorObject;
use crate::list_kind::ListKind;
use crate::manager::{Member, UnlistedName, View};
use crate::methods::{Forwarding, TargetKind};
use crate::server::messages::call::{AccessTarget, RequestKind, SessionSender};
use crate::server::messages::tasks::{ModernTaskRequest, TaskOperation};
use crate::server::{START_WAIT, ServerHandle};

/// What a decision depends on, besides the request and the view.
pub(super) struct RoutingState<'a> {
    pub(super) session: u64,
    pub(super) to_session: &'a SessionSender,
    /// Each instance for this agent has sent its lists, or has cached ones.
    pub(super) has_first_lists: bool,
    /// Each instance for this agent has sent its lists.
    pub(super) all_instances_listed: bool,
    pub(super) named_uris: &'a NamedUris,
    pub(super) resources: &'a ResourceSubscriptions,
    pub(super) unanswered: &'a UnansweredRequests,
    pub(super) tasks: &'a TaskDirectory,
}

/// What becomes of a request.
pub(super) enum Decision<'v> {
    /// mcpd answers it now.
    Answer(OwnRequest),
    /// It goes to one server.
    Send(ReceivedCall, Destination<'v>),
    /// These servers answer one part each: the indices of those that have the extension.
    FanOut(ReceivedCall, Arc<str>, Vec<usize>),
    Park(ParkableRequest, AwaitedChange<'v>),
    /// It reaches no server.
    Refuse(ReceivedCall, ErrorObject, CallOutcome),
}

/// What a parked request waits for.
pub(super) enum AwaitedChange<'v> {
    /// The first lists.
    FirstLists,
    /// The handshake of the server of a face, at most until then.
    Handshake(Instant),
    /// One of these servers lists the name, at most until then.
    List(Vec<&'v Member>, Instant),
}

/// The server of a call, and the conditions for the call.
pub(super) struct Destination<'v> {
    pub(super) member: &'v Member,
    /// The instance of the member's server, if only one can answer.
    pub(super) instance: Option<ServerHandle>,
    /// The tool, if this is a call of one.
    pub(super) tool: Option<&'v Route>,
    /// The raw name or id, as exposed and as the server knows it.
    pub(super) rename: Option<(Bytes, Bytes)>,
    /// The target that policy has to permit; `None` if it is not checked again.
    pub(super) access: Option<AccessTarget>,
    pub(super) time_limits: CallLimit,
    pub(super) kind: RequestKind,
}

impl<'v> Destination<'v> {
    /// The server of `member`, for a plain request that has the same names there.
    pub(super) fn of(member: &'v Member, access: Option<AccessTarget>) -> Self {
        let time_limits = member.config.settings.request_limit();
        Self { member, instance: None, tool: None, rename: None, access, time_limits, kind: RequestKind::Plain }
    }

    pub(super) fn server(&self) -> &ServerHandle {
        self.instance.as_ref().unwrap_or(&self.member.handle)
    }
}

impl RoutingState<'_> {
    /// Whether the first lists are complete in `view`, so that list requests can be answered. A modern request sees the profile's view,
    /// but also waits for the agent's own instances. A server with an instance per directory has no lists in that view until its first
    /// instance has sent them.
    fn is_settled(&self, view: &View) -> bool {
        view.settled && self.has_first_lists
    }

    /// The server of a call. The agent may unsubscribe from a resource where it has subscribed, even if nobody lists it any more, and may
    /// use a resource that a result has named.
    pub(super) fn target<'v>(&self, call: &ReceivedCall, view: &'v View) -> Option<RouteTarget<'v>> {
        let subscribed = || {
            let server = self.resources.server_of(&call.exposed_name, self.unanswered)?;
            view.servers.iter().position(|member| member.handle.is_same(server))
        };
        let (subscribed, uses_named) = match call.forwarding {
            Forwarding::Unsubscribe => (subscribed(), false),
            Forwarding::ReadResource | Forwarding::Subscribe => (None, true),
            _ => (None, false),
        };
        let named = || self.named_uris.server_in(view, &call.exposed_name).filter(|_| uses_named);
        let listed = subscribed.map(RouteTarget::Server).or_else(|| call.target(&view.catalog));
        listed.or_else(|| named().map(RouteTarget::Unlisted))
    }
}

/// Decides about a request that sees `view`.
pub(super) fn route<'v>(
    request: ParkableRequest,
    view: &'v View,
    state: &RoutingState<'_>,
    now: Instant,
) -> Decision<'v> {
    match request {
        ParkableRequest::Own(request) => route_own(request, view, state, now),
        ParkableRequest::Call { call, until } => route_call(call, until, view, state, now),
    }
}

fn route_own<'v>(request: OwnRequest, view: &View, state: &RoutingState<'_>, now: Instant) -> Decision<'v> {
    let awaited = match &request {
        OwnRequest::Handshake { protocol, until, .. } => {
            let handshake = FaceHandshake::of(view, state.session, era::of(protocol));
            let is_open = handshake
                .is_some_and(|handshake| !handshake.can_answer(*until, state.to_session.daemon_is_stopping(), now));
            is_open.then_some(AwaitedChange::Handshake(*until))
        }
        OwnRequest::List { .. } | OwnRequest::Listen { .. } => {
            (!state.is_settled(view)).then_some(AwaitedChange::FirstLists)
        }
    };
    match awaited {
        None => Decision::Answer(request),
        Some(awaited) => Decision::Park(ParkableRequest::Own(request), awaited),
    }
}

fn route_call<'v>(
    call: ReceivedCall,
    until: Option<Instant>,
    view: &'v View,
    state: &RoutingState<'_>,
    now: Instant,
) -> Decision<'v> {
    let wait_for_lists = |call| Decision::Park(ParkableRequest::Call { call, until: None }, AwaitedChange::FirstLists);
    if call.target_kind == TargetKind::Task {
        return route_task(call, view, state);
    }
    if call.extension.is_some() {
        return if state.is_settled(view) { route_extension(call, view) } else { wait_for_lists(call) };
    }
    match state.target(&call, view) {
        Some(target) => send_to(call, target, view),
        None if until.is_none() && !state.all_instances_listed => wait_for_lists(call),
        None => route_unlisted(call, until.unwrap_or(now + START_WAIT), view, now),
    }
}

fn send_to<'v>(mut call: ReceivedCall, target: RouteTarget<'v>, view: &'v View) -> Decision<'v> {
    let Some(member) = view.servers.get(target.server()) else { return unknown(call) };
    if let RouteTarget::OfInterface(exposed, _) = target {
        call.exposed_name = Bytes::copy_from_slice(exposed.as_bytes());
    }
    let (access, kind) = (call.access_target(target), call.kind());
    let mut to = Destination { kind, ..Destination::of(member, access) };
    if let RouteTarget::Route(route) | RouteTarget::OfInterface(_, route) = target {
        let is_own = call.exposed_name == route.name.as_bytes();
        to.tool = (call.forwarding == Forwarding::CallTool).then_some(route);
        // The server's task applies the override, as it may change while the call waits.
        if let Some(of_tool) = route.tool_override.as_ref().filter(|_| to.tool.is_some())
            && let Err(refused) = of_tool.check(&call.line)
        {
            return refuse(call, refused.to_object(&member.config.name));
        }
        to.rename = (!is_own).then(|| (call.raw_exposed_name.clone(), route.raw_name.clone()));
        to.time_limits = route.limit;
    }
    Decision::Send(call, to)
}

/// A request about a task goes to the instance that runs the task, or to the server whose tool has created it.
fn route_task<'v>(call: ReceivedCall, view: &'v View, state: &RoutingState<'_>) -> Decision<'v> {
    if call.modern.is_none() {
        let Some((task_tool, instance)) = state.tasks.tool_of_task(&call.exposed_name, view) else {
            return unknown(call);
        };
        let mut to = Destination::of(task_tool.member, Some(task_tool.access()));
        (to.instance, to.kind) = (Some(instance), call.kind());
        if call.forwarding == Forwarding::Task(TaskOperation::Result) {
            to.time_limits = task_tool.route.limit;
        }
        return Decision::Send(call, to);
    }
    if !call.supports_tasks() {
        return refuse(call, missing_task_support());
    }
    let Some((task_tool, TaskTokenContents { instance_tag, id, .. })) =
        state.tasks.tool_of_token(&call.exposed_name, view)
    else {
        return unknown(call);
    };
    let [token, task_id] = [&call.exposed_name, id.as_bytes()].map(Bytes::copy_from_slice);
    let mut to = Destination::of(task_tool.member, Some(task_tool.access()));
    to.rename = Some((call.raw_exposed_name.clone(), Bytes::from(json!(id).to_string())));
    to.kind = RequestKind::ModernTask(Box::new(ModernTaskRequest { id: token, task_id, instance_tag }));
    Decision::Send(call, to)
}

/// A call of a name that no server lists waits for a server that may still list it. A URI may be of an unlisted skill.
fn route_unlisted<'v>(call: ReceivedCall, until: Instant, view: &'v View, now: Instant) -> Decision<'v> {
    let name = matches!(call.target_kind, TargetKind::Tool | TargetKind::Prompt).then_some(&call.exposed_name[..]);
    let unlisted = UnlistedName::of(view.may_still_list(name).collect(), until, now);
    if let UnlistedName::Waits(candidates) = unlisted {
        let parked = ParkableRequest::Call { call, until: Some(until) };
        return Decision::Park(parked, AwaitedChange::List(candidates, until));
    }
    if let Some(route) = ExtensionRoute::of_unlisted_skill(&call, view) {
        return follow(call, route, view);
    }
    match unlisted {
        UnlistedName::Down(error) => refuse(call, error.to_object()),
        UnlistedName::Unknown | UnlistedName::Waits(_) => {
            let error = unknown_in(&call, view);
            Decision::Refuse(call, error, CallOutcome::UnknownTool)
        }
    }
}

/// mcpd itself answers the list of skills.
fn route_extension(call: ReceivedCall, view: &View) -> Decision<'_> {
    let era = call.era();
    let is_list = |extension: &&ExtensionRequest| *extension.method == *ListKind::Skills.method();
    let list = call.extension.as_deref().filter(is_list).filter(|_| !view.owners(SKILLS, era).is_empty());
    match (list, &call.extension) {
        (Some(list), _) if list.has_cursor => refuse(call, invalid(UNKNOWN_CURSOR)),
        (Some(_), _) => Decision::Answer(OwnRequest::List {
            id: call.id,
            kind: ListKind::Skills,
            era,
            face: call.face,
            received: call.received,
        }),
        (None, Some(extension)) => {
            let route = ExtensionRoute::of(extension, view, era);
            follow(call, route, view)
        }
        (None, None) => unknown(call),
    }
}

fn follow(mut call: ReceivedCall, route: ExtensionRoute, view: &View) -> Decision<'_> {
    match route {
        ExtensionRoute::One { server, rename, access } => {
            let Some(member) = view.servers.get(server) else { return unknown(call) };
            // The other era requires params.
            if !member.serves(call.era()) && !call.has_params() {
                call = call.subrequest(None).unwrap_or(call);
            }
            Decision::Send(call, Destination { rename, ..Destination::of(member, Some(access)) })
        }
        ExtensionRoute::Merge { servers, extension } => Decision::FanOut(call, extension, servers),
        ExtensionRoute::Unknown(kind, key) => {
            let error = kind.unknown(&key, call.era());
            Decision::Refuse(call, error, CallOutcome::UnknownTool)
        }
        ExtensionRoute::Ambiguous(servers) => {
            let names = servers.iter().filter_map(|server| view.servers.get(*server));
            let names: Vec<_> = names.map(|member| &*member.config.name).collect();
            let message = format!(
                "several servers have this method: {}. Connect to one of them with `mcpd connect --server NAME`",
                names.join(", ")
            );
            Decision::Refuse(call, invalid(message), CallOutcome::UnknownTool)
        }
        ExtensionRoute::Invalid(why) => refuse(call, invalid(why)),
    }
}

fn refuse<'v>(call: ReceivedCall, error: ErrorObject) -> Decision<'v> {
    let outcome = CallOutcome::Error { code: Some(error.code.into()) };
    Decision::Refuse(call, error, outcome)
}

/// Unknown and denied names get the same bytes.
fn unknown<'v>(call: ReceivedCall) -> Decision<'v> {
    let error = call.unknown();
    Decision::Refuse(call, error, CallOutcome::UnknownTool)
}

/// The error for an unknown name. It explains a call of an exposed tool by its unprefixed name.
fn unknown_in(call: &ReceivedCall, view: &View) -> ErrorObject {
    let mut error = call.unknown();
    let mut routes = view.catalog.routes(ListKind::Tools).filter(|_| call.target_kind == TargetKind::Tool);
    let is_unprefixed = |route: &Route| {
        let member = view.servers.get(route.server);
        member
            .is_some_and(|member| *member.shown_name(ListKind::Tools, &route.name).as_bytes() == call.exposed_name[..])
    };
    if let Some((exposed, route)) = routes.find(|(_, route)| is_unprefixed(route) && route.is_for(call.era()))
        && let Some(Member { config, .. }) = view.servers.get(route.server)
    {
        let hint = format!(
            "; the tool is `{exposed}` here. To use unprefixed names, connect with `mcpd connect --server {}`",
            config.name
        );
        error.message.push_str(&hint);
    }
    error
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::agent_message::{AgentMessage, Request};
    use super::super::task_token::{TaskTokenKey, TaskTokens};
    use super::*;
    use crate::account::tests::unlimited;
    use crate::clock::Moment;
    use crate::config::ServerConfig;
    use crate::era::subscription::ListenFilter;
    use crate::era::{Era, MODERN, NEWEST_LEGACY};
    use crate::manager::ViewPart;
    use crate::manager::tests::view;
    use crate::policy::{Policy, pattern};
    use crate::server::tests::{TestServer, in_runtime};
    use crate::server::{StopLevel, StopReceiver};
    use crate::transport::Incoming;

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    const EXTENSIONS: &str =
        r#"{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{},"e.org/x":{}}}"#;

    /// A session and the servers that its agent may see: `a` is ready and denies a tool, `b` is starting.
    struct World {
        servers: Vec<(Arc<ServerConfig>, TestServer)>,
        is_settled: bool,
        has_first_lists: bool,
        all_instances_listed: bool,
        is_stopping: bool,
        face: Option<&'static str>,
        named_uris: NamedUris,
    }

    /// Denies a tool, and so extensions.
    fn policy() -> Policy {
        Policy::new(None, &[pattern("write").expect("a glob")]).expect("small")
    }

    fn config(name: &str) -> Arc<ServerConfig> {
        let policy = policy().exposing_extensions(&[SKILLS.into(), "e.org/x".into()]);
        Arc::new(ServerConfig { policy, ..ServerConfig::new(name, "cat") })
    }

    impl World {
        fn new(change: impl FnOnce(&mut Self)) -> Self {
            let [a, b] = ["a", "b"].map(config);
            let tools =
                r#"[{"name":"read","inputSchema":{"type":"object"}},{"name":"write","inputSchema":{"type":"object"}}]"#;
            let lists = [
                (ListKind::Tools, tools),
                (ListKind::Prompts, r#"[{"name":"p"}]"#),
                (ListKind::Resources, r#"[{"uri":"x://a","name":"x"}]"#),
            ];
            let servers = vec![
                (Arc::clone(&a), TestServer::new(&a).ready(EXTENSIONS, &lists)),
                (Arc::clone(&b), TestServer::new(&b)),
            ];
            let mut world = Self {
                servers,
                is_settled: true,
                has_first_lists: true,
                all_instances_listed: true,
                is_stopping: false,
                face: None,
                named_uris: NamedUris::default(),
            };
            change(&mut world);
            world
        }

        /// `b` has this state.
        fn change_b(&mut self, change: impl FnOnce(TestServer) -> TestServer) {
            let (config, server) = self.servers.pop().expect("b is the last");
            self.servers.push((config, change(server)));
        }

        /// What becomes of `request`, in words.
        fn route(&self, request: ParkableRequest, now: Instant) -> String {
            let part = ViewPart { face: self.face.map(Into::into), without: None };
            let view = view(&self.servers, self.is_settled).part(&part);
            let (stop, stopping) = StopReceiver::channel();
            if self.is_stopping {
                stop.send_replace(StopLevel::FinishRunning);
            }
            let (to_session, _) = SessionSender::channel(None, Arc::default(), stopping);
            let tokens = TaskTokens::new(TaskTokenKey::generate().expect("random numbers").into(), "p".into());
            let state = RoutingState {
                session: 1,
                to_session: &to_session,
                has_first_lists: self.has_first_lists,
                all_instances_listed: self.all_instances_listed,
                named_uris: &self.named_uris,
                resources: &ResourceSubscriptions::default(),
                unanswered: &UnansweredRequests::new(1, unlimited()),
                tasks: &TaskDirectory::new(tokens),
            };
            let of = |servers: &[usize]| {
                servers.iter().map(|index| &*view.servers[*index].config.name).collect::<Vec<_>>().join(" ")
            };
            match super::route(request, &view, &state, now) {
                Decision::Answer(OwnRequest::List { kind, .. }) => format!("answer {}", kind.method()),
                Decision::Answer(OwnRequest::Handshake { .. }) => "answer handshake".into(),
                Decision::Answer(OwnRequest::Listen { .. }) => "answer listen".into(),
                Decision::Send(_, Destination { member, rename, .. }) => {
                    let name = rename.map(|(_, own)| format!(" as {}", String::from_utf8_lossy(&own)));
                    format!("send to {}{}", member.config.name, name.unwrap_or_default())
                }
                Decision::FanOut(_, extension, servers) => format!("fan out {extension} to {}", of(&servers)),
                Decision::Park(_, AwaitedChange::FirstLists) => "park for first lists".into(),
                Decision::Park(_, AwaitedChange::Handshake(_)) => "park for handshake".into(),
                Decision::Park(_, AwaitedChange::List(candidates, _)) => {
                    let names: Vec<_> = candidates.iter().map(|member| &*member.config.name).collect();
                    format!("park for {}", names.join(" "))
                }
                Decision::Refuse(_, error, _) => format!("refuse {} {}", error.code, error.message),
            }
        }
    }

    /// The call in this request.
    fn call(method: &str, params: &str) -> ParkableRequest {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let message = AgentMessage::from(Incoming::of(line.into()));
        let AgentMessage::Request(Request { call: Some(Ok(call)), .. }) = message else { panic!("{message:?}") };
        ParkableRequest::Call { call, until: None }
    }

    fn tool(name: &str) -> ParkableRequest {
        call("tools/call", &format!(r#"{{"name":"{name}"}}"#))
    }

    fn read(uri: &str) -> ParkableRequest {
        call("resources/read", &format!(r#"{{"uri":"{uri}"}}"#))
    }

    /// Params of a modern request with this member.
    fn modern(member: &str) -> String {
        format!("{{{member},{META}}}")
    }

    fn list(kind: ListKind) -> ParkableRequest {
        ParkableRequest::Own(OwnRequest::List {
            id: Bytes::from("1"),
            kind,
            era: Era::Legacy,
            face: None,
            received: Moment::now(),
        })
    }

    fn handshake(protocol: &'static str, until: Instant) -> ParkableRequest {
        ParkableRequest::Own(OwnRequest::Handshake {
            id: Bytes::from("1"),
            protocol,
            face: None,
            until,
            received: Moment::now(),
        })
    }

    fn listen() -> ParkableRequest {
        let filter =
            ListenFilter::read(&Bytes::from(r#"{"notifications":{"toolsListChanged":true}}"#)).expect("a filter");
        ParkableRequest::Own(OwnRequest::Listen { id: Bytes::from("1"), filter, face: None })
    }

    type Change = fn(&mut World);
    /// A rule, the world, the request, and what becomes of it.
    type Row = (&'static str, Change, ParkableRequest, &'static str);

    const AS_IS: Change = |_| {};
    const UNSETTLED: Change = |world| world.is_settled = false;
    const FACE_OF_A: Change = |world| world.face = Some("a");
    const FACE_OF_B: Change = |world| world.face = Some("b");
    const B_HAS_EXTENSIONS: Change = |world| world.change_b(|b| b.ready(EXTENSIONS, &[]));
    const B_HAS_TOOLS: Change = |world| world.change_b(|b| b.ready(r#"{"tools":{}}"#, &[]));
    const B_HAS_FAILED: Change = |world| world.change_b(TestServer::failed);

    fn check(rows: impl IntoIterator<Item = Row>) {
        check_at(Instant::now(), rows);
    }

    fn check_at(now: Instant, rows: impl IntoIterator<Item = Row>) {
        in_runtime(|| {
            for (rule, change, request, expected) in rows {
                assert_eq!(World::new(change).route(request, now), expected, "{rule}");
            }
        });
    }

    #[test]
    fn call_goes_to_the_server_that_exposes_its_tool() {
        let unknown = "refuse -32602 Unknown tool: a__none";
        let hint = "refuse -32602 Unknown tool: read; the tool is `a__read` here. \
                    To use unprefixed names, connect with `mcpd connect --server a`";
        check([
            ("listed tool", AS_IS, tool("a__read"), "send to a as \"read\""),
            ("listed tool before the first lists", UNSETTLED, tool("a__read"), "send to a as \"read\""),
            ("prompt", AS_IS, call("prompts/get", r#"{"name":"a__p"}"#), "send to a as \"p\""),
            ("denied tool", AS_IS, tool("a__write"), "refuse -32602 Unknown tool: a__write"),
            ("unknown tool", AS_IS, tool("a__none"), unknown),
            ("tool by its own name", AS_IS, tool("read"), hint),
            ("tool in a face", FACE_OF_A, tool("read"), "send to a"),
            ("exposed name in a face", FACE_OF_A, tool("a__read"), "refuse -32602 Unknown tool: a__read"),
            ("denied tool in a face", FACE_OF_A, tool("write"), "refuse -32602 Unknown tool: write"),
        ]);
    }

    #[test]
    fn call_waits_for_a_server_that_may_still_list_its_tool() {
        let now = Instant::now();
        let parked = |until| match tool("b__x") {
            ParkableRequest::Call { call, .. } => ParkableRequest::Call { call, until: Some(until) },
            own @ ParkableRequest::Own(_) => own,
        };
        let not_listed: Change = |world| world.all_instances_listed = false;
        let starting = "refuse -31004 server `b` is not available: is still starting";
        let failed = "refuse -31004 server `b` is not available: was broken by a test";
        check_at(
            now,
            [
                ("tool of a starting server", AS_IS, tool("b__x"), "park for b"),
                ("parked in time", AS_IS, parked(now + Duration::from_secs(1)), "park for b"),
                ("parked too long", AS_IS, parked(now), starting),
                ("tool of a ready server", B_HAS_TOOLS, tool("b__x"), "refuse -32602 Unknown tool: b__x"),
                ("tool of a failed server", B_HAS_FAILED, tool("b__x"), failed),
                ("tool that an own instance may list", not_listed, tool("a__none"), "park for first lists"),
            ],
        );
    }

    #[test]
    fn resource_is_read_where_it_is_listed_or_was_named() {
        let of_b: Change = |world| {
            world.face = Some("b");
            world.change_b(|b| b.ready(r#"{"resources":{}}"#, &[]));
        };
        let named: Change = |world| {
            let block = r#"{"type":"resource_link","uri":"z://n","name":"n"}"#;
            let line = format!("{{\"result\":{{\"content\":[{block}]}}}}\n");
            world.named_uris.record(&"a".into(), &line.into());
        };
        let modern = call("resources/read", &modern(r#""uri":"y://b""#));
        check([
            ("resource", AS_IS, read("x://a"), "send to a"),
            ("resource that a starting server may list", AS_IS, read("x://b"), "park for b"),
            ("resource that a result has named", named, read("z://n"), "send to a"),
            ("unknown resource", of_b, read("y://b"), "refuse -32002 Resource not found"),
            ("unknown resource, modern", of_b, modern, "refuse -32602 Resource not found"),
            ("unlisted skill of one server", B_HAS_TOOLS, read("skill://s/SKILL.md"), "send to a"),
            ("unlisted skill of one of two", B_HAS_EXTENSIONS, read("skill://s/x"), "refuse -32002 Resource not found"),
        ]);
    }

    #[test]
    fn own_answers_wait_for_first_lists_and_handshakes() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let not_listed: Change = |world| world.has_first_lists = false;
        let stopping: Change = |world| (world.face, world.is_stopping) = (Some("b"), true);
        let tools = || list(ListKind::Tools);
        check_at(
            now,
            [
                ("list", AS_IS, tools(), "answer tools/list"),
                ("list before the first lists", UNSETTLED, tools(), "park for first lists"),
                ("list before an own instance has listed", not_listed, tools(), "park for first lists"),
                ("listen", AS_IS, listen(), "answer listen"),
                ("listen before the first lists", UNSETTLED, listen(), "park for first lists"),
                ("handshake", AS_IS, handshake(NEWEST_LEGACY, later), "answer handshake"),
                ("handshake in a face", FACE_OF_A, handshake(MODERN, later), "answer handshake"),
                ("face of a starting server", FACE_OF_B, handshake(MODERN, later), "park for handshake"),
                ("the same, for too long", FACE_OF_B, handshake(MODERN, now), "answer handshake"),
                ("the same, while the daemon stops", stopping, handshake(MODERN, now), "park for handshake"),
            ],
        );
    }

    #[test]
    fn method_of_an_extension_goes_to_the_servers_that_expose_it() {
        let skills = |params| call("skills/list", params);
        let denied: Change = |world| Arc::make_mut(&mut world.servers[0].0).policy = policy();
        let second_page = "refuse -32602 unknown cursor: the list has one page";
        let ambiguous = "refuse -32602 several servers have this method: a, b. \
                         Connect to one of them with `mcpd connect --server NAME`";
        check([
            ("list of skills", AS_IS, skills("{}"), "answer skills/list"),
            ("list of skills before the first lists", UNSETTLED, skills("{}"), "park for first lists"),
            ("second page of skills", AS_IS, skills(r#"{"cursor":"c"}"#), second_page),
            ("method of one server", AS_IS, call("x/run", "{}"), "send to a"),
            ("method of two servers", B_HAS_EXTENSIONS, call("x/run", "{}"), ambiguous),
            ("list of two servers", B_HAS_EXTENSIONS, call("x/list", "{}"), "fan out e.org/x to a b"),
            ("method of a denied extension", denied, call("x/run", "{}"), "refuse -32601 unknown method: x/run"),
            ("method of no extension", AS_IS, call("y/run", "{}"), "refuse -32601 unknown method: y/run"),
        ]);
    }

    #[test]
    fn request_about_a_task_needs_the_task_and_modern_support() {
        let unsupported = "refuse -32021 the request does not declare the extension for tasks";
        let modern = call("tasks/get", &modern(r#""taskId":"t""#));
        check([
            ("unknown task", AS_IS, call("tasks/get", r#"{"taskId":"t"}"#), "refuse -32602 Unknown task: t"),
            ("modern request without support", AS_IS, modern, unsupported),
        ]);
    }
}
