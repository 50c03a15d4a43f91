//! Requests that several servers answer together: lists that are merged into one, and items that one of the servers has. Pure.
//!
//! Each server gets a call of its own. The agent gets one response: the merged list once every server has answered, or the first result
//! in file order. A server that fails does not affect the others.

use std::sync::Arc;

use bytes::Bytes;

use super::forwardable_request::ForwardableRequest;
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::members::{each, members};
use crate::jsonrpc::reply::{self, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::{Message, parse};
use crate::server::messages::call::{AccessTarget, CallKey, TargetKind};

/// Maximum number of pages of one server's list. Later ones are left out.
const MAX_PAGES: usize = 100;
/// Maximum number of items of one page.
const MAX_ITEMS: usize = 100_000;

/// Unfinished fan-out requests of one agent.
#[derive(Debug, Default)]
pub(super) struct Gatherings(Vec<Gathering>);

/// One request of the agent.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) request: ForwardableRequest,
    pub(super) purpose: Purpose,
    /// In file order.
    parts: Vec<Part>,
    /// Maximum bytes of all items together.
    max_bytes: usize,
}

/// How the responses are combined.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// The lists of all servers as one.
    Merge {
        /// The extension.
        id: Arc<str>,
    },
    /// The first result.
    First {
        uri: Box<str>,
        /// The extension.
        id: Arc<str>,
        /// The error if no server has the item.
        error_kind: TargetKind,
    },
}

/// The call to one server.
#[derive(Debug)]
struct Part {
    server: Arc<str>,
    state: PartState,
    pages: usize,
    items: Vec<Bytes>,
    /// The shortest `ttlMs` of the pages; `None` if a page has none.
    ttl: Option<u64>,
}

#[derive(Debug)]
enum PartState {
    Pending(CallKey),
    /// The latest response line.
    Done(Bytes),
    /// The response line with the error.
    Failed(Bytes),
}

/// What follows after a response.
pub(super) enum Next {
    /// Other responses are awaited.
    Wait,
    /// Request the next page of this server's list, at this raw cursor.
    Page {
        request: ForwardableRequest,
        purpose: Purpose,
        server: Arc<str>,
        cursor: Bytes,
    },
    Complete(Gathering),
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

impl Gatherings {
    pub(super) fn add(&mut self, gathering: Gathering) {
        self.0.push(gathering);
    }

    /// Removes the request with this raw id.
    pub(super) fn remove(&mut self, id: &Bytes) -> Option<Gathering> {
        let index = self.0.iter().position(|gathering| gathering.request.id == *id)?;
        Some(self.0.swap_remove(index))
    }

    /// A server has answered the call `key` for the request with this raw id.
    pub(super) fn answered(&mut self, id: &Bytes, key: CallKey, line: &Bytes) -> Next {
        let Some(gathering) = self.0.iter_mut().find(|gathering| gathering.request.id == *id) else {
            return Next::Wait;
        };
        if let Some(page) = gathering.answered(key, line) {
            return page;
        }
        self.take_if_complete(id)
    }

    /// The call for the next page of `server` was sent, or was refused with this line.
    pub(super) fn page_sent(&mut self, id: &Bytes, server: &str, sent: Result<CallKey, Bytes>) -> Next {
        if let Some(gathering) = self.0.iter_mut().find(|gathering| gathering.request.id == *id)
            && let Some(part) = gathering.parts.iter_mut().find(|part| *part.server == *server)
        {
            part.state = PartState::of(sent);
        }
        self.take_if_complete(id)
    }

    /// The request with this raw id, if it can be answered.
    pub(super) fn take_if_complete(&mut self, id: &Bytes) -> Next {
        let is_complete = self.0.iter().any(|gathering| gathering.request.id == *id && gathering.is_complete());
        if is_complete { self.remove(id).map_or(Next::Wait, Next::Complete) } else { Next::Wait }
    }
}

impl PartState {
    fn of(sent: Result<CallKey, Bytes>) -> Self {
        sent.map_or_else(Self::Failed, Self::Pending)
    }
}

impl Gathering {
    /// `sent` has each server, with the key of its call, or the error line.
    pub(super) fn new(
        request: ForwardableRequest,
        purpose: Purpose,
        sent: Vec<(Arc<str>, Result<CallKey, Bytes>)>,
        max_bytes: usize,
    ) -> Self {
        let part = |(server, sent)| Part { server, state: PartState::of(sent), pages: 0, items: Vec::new(), ttl: None };
        Self { request, purpose, parts: sent.into_iter().map(part).collect(), max_bytes }
    }

