//! Requests that several servers answer together: lists that are merged into one, and items that one of the servers has. Pure.
//!
//! Each server gets a call of its own. The agent gets one response: the merged list once every server has answered, or the first result
//! in file order. A server that fails does not affect the others. A result that cannot be merged is a failure of its server, and never
//! reaches the agent, because its items would not be filtered.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::forwardable_request::ForwardableRequest;
use super::quota::CallPermit;
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{each, members};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::{Message, error_in, parse};
use crate::server::messages::call::{AccessTarget, CallKey, TargetKind};

/// Maximum number of pages of one server's list. Later ones are left out.
const MAX_PAGES: usize = 100;
/// Maximum number of items of all servers together, as in a list of MCP. Pages beyond it are left out.
const MAX_ITEMS: usize = 10_000;
/// Maximum bytes of all items together, as in a list of MCP.
const MAX_BYTES: usize = 8 << 20;

/// Unfinished fan-out requests of one agent.
#[derive(Debug, Default)]
pub(super) struct FanOuts(Vec<FanOut>);

/// A request of the agent that several servers answer.
#[derive(Debug)]
pub(super) struct FanOut {
    pub(super) request: ForwardableRequest,
    pub(super) combination: Combination,
    /// When the first calls were sent.
    began: Instant,
    /// In file order. Without those after the first result, if only the first counts.
    subrequests: Vec<Subrequest>,
    /// Whether several servers have received the request.
    is_shared: bool,
    limits: Limits,
    /// The response line of the last of the subrequests, if only the first result counts.
    result: Option<Bytes>,
    /// The first error line in file order, with the index of its subrequest. An unknown item is no error.
    error: Option<(usize, Bytes)>,
    #[expect(dead_code, reason = "it counts the request as one call until it is dropped")]
    permit: CallPermit,
}

/// What the items of all servers may still use.
#[derive(Debug)]
struct Limits {
    bytes: usize,
    items: usize,
    max_bytes: usize,
}

/// How the responses are combined.
#[derive(Debug, Clone)]
pub(super) enum Combination {
    /// The lists of all servers as one.
    Merge {
        /// The extension.
        id: Arc<str>,
    },
    /// The first result.
    FirstSuccess {
        uri: Box<str>,
        /// The extension.
        id: Arc<str>,
        /// The error if no server has the item.
        error_kind: TargetKind,
    },
}

/// The call to one server.
#[derive(Debug)]
struct Subrequest {
    server: Arc<str>,
    state: SubrequestState,
    pages: usize,
    /// The member of the results with the items.
    member: Option<Bytes>,
    items: Vec<Bytes>,
    /// The shortest `ttlMs` of the pages; `None` if a page has none.
    ttl: Option<u64>,
}

#[derive(Debug)]
enum SubrequestState {
    Pending(CallKey),
    Done,
    Failed,
}

/// What follows after a response.
pub(super) enum Next {
    /// Other responses are awaited.
    Wait,
    /// Request the next page of this server's list, at this raw cursor.
    Page {
        request: ForwardableRequest,
        combination: Combination,
        server: Arc<str>,
        cursor: Bytes,
        /// When the request was sent to its servers.
        began: Instant,
    },
    Complete(FanOut),
}

/// A merged list.
pub(super) struct MergedList {
    /// The member of the result with the items.
    pub(super) member: Bytes,
    /// Each item with its server.
    pub(super) items: Vec<(Arc<str>, Bytes)>,
    /// The time to live, if all results have one.
    pub(super) ttl: Option<u64>,
}

impl FanOuts {
    pub(super) fn add(&mut self, fan_out: FanOut) {
        self.0.push(fan_out);
    }

