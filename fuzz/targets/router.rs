//! Two servers, two agents and what stands between them, without any I/O: tool lists, catalog, calls, answers.
//!
//! The first byte is the naming scheme, the first two lines are what the servers answer to `tools/list`. Each further
//! line is an agent's, or with a `<` before it the servers' answer. Nothing panics; what is listed is callable and what is
//! denied is neither; what goes out is what came in but for the id, the name and the progress token; every call
//! ends once, with its own agent.

#![no_main]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rooms::catalog::{Catalog, Names, Route, Source, Tool};
use rooms::config::Settings;
use rooms::jsonrpc::members::{members, text};
use rooms::jsonrpc::pending::{Pending, Taken};
use rooms::jsonrpc::splice::{Edit, splice};
use rooms::jsonrpc::{Message, parse};
use rooms::moment::Moment;
use rooms::naming::{Naming, Scheme};
use rooms::policy::{self, Policy};
use rooms::server::call::{Call, CallKey, Reply, ReplySender};
use rooms::server::listing::{Listing, Next};
use rooms::session::asked::Asked;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let Some((scheme, rest)) = data.split_first() else { return };
    let scheme = Scheme::ALL[usize::from(*scheme) % 3].1;
    let mut lines = rest.split(|byte| *byte == b'\n').map(Bytes::copy_from_slice);
    let lists = [lines.next(), lines.next()].map(|line| line.map(|line| tools(&line)).unwrap_or_default());
    let world = World::new(scheme, lists);
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

fn tools(result: &Bytes) -> Vec<Tool> {
    match Listing::default().page(result) {
        Some(Next::Done(list)) => list.tools,
        Some(Next::Page(..)) | None => Vec::new(),
    }
}

/// Two servers and what is exposed of them.
struct World {
    names: [Arc<str>; 2],
    policies: [Policy; 2],
    tools: [Vec<Tool>; 2],
    catalog: Catalog,
}

impl World {
    fn new(scheme: Scheme, tools: [Vec<Tool>; 2]) -> Self {
        let deny = ["deny*", "*x?"].map(|glob| policy::pattern(glob).expect("a glob"));
        let policies = [Policy::default(), Policy::new(None, &deny).expect("small")];
        let names = [Arc::from("one"), Arc::from("two")];
        let naming = Naming { scheme, ..Naming::default() };
        let settings = Settings::default();
        let source = |n: usize| Source { name: &names[n], policy: &policies[n], settings: &settings, tools: &tools[n] };
        let catalog = Catalog::build(&mut Names::default(), &naming, &[source(0), source(1)]);
        Self { names, policies, tools, catalog }
    }

    /// What is listed is what is routed to, is permitted, and is what its server said of it but for the name.
    fn check_list(&self) {
        let list = self.catalog.list();
        let Ok([Some(listed)]) = members(list, ["tools"]) else { panic!("no list: {list:?}") };
        let listed: Vec<&RawValue> = serde_json::from_slice(&listed).expect("a list");
        assert_eq!(listed.len(), self.catalog.len());
        for tool in listed {
            let tool = Bytes::copy_from_slice(tool.get().as_bytes());
            let Ok([Some(raw_name)]) = members(&tool, ["name"]) else { panic!("a tool without a name: {tool:?}") };
            let name = text(&raw_name).expect("a text");
            assert!(name.len() <= 53 && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)));
            let route = self.catalog.route(&name).expect("what is listed is callable");
            assert!(self.policies[route.server].permits(&route.tool), "{name:?} is denied");
            let [before, after] = around(&tool, &raw_name);
            let said_so = |own: &&Tool| {
                *own.name == *route.tool && around(&own.definition, &own.raw_name) == [before.clone(), after.clone()]
            };
            assert!(self.tools[route.server].iter().any(|own| said_so(&own)), "{tool:?} is altered");
        }
    }
}

