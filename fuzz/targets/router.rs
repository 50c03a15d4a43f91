//! Two servers, two agents and the pure modules between them: lists, catalog, requests, responses.
//!
//! The first byte is the naming scheme, the first two lines are the servers' lists. Each further line is an agent's, or with
//! a leading `<` a server's response. Nothing panics; listed names are callable and denied names are neither; messages pass
//! unchanged except for id, name and progress token; every call ends once, with its agent.

#![no_main]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use pure_modules::catalog::{Catalog, Item, Lists, Names, Route, Source};
use pure_modules::clock::Moment;
use pure_modules::config::{Malformed, Settings};
use pure_modules::durations::Operation;
use pure_modules::jsonrpc::members::{members, text};
use pure_modules::jsonrpc::message::{Rename, RequestLine};
use pure_modules::jsonrpc::pending::{Match, Pending};
use pure_modules::jsonrpc::splice::{Edit, splice};
use pure_modules::jsonrpc::{Message, parse};
use pure_modules::list_kind::{ListKind, PerKind};
use pure_modules::methods::{self, AnsweredBy};
use pure_modules::naming::Naming;
use pure_modules::policy::{self, Policy};
use pure_modules::server::control::StopReceiver;
use pure_modules::server::listing::{Listing, Next};
use pure_modules::server::messages::call::{Call, CallKey, Origin, RequestKind, ResponseHandle, SessionSender};
use pure_modules::session::received_call::{ReceivedCall, RouteTarget};
use pure_modules::tool_overrides::ToolOverrides;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let Some((naming, rest)) = data.split_first() else { return };
    let naming = Naming::ALL[usize::from(*naming) % 3].1;
    let mut lines = rest.split(|byte| *byte == b'\n').map(Bytes::copy_from_slice);
    let lists = [lines.next(), lines.next()].map(|line| line.map(|line| lists(&line)).unwrap_or_default());
    let world = World::new(naming, lists);
    world.check_list();
    let mut router =
        Router { world, pending: [Pending::default(), Pending::default()], open: HashMap::new(), ended: 0 };
    let mut calls = 0;
    for (number, line) in lines.enumerate() {
        match line.strip_prefix(b"<") {
            Some(answer) => router.answer(number % 2, &line.slice_ref(answer)),
            None => calls += usize::from(router.ask(number % 2, line)),
        }
    }
    let left: usize = router.pending.iter().map(Pending::len).sum();
    assert_eq!(router.ended + left, calls, "a call that has not ended once");
});

fn lists(result: &Bytes) -> Lists {
    PerKind::from_fn(|kind| match Listing::of(kind, Malformed::Pass).page(result) {
        Ok(Next::Done(list)) => Arc::new(list),
        Ok(Next::Page(..)) | Err(_) => Arc::default(),
    })
}

/// Two servers and their catalog.
struct World {
    names: [Arc<str>; 2],
    policies: [Policy; 2],
    lists: [Lists; 2],
    catalog: Catalog,
}

impl World {
    fn new(naming: Naming, lists: [Lists; 2]) -> Self {
        let deny = ["deny*", "*x?"].map(|glob| policy::pattern(glob).expect("a glob"));
        let policies = [Policy::default(), Policy::new(None, &deny).expect("small")];
        let names = [Arc::from("one"), Arc::from("two")];
        let settings = Settings::default();
        let overrides = ToolOverrides::default();
        let source = |n: usize| Source {
            name: &names[n],
            policy: &policies[n],
            settings: &settings,
            overrides: &overrides,
            lists: &lists[n],
        };
        let catalog = Catalog::build(&mut Names::default(), naming, &[source(0), source(1)], usize::MAX);
        Self { names, policies, lists, catalog }
    }

    /// Every listed item has a route, is permitted, and equals its server's definition except for the name.
    fn check_list(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts] {
            self.check_list_of(kind);
        }
    }

    fn check_list_of(&self, kind: ListKind) {
        let list = self.catalog.list(kind);
        let Ok([Some(listed)]) = members(list, [kind.member()]) else { panic!("no list: {list:?}") };
        let listed: Vec<&RawValue> = serde_json::from_slice(&listed).expect("a list");
        assert_eq!(listed.len(), self.catalog.count(kind));
        for item in listed {
            let item = Bytes::copy_from_slice(item.get().as_bytes());
            let Ok([Some(raw_name)]) = members(&item, ["name"]) else { panic!("without a name: {item:?}") };
            let name = text(&raw_name).expect("a text");
            assert!(name.len() <= 53 && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)));
            let route = self.catalog.route(kind, &name).expect("what is listed is routed to");
            let [before, after] = around(&item, &raw_name);
            let has_name = |own: &&Item| {
                *own.key == *route.name && around(&own.json, &own.raw_key) == [before.clone(), after.clone()]
            };
            let own = self.lists[route.server][kind].items.iter().find(has_name).expect("nothing is altered");
            let is_permitted = self.policies[route.server].permits(kind, &route.name, Some(&own.json));
            assert!(is_permitted, "{name:?} is denied");
        }
    }
}