    /// What a call to a server needs to be exposed.
    pub(super) fn access(purpose: &Purpose) -> AccessTarget {
        let (id, item) = match purpose {
            Purpose::Merge { id } => (id, None),
            Purpose::First { id, uri, .. } => (id, Some(AccessTarget::Skill(Bytes::copy_from_slice(uri.as_bytes())))),
        };
        AccessTarget::Extension { id: Some(Arc::clone(id)), items: item.into_iter().collect() }
    }

    fn is_complete(&self) -> bool {
        let is_pending = |part: &&Part| matches!(part.state, PartState::Pending(_));
        match self.purpose {
            Purpose::Merge { .. } => !self.parts.iter().any(|part| is_pending(&part)),
            Purpose::First { .. } => {
                let decisive = self.parts.iter().find(|part| !matches!(part.state, PartState::Failed(_)));
                decisive.is_none_or(|part| !is_pending(&part))
            }
        }
    }

    fn answered(&mut self, key: CallKey, line: &Bytes) -> Option<Next> {
        let bytes: usize = self.parts.iter().flat_map(|part| &part.items).map(Bytes::len).sum();
        let part = self.parts.iter_mut().find(|part| matches!(part.state, PartState::Pending(own) if own == key))?;
        let trimmed = line.slice(..line.len().saturating_sub(1));
        let result = match parse(&trimmed) {
            Ok(Message::Response { response: Ok(result), .. }) => result,
            _ => {
                part.state = PartState::Failed(line.clone());
                return None;
            }
        };
        if matches!(self.purpose, Purpose::First { .. }) {
            part.state = PartState::Done(line.clone());
            return None;
        }
        let Some((_, items)) = list_in(&result) else {
            part.state = PartState::Failed(line.clone());
            return None;
        };
        part.pages += 1;
        let [ttl, next] = members(&result, ["ttlMs", "nextCursor"]).unwrap_or_default();
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok());
        part.ttl = if part.pages == 1 { ttl } else { part.ttl.zip(ttl).map(|(one, other): (u64, u64)| one.min(other)) };
        let fits = bytes + items.iter().map(Bytes::len).sum::<usize>() <= self.max_bytes;
        if fits {
            part.items.extend(items);
        }
        part.state = PartState::Done(line.clone());
        let cursor = next.filter(|raw| fits && part.pages < MAX_PAGES && raw.starts_with(b"\""))?;
        let (request, purpose) = (self.request.clone(), self.purpose.clone());
        Some(Next::Page { request, purpose, server: Arc::clone(&part.server), cursor })
    }

    /// The merged list, or the line of the first error if no server has one.
    pub(super) fn merge(self) -> Result<MergedList, Option<Bytes>> {
        let (mut member, mut ttls) = (None, Vec::new());
        let (mut items, mut error) = (Vec::new(), None);
        for part in self.parts {
            match part.state {
                PartState::Done(line) => {
                    if let Ok(Message::Response { response: Ok(result), .. }) = parse(&line.slice(..line.len() - 1)) {
                        member = member.or_else(|| list_in(&result).map(|(member, _)| member));
                    }
                    ttls.push(part.ttl);
                }
                PartState::Failed(line) => {
                    error = error.or(Some(line));
                    // Pages before the one that failed.
                    if part.items.is_empty() {
                        continue;
                    }
                    ttls.push(part.ttl);
                }
                PartState::Pending(_) => {}
            }
            items.extend(part.items.into_iter().map(|item| (Arc::clone(&part.server), item)));
        }
        let Some(member) = member else { return Err(error) };
        let ttl = ttls.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
        Ok(MergedList { member, items, ttl })
    }

    /// The line of the first result; else of the first error that does not mean that the item is unknown; else of `unknown`.
    pub(super) fn first(self, unknown: impl FnOnce(&ForwardableRequest) -> Bytes) -> Bytes {
        let mut errors = Vec::new();
        for part in self.parts {
            match part.state {
                PartState::Done(line) => return line,
                PartState::Failed(line) => errors.push(line),
                PartState::Pending(_) => {}
            }
        }
        let other = errors.into_iter().find(|line| !means_unknown(line));
        other.unwrap_or_else(|| unknown(&self.request))
    }

    /// Whether it merges lists of this extension.
    pub(super) fn is_of(&self, extension: &str) -> bool {
        matches!(&self.purpose, Purpose::Merge { id } if **id == *extension)
    }

