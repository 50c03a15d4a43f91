//! Requests for a list of an extension that several servers have. Pure.
//!
//! Each server gets a call of its own. The agent gets one response, the merged list, once every server has answered. A server that fails does
//! not affect the others. A result that cannot be merged is a failure of its server.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::received_call::ReceivedCall;
use crate::account::Charge;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{each, elements, members};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR};
use crate::jsonrpc::{Message, parse};
use crate::message_limit::has_memory;
use crate::server::listing::{MAX_BYTES, MAX_ITEMS, NextPage, Pager};
use crate::server::messages::call::CallKey;

/// Unfinished fan-out requests of one agent.
#[derive(Debug, Default)]
pub(super) struct FanOuts(Vec<FanOut>);

/// A request of the agent that several servers answer.
#[derive(Debug)]
pub(super) struct FanOut {
    pub(super) request: ReceivedCall,
    /// The id of the extension.
    pub(super) extension: Arc<str>,
    /// When the first calls were sent.
    began: Instant,
    /// In file order.
    subrequests: Vec<Subrequest>,
    limits: MergedSize,
    /// The first error line in file order, with the index of its subrequest.
    error: Option<(usize, Bytes)>,
    #[expect(dead_code, reason = "it counts the request as one call until it is dropped")]
    charge: Charge,
}

/// What the items of all servers use: together as much as one list of MCP. Pages beyond that are left out.
#[derive(Debug)]
struct MergedSize {
    bytes: usize,
    items: usize,
    max_bytes: usize,
}

/// The call to one server.
#[derive(Debug)]
struct Subrequest {
    server: Arc<str>,
    state: SubrequestState,
    pager: Pager,
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
pub(super) enum FanOutStep {
    /// Other responses are awaited.
    Wait,
    /// Request the next page of this server's list, at this raw cursor.
    Page {
        request: ReceivedCall,
        extension: Arc<str>,
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
    /// The items of each server.
    pub(super) items: Vec<(Arc<str>, Vec<Bytes>)>,
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
    pub(super) fn answered(&mut self, id: &Bytes, key: CallKey, line: &Bytes) -> FanOutStep {
        let Some(fan_out) = self.0.iter_mut().find(|fan_out| fan_out.request.id == *id) else {
            return FanOutStep::Wait;
        };
        if let Some(page) = fan_out.answered(key, line) {
            return page;
        }
        self.take_if_complete(id)
    }

    /// The call for the next page of `server` was sent, or was refused with this line.
    pub(super) fn page_sent(&mut self, id: &Bytes, server: &str, sent: Result<CallKey, Bytes>) -> FanOutStep {
        if let Some(fan_out) = self.0.iter_mut().find(|fan_out| fan_out.request.id == *id)
            && let Some(index) = fan_out.subrequests.iter().position(|subrequest| *subrequest.server == *server)
        {
            fan_out.sent(index, sent);
        }
        self.take_if_complete(id)
    }

    /// The request with this raw id, if it can be answered.
    pub(super) fn take_if_complete(&mut self, id: &Bytes) -> FanOutStep {
        let is_complete = self.0.iter().any(|fan_out| fan_out.request.id == *id && fan_out.is_complete());
        if is_complete { self.remove(id).map_or(FanOutStep::Wait, FanOutStep::Complete) } else { FanOutStep::Wait }
    }
}

impl MergedSize {
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
        request: ReceivedCall,
        extension: Arc<str>,
        began: Instant,
        sent: Vec<(Arc<str>, Result<CallKey, Bytes>)>,
        max_message: usize,
        charge: Charge,
    ) -> Self {
        let limits = MergedSize { bytes: 0, items: 0, max_bytes: max_message.min(MAX_BYTES) };
        let mut fan_out = Self { request, extension, began, subrequests: Vec::new(), limits, error: None, charge };
        for (index, (server, sent)) in sent.into_iter().enumerate() {
            let (state, member, items) = (SubrequestState::Failed, None, Vec::new());
            fan_out.subrequests.push(Subrequest { server, state, pager: Pager::default(), member, items, ttl: None });
            fan_out.sent(index, sent);
        }
        fan_out
    }

    fn bytes(&self) -> usize {
        self.limits.bytes + self.error.as_ref().map_or(0, |(_, line)| line.len())
    }