/// The text before and after a part.
fn around(text: &Bytes, part: &Bytes) -> [Bytes; 2] {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    [text.slice(..start), text.slice(start + part.len()..)]
}

/// A call at a server.
struct Entry {
    number: u64,
    agent: usize,
    id: Bytes,
}

struct Router {
    world: World,
    /// Calls of each server.
    pending: [Pending<Entry>; 2],
    /// Open calls of each agent.
    open: HashMap<(usize, Bytes), usize>,
    ended: usize,
}

impl Router {
    /// An agent sends `line`. Returns whether it was a call that went to a server.
    fn ask(&mut self, agent: usize, line: Bytes) -> bool {
        let Ok(Message::Request { id, method, params }) = parse(&line) else { return false };
        let Some(row) = methods::find(&method) else { return false };
        let AnsweredBy::Server(forwarding) = row.answered_by else { return false };
        if self.open.contains_key(&(agent, id.clone())) {
            return false;
        }
        let Ok(request) = ReceivedCall::read(row, forwarding, line.clone(), &id, params.as_ref(), Moment::now()) else {
            return false;
        };
        let Some(RouteTarget::Route(route)) = request.target(&self.world.catalog) else { return false };
        let route = route.clone();
        let (to, mut answers) = SessionSender::channel(None, Arc::default(), StopReceiver);
        let key = CallKey { session: agent as u64, serial: 1 };
        let call = Call {
            operation: Operation::new(row.name, None),
            response_handle: ResponseHandle::new(key, &id, &self.world.names[route.server], &to),
            request: RequestLine {
                line: line.clone(),
                id: id.clone(),
                rename: Some(Rename { exposed: request.raw_exposed_name.clone(), server_name: route.raw_name.clone() }),
                progress_token: request.progress_token.clone(),
            },
            kind: RequestKind::Plain,
            result_kind: None,
            limit: route.limit,
            origin: Origin::Legacy(Arc::default()),
            access: None,
        };
        self.pending[route.server].register(|number| {
            check_request(&request, &method, &route, number, &call.request.numbered(number, &[]));
            Entry { number, agent, id: id.clone() }
        });
        drop(call);
        assert!(answers.try_recv().is_ok() && answers.try_recv().is_err(), "a call that is dropped is answered once");
        self.open.insert((agent, id), route.server);
        true
    }

    /// A server sends `line`.
    fn answer(&mut self, server: usize, line: &Bytes) {
        let Ok(Message::Response { id, .. }) = parse(line) else { return };
        let Match::Owner(entry) = self.pending[server].take(&id) else { return };
        assert_eq!(id, entry.number.to_string(), "an id that was never sent");
        assert!(matches!(self.pending[server].take(&id), Match::Unknown), "an answer is taken once");
        assert_eq!(self.open.remove(&(entry.agent, entry.id.clone())), Some(server), "another's answer");
        let routed = splice(line, &mut [Edit { part: &id, replacement: &entry.id }]);
        let routed = routed.strip_suffix(b"\n").map(|line| routed.slice_ref(line)).expect("a line");
        let Ok(Message::Response { id: back, .. }) = parse(&routed) else { panic!("no answer any more: {routed:?}") };
        assert_eq!(back, entry.id);
        assert_eq!(around(&routed, &back), around(line, &id), "more than the id is altered");
        self.ended += 1;
    }
}

/// `sent` equals the agent's line except for id, name and token.
fn check_request(request: &ReceivedCall, name: &Bytes, route: &Route, number: u64, sent: &Bytes) {
    let line = sent.strip_suffix(b"\n").map(|line| sent.slice_ref(line)).expect("a line");
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'), "more than one line");
    let Ok(Message::Request { id, method, params }) = parse(&line) else { panic!("no request any more: {line:?}") };
    assert_eq!((&method, &id[..]), (name, number.to_string().as_bytes()));
    let again =
        ReceivedCall::read(request.method, request.forwarding, line.clone(), &id, params.as_ref(), request.received)
            .expect("a call still");
    assert_eq!(again.raw_exposed_name, route.raw_name);
    assert_eq!(again.exposed_name, route.name.as_bytes());
    assert_eq!(again.progress_token.as_ref(), request.progress_token.as_ref().map(|_| &id));
    // With these restored, it equals the received line.
    let mut edits = vec![
        Edit { part: &again.id, replacement: &request.id },
        Edit { part: &again.raw_exposed_name, replacement: &request.raw_exposed_name },
    ];
    let tokens = again.progress_token.as_ref().zip(request.progress_token.as_ref());
    edits.extend(tokens.map(|(part, replacement)| Edit { part, replacement }));
    assert_eq!(splice(&line, &mut edits).strip_suffix(b"\n"), Some(&request.line[..]), "something else is altered");
}