/// What stands before and behind a part of a text.
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
    /// Of each server.
    pending: [Pending<Entry>; 2],
    /// Where each agent's open calls are.
    open: HashMap<(usize, Bytes), usize>,
    ended: usize,
}

impl Router {
    /// An agent says `line`; whether that was a call which went to a server.
    fn ask(&mut self, agent: usize, line: Bytes) -> bool {
        let Ok(Message::Request { id, method, params }) = parse(&line) else { return false };
        if method[..] != b"tools/call"[..] || self.open.contains_key(&(agent, id.clone())) {
            return false;
        }
        let Ok(asked) = Asked::read(line.clone(), &id, params.as_ref(), Moment::now()) else { return false };
        let Some(route) = self.world.catalog.route(&asked.name).cloned() else { return false };
        let (to, mut answers) = ReplySender::channel(Arc::default());
        let key = CallKey { session: agent as u64, serial: 1 };
        let call = Call {
            reply: Reply::new(key, &id, &self.world.names[route.server], &to),
            line: line.clone(),
            id: id.clone(),
            rename: Some((asked.raw_name.clone(), route.raw_name.clone())),
            progress_token: asked.progress_token.clone(),
            limit: route.limit,
        };
        self.pending[route.server].register(|number| {
            check_call(&asked, &route, number, &call.line_as(number));
            Entry { number, agent, id: id.clone() }
        });
        drop(call);
        assert!(answers.try_recv().is_ok() && answers.try_recv().is_err(), "a call that is dropped is answered once");
        self.open.insert((agent, id), route.server);
        true
    }

    /// A server says `line`.
    fn answer(&mut self, server: usize, line: &Bytes) {
        let Ok(Message::Response { id, .. }) = parse(line) else { return };
        let Taken::Owner(entry) = self.pending[server].take(&id) else { return };
        assert_eq!(id, entry.number.to_string(), "an id that was never sent");
        assert!(matches!(self.pending[server].take(&id), Taken::Stray), "an answer is taken once");
        assert_eq!(self.open.remove(&(entry.agent, entry.id.clone())), Some(server), "another's answer");
        let told = splice(line, &mut [Edit { part: &id, replacement: &entry.id }]);
        let told = told.strip_suffix(b"\n").map(|line| told.slice_ref(line)).expect("a line");
        let Ok(Message::Response { id: back, .. }) = parse(&told) else { panic!("no answer any more: {told:?}") };
        assert_eq!(back, entry.id);
        assert_eq!(around(&told, &back), around(line, &id), "more than the id is altered");
        self.ended += 1;
    }
}

/// `sent` is the agent's line but for the id, the name and the token, which are those of the server.
fn check_call(asked: &Asked, route: &Route, number: u64, sent: &Bytes) {
    let line = sent.strip_suffix(b"\n").map(|line| sent.slice_ref(line)).expect("a line");
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'), "more than one line");
    let Ok(Message::Request { id, method, params }) = parse(&line) else { panic!("no request any more: {line:?}") };
    assert_eq!((&method[..], &id[..]), (&b"tools/call"[..], number.to_string().as_bytes()));
    let again = Asked::read(line.clone(), &id, params.as_ref(), asked.at).expect("a call still");
    assert_eq!(again.raw_name, route.raw_name);
    assert_eq!(again.name, route.tool.as_bytes());
    assert_eq!(again.progress_token.as_ref(), asked.progress_token.as_ref().map(|_| &id));
    // Put back, it is the line that came in.
    let mut edits = vec![
        Edit { part: &again.id, replacement: &asked.id },
        Edit { part: &again.raw_name, replacement: &asked.raw_name },
    ];
    let tokens = again.progress_token.as_ref().zip(asked.progress_token.as_ref());
    edits.extend(tokens.map(|(part, replacement)| Edit { part, replacement }));
    assert_eq!(splice(&line, &mut edits).strip_suffix(b"\n"), Some(&asked.line[..]), "something else is altered");
}