    /// The bytes of responses that stay in memory until the agent is answered.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(FanOut::bytes).sum()
    }

    /// Removes the request with this raw id.
    pub(super) fn remove(&mut self, id: &Bytes) -> Option<FanOut> {
        let index = self.0.iter().position(|fan_out| fan_out.request.id == *id)?;
        Some(self.0.swap_remove(index))
    }

    /// A server has answered the call `key` for the request with this raw id.
    pub(super) fn answered(&mut self, id: &Bytes, key: CallKey, line: &Bytes) -> Next {
        let Some(fan_out) = self.0.iter_mut().find(|fan_out| fan_out.request.id == *id) else {
            return Next::Wait;
        };
        if let Some(page) = fan_out.answered(key, line) {
            return page;
        }
        self.take_if_complete(id)
    }

    /// The call for the next page of `server` was sent, or was refused with this line.
    pub(super) fn page_sent(&mut self, id: &Bytes, server: &str, sent: Result<CallKey, Bytes>) -> Next {
        if let Some(fan_out) = self.0.iter_mut().find(|fan_out| fan_out.request.id == *id)
            && let Some(index) = fan_out.subrequests.iter().position(|subrequest| *subrequest.server == *server)
        {
            fan_out.sent(index, sent);
        }
        self.take_if_complete(id)
    }

    /// The request with this raw id, if it can be answered.
    pub(super) fn take_if_complete(&mut self, id: &Bytes) -> Next {
        let is_complete = self.0.iter().any(|fan_out| fan_out.request.id == *id && fan_out.is_complete());
        if is_complete { self.remove(id).map_or(Next::Wait, Next::Complete) } else { Next::Wait }
    }
}

impl Limits {
    /// Counts a page, unless it exceeds a limit.
    fn admit(&mut self, bytes: usize, items: usize) -> bool {
        let fits = self.bytes + bytes <= self.max_bytes && self.items + items <= MAX_ITEMS;
        if fits {
            (self.bytes, self.items) = (self.bytes + bytes, self.items + items);
        }
        fits
    }
}

impl FanOut {
    /// `sent` has each server, with the key of its call, or the error line.
    pub(super) fn new(
        request: ForwardableRequest,
        combination: Combination,
        began: Instant,
        sent: Vec<(Arc<str>, Result<CallKey, Bytes>)>,
        max_message: usize,
        permit: CallPermit,
    ) -> Self {
        let limits = Limits { bytes: 0, items: 0, max_bytes: max_message.min(MAX_BYTES) };
        let (is_shared, subrequests, result, error) = (sent.len() > 1, Vec::new(), None, None);
        let mut fan_out = Self { request, combination, began, subrequests, is_shared, limits, result, error, permit };
        for (index, (server, sent)) in sent.into_iter().enumerate() {
            let (state, member, items) = (SubrequestState::Failed, None, Vec::new());
            fan_out.subrequests.push(Subrequest { server, state, pages: 0, member, items, ttl: None });
            fan_out.sent(index, sent);
        }
        fan_out
    }

    /// What a call to a server needs to be exposed.
    pub(super) fn access(combination: &Combination) -> AccessTarget {
        let (id, skill) = match combination {
            Combination::Merge { id } => (id, None),
            Combination::FirstSuccess { id, uri, .. } => (id, Some(&**uri)),
        };
        AccessTarget::extension(Arc::clone(id), skill)
    }

    fn bytes(&self) -> usize {
        let lines = self.result.iter().chain(self.error.iter().map(|(_, line)| line));
        self.limits.bytes + lines.map(Bytes::len).sum::<usize>()
    }

    fn is_complete(&self) -> bool {
        let is_pending = |subrequest: &&Subrequest| matches!(subrequest.state, SubrequestState::Pending(_));
        match self.combination {
            Combination::Merge { .. } => !self.subrequests.iter().any(|subrequest| is_pending(&subrequest)),
            Combination::FirstSuccess { .. } => {
                let decisive =
                    self.subrequests.iter().find(|subrequest| !matches!(subrequest.state, SubrequestState::Failed));
                decisive.is_none_or(|subrequest| !is_pending(&subrequest))
            }
        }
    }

    fn sent(&mut self, index: usize, sent: Result<CallKey, Bytes>) {
        match sent {
            Ok(key) => self.subrequests[index].state = SubrequestState::Pending(key),
            Err(line) => self.fail(index, line),
        }
    }

