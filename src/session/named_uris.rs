//! The resources that results on a profile have named. Servers need not list them.
//!
//! A tool may return a link to a resource that no list has, and its agent reads the link at the same server. The URIs are shared by all
//! agents of a profile. They grant nothing: policy decides about each read.
//!
//! Of several servers that have named a URI, the first has it, as with listed resources.
//!
//! Source: MCP 2025-11-25, `server/tools`, "Resource Links": "Resource links returned by tools are not guaranteed to appear in the
//! results of a `resources/list` request."

#![expect(
    clippy::disallowed_types,
    reason = "the sessions of a profile share the URIs, and no lock is held across an await"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memchr::memmem;

use crate::jsonrpc::members::{Parts, members_of_parsed, string};
use crate::manager::{Member, View};

/// Number of URIs. Beyond it, the server with the most URIs loses the URI that it has not named for the longest time.
const MAX_URIS: usize = 1000;
/// Maximum length of a URI in bytes. Longer ones are not remembered.
const MAX_URI_LEN: usize = 2 << 10;

/// The newest URIs, by server.
#[derive(Debug, Default)]
pub(crate) struct NamedUris(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    servers: HashMap<Arc<str>, OfServer>,
    count: usize,
    /// Counts the namings.
    turn: u64,
}

#[derive(Debug, Default)]
struct OfServer {
    turns: HashMap<Arc<str>, Turns>,
    by_last_turn: BTreeMap<u64, Arc<str>>,
}

/// When a server has named a URI.
#[derive(Debug)]
struct Turns {
    first: u64,
    last: u64,
}

impl NamedUris {
    /// Remembers the URIs in a response, or in a notification about a task.
    pub(super) fn record(&self, server: &Arc<str>, line: &Bytes) {
        let uris = uris_in(line);
        if uris.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uris.into_iter().for_each(|uri| known.insert(server, uri));
    }

    /// The servers that have named this URI, in the order in which they first did.
    fn servers_of(&self, uri: &str) -> Vec<Arc<str>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = |(server, own): (&Arc<str>, &OfServer)| Some((own.turns.get(uri)?.first, Arc::clone(server)));
        let ordered: BTreeMap<u64, Arc<str>> = known.servers.iter().filter_map(first).collect();
        ordered.into_values().collect()
    }

    /// The index of the server in `view` that has named this URI. `None` if policy hides the resource.
    pub(super) fn server_in(&self, view: &View, uri: &[u8]) -> Option<usize> {
        let uri = str::from_utf8(uri).ok()?;
        let is_permitted = |member: &Member| member.is_enabled() && member.config.policy.permits_unlisted(uri);
        let index = |name: Arc<str>| view.servers.iter().position(|one| one.config.name == name && is_permitted(one));
        self.servers_of(uri).into_iter().find_map(index)
    }
}