    fn is_complete(&self) -> bool {
        !self.subrequests.iter().any(|subrequest| matches!(subrequest.state, SubrequestState::Pending(_)))
    }

    fn sent(&mut self, index: usize, sent: Result<CallKey, Bytes>) {
        match sent {
            Ok(key) => self.subrequests[index].state = SubrequestState::Pending(key),
            Err(line) => self.fail(index, line),
        }
    }

    fn answered(&mut self, key: CallKey, line: &Bytes) -> Option<FanOutStep> {
        let is_it = |subrequest: &Subrequest| matches!(subrequest.state, SubrequestState::Pending(own) if own == key);
        let index = self.subrequests.iter().position(is_it)?;
        match self.read(index, line) {
            Ok(cursor) => {
                self.subrequests[index].state = SubrequestState::Done;
                let (request, extension) = (self.request.clone(), Arc::clone(&self.extension));
                let server = Arc::clone(&self.subrequests[index].server);
                Some(FanOutStep::Page { request, extension, server, cursor: cursor?, began: self.began })
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
        let [kind, ttl, next] =
            members(&result, ["resultType", "ttlMs", "nextCursor"]).map_err(|_| self.error_line(index, UNUSABLE))?;
        if kind.is_some_and(|kind| kind[..] == b"\"input_required\""[..]) {
            // The agent's answer would go to every server.
            let server = &self.subrequests[index].server;
            let why = format!(
                "requires input for a request that several servers may answer; connect to it alone: `mcpd connect --server {server}`"
            );
            return Err(self.error_line(index, &why));
        }
        let Some((member, bytes, items)) = list_in(&result, self.limits.max_bytes) else {
            return Err(self.error_line(index, UNUSABLE));
        };
        let subrequest = &mut self.subrequests[index];
        subrequest.member.get_or_insert(member);
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok());
        subrequest.ttl = if subrequest.pager.is_at_first() {
            ttl
        } else {
            subrequest.ttl.zip(ttl).map(|(one, other): (u64, u64)| one.min(other))
        };
        let fits = self.limits.admit(bytes, items.len());
        if fits {
            subrequest.items.extend(items);
        }
        Ok(match subrequest.pager.next(next.filter(|_| fits)) {
            NextPage::At(cursor) => Some(cursor),
            NextPage::End | NextPage::LeftOut => None,
        })
    }

    fn fail(&mut self, index: usize, line: Bytes) {
        self.subrequests[index].state = SubrequestState::Failed;
        if self.error.as_ref().is_none_or(|(known, _)| index < *known) {
            self.error = Some((index, line));
        }
    }

    /// The response line for a server that has answered in a way that mcpd does not pass on.
    fn error_line(&self, index: usize, what: &str) -> Bytes {
        let server = &self.subrequests[index].server;
        let error = ErrorObject::new(INTERNAL_ERROR, format!("server `{server}` {what}"));
        reply::error(Some(&self.request.id), &error.about_server(server).with_delivery(Delivery::Unknown))
    }

    /// The merged list, or the line of the first error if no server has one, or of the error if there is no memory for it.
    pub(super) fn merge(self) -> Result<MergedList, Option<Bytes>> {
        let bytes = self.limits.bytes;
        if !has_memory(&BytesMut::new(), bytes) {
            let why = format!("the merged list has {bytes} bytes, more than mcpd could reserve memory for");
            let error = ErrorObject::of_mcpd(ErrorCode::TooLarge, why, Delivery::Unknown);
            return Err(Some(reply::error(Some(&self.request.id), &error)));
        }
        let Some(member) = self.subrequests.iter().find_map(|subrequest| subrequest.member.clone()) else {
            return Err(self.error.map(|(_, line)| line));
        };
        let ttls =
            self.subrequests.iter().filter(|subrequest| subrequest.member.is_some()).map(|subrequest| subrequest.ttl);
        let ttl = ttls.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
        let items = self.subrequests.into_iter().map(|Subrequest { server, items, .. }| (server, items)).collect();
        Ok(MergedList { member, items, ttl })
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
/// `None` if there is no such list, it has more bytes than `most`, or there is no memory for it.
fn list_in(result: &Bytes, most: usize) -> Option<(Bytes, usize, Vec<Bytes>)> {
    let mut lists = Vec::new();
    each(result, |key, value| {
        if value.starts_with(b"[") {
            lists.push((key, value));
        }
    })
    .ok()?;
    let [(key, value)] = &lists[..] else { return None };
    let list =
        (value.len() <= most && has_memory(&BytesMut::new(), value.len())).then(|| Bytes::copy_from_slice(value))?;
    Some((Bytes::copy_from_slice(key), list.len(), elements(&list, MAX_ITEMS)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Cost;
    use crate::account::tests::unlimited;
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
    fn fan_outs(max_bytes: usize) -> FanOuts {
        let request = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"x/list"}"#);
        let (id, method) = (Bytes::from_static(b"7"), Bytes::from_static(b"x/list"));
        let request = ReceivedCall::read_extension(&method, request, &id, None, Moment(0)).expect("a request");
        let sent = vec![("a".into(), Ok(key(1))), ("b".into(), Ok(key(2)))];
        let now = Instant::now();
        let charge = unlimited().charge(Cost::Message(0), now).expect("within the limits");
        FanOuts(vec![FanOut::new(request, "e/x".into(), now, sent, max_bytes, charge)])
    }

    fn answer(fan_outs: &mut FanOuts, serial: u64, line: &Bytes) -> FanOutStep {
        fan_outs.answered(&Bytes::from_static(b"7"), key(serial), line)
    }

    fn merged(next: FanOutStep) -> (Vec<(String, Bytes)>, Option<u64>) {
        let FanOutStep::Complete(fan_out) = next else { panic!("it is not complete") };
        let list = fan_out.merge().expect("a list");
        let of_server =
            |(server, items): (Arc<str>, Vec<Bytes>)| items.into_iter().map(move |item| (server.to_string(), item));
        (list.items.into_iter().flat_map(of_server).collect(), list.ttl)
    }

    #[test]
    fn pages_of_all_servers_are_merged_in_file_order() {
        let mut all = fan_outs(100);
        assert!(matches!(answer(&mut all, 2, &line(r#"{"items":[3],"ttlMs":5}"#)), FanOutStep::Wait));
        let page = answer(&mut all, 1, &line(r#"{"items":[1],"ttlMs":9,"nextCursor":"c"}"#));
        let FanOutStep::Page { server, cursor, .. } = page else { panic!("no page") };
        assert_eq!((&*server, &cursor[..]), ("a", &b"\"c\""[..]));
        assert!(matches!(all.page_sent(&Bytes::from_static(b"7"), "a", Ok(key(3))), FanOutStep::Wait));
        let (items, ttl) = merged(answer(&mut all, 3, &line(r#"{"items":[2],"ttlMs":7}"#)));
        let expected = [("a", "1"), ("a", "2"), ("b", "3")];
        assert_eq!(items, expected.map(|(server, item)| (server.to_owned(), Bytes::from(item))));
        assert_eq!((ttl, all.0.len()), (Some(5), 0));
    }

    #[test]
    fn failed_server_and_items_beyond_the_limit_are_left_out() {
        let mut all = fan_outs(6);
        assert!(matches!(answer(&mut all, 1, &refusal(-32601)), FanOutStep::Wait));
        let (items, ttl) = merged(answer(&mut all, 2, &line(r#"{"items":[1,2]}"#)));
        assert_eq!((items.len(), ttl), (2, None));
        let mut all = fan_outs(6);
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
            let mut all = fan_outs(6);
            answer(&mut all, 1, &line(unusable));
            let FanOutStep::Complete(none) = answer(&mut all, 2, &refusal(-32601)) else { panic!() };
            let error = none.merge().err().flatten().expect("the first error");
            let error = String::from_utf8_lossy(&error);
            assert!(error.contains("server `a`") && error.contains("-32603"), "{error}");
        }
    }

    #[test]
    fn pages_before_a_failure_stay_in_the_list() {
        let mut all = fan_outs(100);
        answer(&mut all, 2, &refusal(-32601));
        answer(&mut all, 1, &line(r#"{"items":[1],"nextCursor":"c"}"#));
        all.page_sent(&Bytes::from_static(b"7"), "a", Ok(key(3)));
        assert_eq!(merged(answer(&mut all, 3, &refusal(-31002))).0.len(), 1);
    }
}