    fn answered(&mut self, key: CallKey, line: &Bytes) -> Option<Next> {
        let is_it = |subrequest: &Subrequest| matches!(subrequest.state, SubrequestState::Pending(own) if own == key);
        let index = self.subrequests.iter().position(is_it)?;
        match self.read(index, line) {
            Ok(cursor) => {
                self.subrequests[index].state = SubrequestState::Done;
                let (request, combination) = (self.request.clone(), self.combination.clone());
                let server = Arc::clone(&self.subrequests[index].server);
                Some(Next::Page { request, combination, server, cursor: cursor?, began: self.began })
            }
            Err(line) => {
                self.fail(index, line);
                None
            }
        }
    }

    /// Reads a response line. Returns the cursor of the next page, if that is needed. The error is a response line.
    fn read(&mut self, index: usize, line: &Bytes) -> Result<Option<Bytes>, Bytes> {
        const UNUSABLE: &str =
            "answered with a result that mcpd cannot merge: it has no list or several, or the list is too large";
        let result = match parse(&line.slice(..line.len().saturating_sub(1))) {
            Ok(Message::Response { response: Ok(result), .. }) => result,
            Ok(Message::Response { response: Err(_), .. }) => return Err(line.clone()),
            _ => return Err(self.error_line(index, UNUSABLE)),
        };
        let is_merged = matches!(self.combination, Combination::Merge { .. });
        let [kind, ttl, next] =
            members(&result, ["resultType", "ttlMs", "nextCursor"]).map_err(|_| self.error_line(index, UNUSABLE))?;
        if kind.is_some_and(|kind| kind[..] == b"\"input_required\""[..]) && (is_merged || self.is_shared) {
            // The agent's answer would go to every server.
            let server = &self.subrequests[index].server;
            let why = format!(
                "requires input for a request that several servers may answer; connect to it alone: `mcpd connect --server {server}`"
            );
            return Err(self.error_line(index, &why));
        }
        if !is_merged {
            self.subrequests.truncate(index + 1);
            self.result = Some(line.clone());
            return Ok(None);
        }
        let Some((member, bytes, items)) = list_in(&result, self.limits.max_bytes) else {
            return Err(self.error_line(index, UNUSABLE));
        };
        let subrequest = &mut self.subrequests[index];
        subrequest.pages += 1;
        subrequest.member.get_or_insert(member);
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok());
        subrequest.ttl = if subrequest.pages == 1 {
            ttl
        } else {
            subrequest.ttl.zip(ttl).map(|(one, other): (u64, u64)| one.min(other))
        };
        let fits = self.limits.admit(bytes, items.len());
        if fits {
            subrequest.items.extend(items);
        }
        let next = next.filter(|raw| fits && subrequest.pages < MAX_PAGES && raw.starts_with(b"\""));
        Ok(next.map(|raw| Bytes::copy_from_slice(&raw)))
    }

    fn fail(&mut self, index: usize, line: Bytes) {
        self.subrequests[index].state = SubrequestState::Failed;
        let is_first = self.error.as_ref().is_none_or(|(known, _)| index < *known);
        let is_merged = matches!(self.combination, Combination::Merge { .. });
        if is_first && (is_merged || !means_unknown(&line)) {
            self.error = Some((index, line));
        }
    }

    /// The response line for a server that has answered in a way that mcpd does not pass on.
    fn error_line(&self, index: usize, what: &str) -> Bytes {
        let server = &self.subrequests[index].server;
        let error = ErrorObject::new(INTERNAL_ERROR, format!("server `{server}` {what}"));
        reply::error(Some(&self.request.id), &error.about_server(server).with_delivery(Delivery::Unknown))
    }

    /// The merged list, or the line of the first error if no server has one.
    pub(super) fn merge(self) -> Result<MergedList, Option<Bytes>> {
        let Some(member) = self.subrequests.iter().find_map(|subrequest| subrequest.member.clone()) else {
            return Err(self.error.map(|(_, line)| line));
        };
        let ttls =
            self.subrequests.iter().filter(|subrequest| subrequest.member.is_some()).map(|subrequest| subrequest.ttl);
        let ttl = ttls.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
        let with_server =
            |Subrequest { server, items, .. }| items.into_iter().map(move |item| (Arc::clone(&server), item));
        Ok(MergedList { member, items: self.subrequests.into_iter().flat_map(with_server).collect(), ttl })
    }

    /// The first result, with its server. Otherwise the line of the first error, or `None` if no server has the item.
    pub(super) fn first_success(mut self) -> Result<(Arc<str>, Bytes), Option<Bytes>> {
        let result = self.result.zip(self.subrequests.pop()).map(|(line, subrequest)| (subrequest.server, line));
        result.ok_or(self.error.map(|(_, line)| line))
    }

    /// Whether it merges lists of this extension.
    pub(super) fn is_of(&self, extension: &str) -> bool {
        matches!(&self.combination, Combination::Merge { id } if **id == *extension)
    }

    /// The names of the servers that have failed.
    pub(super) fn failed(&self) -> impl Iterator<Item = &str> {
        self.subrequests
            .iter()
            .filter(|subrequest| matches!(subrequest.state, SubrequestState::Failed))
            .map(|subrequest| &*subrequest.server)
    }
}