impl Known {
    fn insert(&mut self, server: &Arc<str>, uri: String) {
        self.turn += 1;
        let turn = self.turn;
        let own = self.servers.entry(Arc::clone(server)).or_default();
        if let Some(turns) = own.turns.get_mut(&*uri) {
            if let Some(uri) = own.by_last_turn.remove(&turns.last) {
                own.by_last_turn.insert(turn, uri);
            }
            turns.last = turn;
            return;
        }
        let uri = Arc::from(uri);
        own.by_last_turn.insert(turn, Arc::clone(&uri));
        own.turns.insert(uri, Turns { first: turn, last: turn });
        self.count += 1;
        if self.count > MAX_URIS {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some(own) = self.servers.values_mut().max_by_key(|own| own.turns.len()) else { return };
        if let Some((_, uri)) = own.by_last_turn.pop_first() {
            own.turns.remove(&uri);
            self.count -= 1;
        }
    }
}

/// The URIs of resource links, embedded resources and the parts of a resource in a message: the last ones, if there are many. Few messages
/// name a resource, and a search is cheaper than parsing.
fn uris_in(line: &Bytes) -> VecDeque<String> {
    let mut found = VecDeque::new();
    let mut uris = memmem::find_iter(line, br#""uri""#);
    // A single part of a resource has the URI that was read.
    let may_name = uris.next().is_some() && (memmem::find(line, br#""resource"#).is_some() || uris.next().is_some());
    if may_name && let Ok([result, params]) = members_of_parsed(line, ["result", "params"]) {
        result.or(params).iter().for_each(|result| of_result(result, true, &mut found));
    }
    found
}

/// A task contains the result of its call.
fn of_result(result: &Bytes, may_be_task: bool, found: &mut VecDeque<String>) {
    let Ok([content, messages, contents, of_task]) =
        members_of_parsed(result, ["content", "messages", "contents", "result"])
    else {
        return;
    };
    elements(content.as_ref()).for_each(|block| of_block(&block, found));
    elements(messages.as_ref()).for_each(|message| of_message(&message, found));
    elements(contents.as_ref()).for_each(|part| of_resource(&part, found));
    of_task.iter().filter(|_| may_be_task).for_each(|result| of_result(result, false, found));
}

fn elements(array: Option<&Bytes>) -> impl Iterator<Item = Bytes> {
    array.and_then(Parts::of_array).into_iter().flatten().map(|(_, element)| element)
}

fn of_message(message: &Bytes, found: &mut VecDeque<String>) {
    if let Ok([Some(block)]) = members_of_parsed(message, ["content"]) {
        of_block(&block, found);
    }
}

fn of_block(block: &Bytes, found: &mut VecDeque<String>) {
    let Ok([Some(kind), resource]) = members_of_parsed(block, ["type", "resource"]) else { return };
    match (&kind[..], resource) {
        (br#""resource_link""#, _) => of_resource(block, found),
        (br#""resource""#, Some(resource)) => of_resource(&resource, found),
        _ => {}
    }
}

fn of_resource(resource: &Bytes, found: &mut VecDeque<String>) {
    let Ok([Some(uri)]) = members_of_parsed(resource, ["uri"]) else { return };
    if uri.len() <= MAX_URI_LEN
        && let Some(uri) = string(&uri)
    {
        if found.len() == MAX_URIS {
            found.pop_front();
        }
        found.push_back(uri);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(uri: &str) -> String {
        format!(r#"{{"type":"resource_link","uri":"{uri}","name":"n"}}"#)
    }

    fn result(blocks: &[String]) -> Bytes {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[{}]}}}}\n", blocks.join(",")).into()
    }

    #[test]
    fn results_name_resources_in_each_form() {
        for (message, expected) in [
            (r#"{"result":{"content":[{"type":"resource_link","uri":"a:\u0031"},{"type":"text"}]}}"#, &["a:1"][..]),
            (r#"{"result":{"content":[{"type":"resource","resource":{"uri":"b:1","text":""}}]}}"#, &["b:1"]),
            (r#"{"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"c:1"}}]}}"#, &["c:1"]),
            (r#"{"result":{"contents":[{"uri":"d:1","text":""},{"uri":"d:2","blob":""}]}}"#, &["d:1", "d:2"]),
            (
                r#"{"result":{"status":"completed","result":{"content":[{"type":"resource_link","uri":"e:1"}]}}}"#,
                &["e:1"],
            ),
            (r#"{"params":{"taskId":"t","result":{"content":[{"type":"resource_link","uri":"f:1"}]}}}"#, &["f:1"]),
            (r#"{"result":{"contents":[{"uri":"g:1","text":""}]}}"#, &[]),
            (r#"{"result":{"content":[{"type":"text","text":"{\"type\":\"resource_link\",\"uri\":\"h:1\"}"}]}}"#, &[]),
            (r#"{"result":{"content":[],"structuredContent":{"type":"resource_link","uri":"i:1"}}}"#, &[]),
            (r#"{"result":{"content":[{"type":"resource_link","uri":7},{"type":"resource_link"},7]}}"#, &[]),
            (r#"{"error":{"code":1,"data":{"content":[{"type":"resource_link","uri":"j:1"}]}}}"#, &[]),
        ] {
            assert_eq!(uris_in(&Bytes::from_static(message.as_bytes())), expected, "{message}");
        }
    }

    #[test]
    fn newest_uris_of_each_server_are_known() {
        let (known, [a, b]) = (NamedUris::default(), ["a", "b"].map(Arc::<str>::from));
        known.record(&b, &result(&[link("x://both"), link("x://b")]));
        known.record(&a, &result(&[link("x://both"), link("x://first")]));
        assert_eq!(known.servers_of("x://both"), [Arc::clone(&b), Arc::clone(&a)]);
        for from in [0, 600] {
            known.record(&a, &result(&(from..from + 600).map(|n| link(&format!("x://{n}"))).collect::<Vec<_>>()));
            known.record(&a, &result(&[link("x://first")]));
        }
        assert_eq!(known.servers_of("x://first"), [Arc::clone(&a)], "it was named again");
        assert_eq!(known.servers_of("x://b"), [b], "another server has more");
        assert_eq!((known.servers_of("x://0"), known.servers_of("x://1199")), (Vec::new(), vec![a]));
        assert_eq!(known.0.lock().expect("a lock").count, MAX_URIS);
        let (long, longest) = ("y".repeat(MAX_URI_LEN), "y".repeat(MAX_URI_LEN - 2));
        known.record(&"c".into(), &result(&[link(&long), link(&longest)]));
        assert_eq!((known.servers_of(&long).len(), known.servers_of(&longest).len()), (0, 1));
    }
}