    /// The names of the servers that have failed.
    pub(super) fn failed(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| matches!(part.state, PartState::Failed(_))).map(|part| &*part.server)
    }
}

/// The only member of a result that is a list, with its items.
fn list_in(result: &Bytes) -> Option<(Bytes, Vec<Bytes>)> {
    let mut lists = Vec::new();
    each(result, |key, value| {
        if value.starts_with(b"[") {
            lists.push((key, value));
        }
    })
    .ok()?;
    let [(key, value)] = &lists[..] else { return None };
    Some((key.clone(), elements(value, MAX_ITEMS)?))
}

fn means_unknown(line: &Bytes) -> bool {
    let Ok(Message::Response { response: Err(error), .. }) = parse(&line.slice(..line.len().saturating_sub(1))) else {
        return false;
    };
    let code = serde_json::from_slice::<reply::ErrorObject>(&error).map(|error| error.code);
    matches!(code, Ok(INVALID_PARAMS | RESOURCE_NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::jsonrpc::reply::ErrorObject;

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
    fn gatherings(purpose: Purpose, max_bytes: usize) -> Gatherings {
        let request = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"x/list"}"#);
        let (id, method) = (Bytes::from_static(b"7"), Bytes::from_static(b"x/list"));
        let request = ForwardableRequest::read_extension(&method, request, &id, None, Moment(0)).expect("a request");
        let sent = vec![("a".into(), Ok(key(1))), ("b".into(), Ok(key(2)))];
        Gatherings(vec![Gathering::new(request, purpose, sent, max_bytes)])
    }

    fn merge() -> Purpose {
        Purpose::Merge { id: "e/x".into() }
    }

    fn first() -> Purpose {
        Purpose::First { uri: "skill://x".into(), id: "e/x".into(), error_kind: TargetKind::Item }
    }

    fn answer(gatherings: &mut Gatherings, serial: u64, line: &Bytes) -> Next {
        gatherings.answered(&Bytes::from_static(b"7"), key(serial), line)
    }

    fn merged(next: Next) -> (Vec<(String, Bytes)>, Option<u64>) {
        let Next::Complete(gathering) = next else { panic!("it is not complete") };
        let list = gathering.merge().expect("a list");
        (list.items.into_iter().map(|(server, item)| (server.to_string(), item)).collect(), list.ttl)
    }

    #[test]
    fn pages_of_all_servers_are_merged_in_file_order() {
        let mut all = gatherings(merge(), 100);
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
        let mut all = gatherings(merge(), 3);
        assert!(matches!(answer(&mut all, 1, &refusal(-32601)), Next::Wait));
        let (items, ttl) = merged(answer(&mut all, 2, &line(r#"{"items":[1,2]}"#)));
        assert_eq!((items.len(), ttl), (2, None));
        let mut all = gatherings(merge(), 3);
        answer(&mut all, 1, &line(r#"{"items":[1,2]}"#));
        assert_eq!(merged(answer(&mut all, 2, &line(r#"{"items":[3,4],"nextCursor":"c"}"#))).0.len(), 2);
        let mut all = gatherings(merge(), 3);
        answer(&mut all, 1, &refusal(-32601));
        let Next::Complete(none) = answer(&mut all, 2, &line(r#"{"items":[],"others":[]}"#)) else { panic!() };
        assert_eq!(none.merge().err().flatten(), Some(refusal(-32601)), "two lists in one result are none");
    }

    #[test]
    fn first_result_in_file_order_answers_as_soon_as_it_is_certain() {
        let end = |answers: &[(u64, Bytes)]| {
            let mut all = gatherings(first(), 100);
            let mut last = None;
            for (serial, line) in answers {
                if let Next::Complete(gathering) = answer(&mut all, *serial, line) {
                    last = Some(gathering.first(|_| Bytes::from_static(b"unknown")));
                }
            }
            last
        };
        let (one, two) = (line("{\"n\":1}"), line("{\"n\":2}"));
        assert_eq!(end(&[(1, one.clone())]), Some(one.clone()), "the second is not awaited");
        assert_eq!(end(&[(2, two.clone())]), None, "the first may have it");
        assert_eq!(end(&[(2, two.clone()), (1, one.clone())]), Some(one));
        assert_eq!(end(&[(2, two.clone()), (1, refusal(-32602))]), Some(two));
        assert_eq!(end(&[(1, refusal(-32602)), (2, refusal(-32002))]).as_deref(), Some(&b"unknown"[..]));
        assert_eq!(end(&[(1, refusal(-32602)), (2, refusal(-31004))]), Some(refusal(-31004)));
    }
}