/// The only member of a result that is a list, with its size and its items. They are copies, so that they do not keep the whole line in memory.
/// `None` if there is no such list, or it has more bytes than `most`.
fn list_in(result: &Bytes, most: usize) -> Option<(Bytes, usize, Vec<Bytes>)> {
    let mut lists = Vec::new();
    each(result, |key, value| {
        if value.starts_with(b"[") {
            lists.push((key, value));
        }
    })
    .ok()?;
    let [(key, value)] = &lists[..] else { return None };
    let list = (value.len() <= most).then(|| Bytes::copy_from_slice(value))?;
    Some((Bytes::copy_from_slice(key), list.len(), elements(&list, MAX_ITEMS)?))
}

fn means_unknown(line: &Bytes) -> bool {
    let code =
        error_in(line).and_then(|error| serde_json::from_slice::<ErrorObject>(&error).ok()).map(|error| error.code);
    matches!(code, Some(INVALID_PARAMS | RESOURCE_NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::super::quota::tests::unlimited;
    use super::*;
    use crate::clock::Moment;

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn line(result: &str) -> Bytes {
        reply::result(b"7", result.as_bytes())
    }

    fn refusal(code: i32) -> Bytes {
        reply::error(Some(b"7"), &ErrorObject::new(code, "no"))
    }

    /// A request to the servers `a` and `b`, with the calls 1 and 2.
    fn fan_outs(combination: Combination, max_bytes: usize) -> FanOuts {
        let request = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"x/list"}"#);
        let (id, method) = (Bytes::from_static(b"7"), Bytes::from_static(b"x/list"));
        let request = ForwardableRequest::read_extension(&method, request, &id, None, Moment(0)).expect("a request");
        let sent = vec![("a".into(), Ok(key(1))), ("b".into(), Ok(key(2)))];
        let (now, quota) = (Instant::now(), unlimited());
        let permit = quota.begin_call(0, now).expect("there is no quota");
        FanOuts(vec![FanOut::new(request, combination, now, sent, max_bytes, permit)])
    }

    fn merge() -> Combination {
        Combination::Merge { id: "e/x".into() }
    }

    fn first() -> Combination {
        Combination::FirstSuccess { uri: "skill://x".into(), id: "e/x".into(), error_kind: TargetKind::Item }
    }

    fn answer(fan_outs: &mut FanOuts, serial: u64, line: &Bytes) -> Next {
        fan_outs.answered(&Bytes::from_static(b"7"), key(serial), line)
    }

    fn merged(next: Next) -> (Vec<(String, Bytes)>, Option<u64>) {
        let Next::Complete(fan_out) = next else { panic!("it is not complete") };
        let list = fan_out.merge().expect("a list");
        (list.items.into_iter().map(|(server, item)| (server.to_string(), item)).collect(), list.ttl)
    }

    #[test]
    fn pages_of_all_servers_are_merged_in_file_order() {
        let mut all = fan_outs(merge(), 100);
        assert!(matches!(answer(&mut all, 2, &line(r#"{"items":[3],"ttlMs":5}"#)), Next::Wait));
        let page = answer(&mut all, 1, &line(r#"{"items":[1],"ttlMs":9,"nextCursor":"c"}"#));
        let Next::Page { server, cursor, .. } = page else { panic!("no page") };
        assert_eq!((&*server, &cursor[..]), ("a", &b"\"c\""[..]));
        assert!(matches!(all.page_sent(&Bytes::from_static(b"7"), "a", Ok(key(3))), Next::Wait));
        let (items, ttl) = merged(answer(&mut all, 3, &line(r#"{"items":[2],"ttlMs":7}"#)));
        let expected = [("a", "1"), ("a", "2"), ("b", "3")];
        assert_eq!(items, expected.map(|(server, item)| (server.to_owned(), Bytes::from(item))));
        assert_eq!((ttl, all.0.len()), (Some(5), 0));
    }

    #[test]
    fn failed_server_and_items_beyond_the_limit_are_left_out() {
        let mut all = fan_outs(merge(), 6);
        assert!(matches!(answer(&mut all, 1, &refusal(-32601)), Next::Wait));
        let (items, ttl) = merged(answer(&mut all, 2, &line(r#"{"items":[1,2]}"#)));
        assert_eq!((items.len(), ttl), (2, None));
        let mut all = fan_outs(merge(), 6);
        answer(&mut all, 1, &line(r#"{"items":[1,2]}"#));
        assert_eq!(all.bytes(), 5, "the list stays in memory, and not the line");
        assert_eq!(merged(answer(&mut all, 2, &line(r#"{"items":[3,4],"nextCursor":"c"}"#))).0.len(), 2);
    }

    #[test]
    fn result_that_cannot_be_merged_is_an_error_of_its_server() {
        for unusable in [
            r#"{"items":[],"others":[]}"#,
            "{}",
            r#"{"items":[1,2,3]}"#,
            r#"{"items":[],"resultType":"input_required"}"#,
        ] {
            let mut all = fan_outs(merge(), 6);
            answer(&mut all, 1, &line(unusable));
            let Next::Complete(none) = answer(&mut all, 2, &refusal(-32601)) else { panic!() };
            let error = none.merge().err().flatten().expect("the first error");
            let error = String::from_utf8_lossy(&error);
            assert!(error.contains("server `a`") && error.contains("-32603"), "{error}");
        }
    }

    #[test]
    fn pages_before_a_failure_stay_in_the_list() {
        let mut all = fan_outs(merge(), 100);
        answer(&mut all, 2, &refusal(-32601));
        answer(&mut all, 1, &line(r#"{"items":[1],"nextCursor":"c"}"#));
        all.page_sent(&Bytes::from_static(b"7"), "a", Ok(key(3)));
        assert_eq!(merged(answer(&mut all, 3, &refusal(-31002))).0.len(), 1);
    }

    #[test]
    fn input_that_one_of_several_servers_requires_is_an_error() {
        let mut all = fan_outs(first(), 100);
        answer(&mut all, 1, &line(r#"{"resultType":"input_required","inputRequests":{}}"#));
        let Next::Complete(failed) = answer(&mut all, 2, &refusal(-32602)) else { panic!() };
        let error = failed.first_success().err().flatten().expect("an error");
        assert!(String::from_utf8_lossy(&error).contains("--server a"), "{error:?}");
    }

    #[test]
    fn first_result_in_file_order_answers_as_soon_as_it_is_certain() {
        let end = |answers: &[(u64, Bytes)]| {
            let mut all = fan_outs(first(), 100);
            let mut last = None;
            for (serial, line) in answers {
                if let Next::Complete(fan_out) = answer(&mut all, *serial, line) {
                    last = Some(fan_out.first_success().map(|(server, line)| (server.to_string(), line)));
                }
            }
            last
        };
        let (one, two) = (line("{\"n\":1}"), line("{\"n\":2}"));
        let of = |server: &str, line: &Bytes| Some(Ok((server.to_owned(), line.clone())));
        assert_eq!(end(&[(1, one.clone())]), of("a", &one), "the second is not awaited");
        assert_eq!(end(&[(2, two.clone())]), None, "the first may have it");
        assert_eq!(end(&[(2, two.clone()), (1, one.clone())]), of("a", &one));
        assert_eq!(end(&[(2, two.clone()), (1, refusal(-32602))]), of("b", &two));
        assert_eq!(end(&[(1, refusal(-32602)), (2, refusal(-32002))]), Some(Err(None)));
        assert_eq!(end(&[(1, refusal(-32602)), (2, refusal(-31004))]), Some(Err(Some(refusal(-31004)))));
    }
}
