//! Subscriptions that continue with the next daemon. Pure.
//!
//! The agent's `subscriptions/listen` stays open, and its id is in each of its notifications (MCP 2026-07-28,
//! `basic/patterns/subscriptions`). A client repeats it after its connection has ended. The shim keeps the agent's connection, so it
//! repeats the request itself. It requests subscriptions to resources again with ids that no agent can have chosen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::memory::is_same;
use super::request::copied;
use crate::era::meta;
use crate::jsonrpc::members::members;
use crate::list_kind::ListKind;

/// Maximum of requests that continue. Further ones end with their daemon, like other requests.
const MAX_REQUESTS: usize = 256;
/// Maximum of their bytes, likewise.
const MAX_BYTES: usize = 1 << 20;
/// How long an end is withheld: a stopping daemon ends each request, and is gone within that time.
const GRACE: Duration = Duration::from_secs(10);

/// The requests of one agent, in order.
#[derive(Debug, Default)]
pub(super) struct ListenRequests(Vec<ListenRequest>);

#[derive(Debug)]
struct ListenRequest {
    /// Raw.
    id: Bytes,
    line: Bytes,
    /// The acknowledged filter, raw.
    granted: Option<Bytes>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Queued for the daemon, without an acknowledgement. It may have been parked since then.
    Pending(Option<Instant>),
    /// The agent has the acknowledgement.
    Open,
    /// The same, of a daemon that is gone.
    Interrupted,
    /// The daemon has ended it with this line, most likely because it stops.
    Ended { line: Bytes, at: Instant },
}

/// A request without an acknowledgement of the lost daemon.
#[derive(Debug)]
pub(super) struct PendingListen {
    pub(super) id: Bytes,
    pub(super) line: Bytes,
    /// Since when it was parked before, if it was.
    pub(super) waited_since: Option<Instant>,
}

/// What an acknowledgement means for the agent.
#[derive(Debug, PartialEq)]
pub(super) enum Acknowledgement {
    /// The first one.
    First,
    /// The agent has it already. These notifications report what it may have missed.
    Repeated(Vec<Bytes>),
    /// The same with another filter, which the agent must receive.
    Changed(Vec<Bytes>),
}

impl ListenRequests {
    /// Whether this request can continue, too.
    pub(super) fn has_room(&self, line: &Bytes) -> bool {
        let bytes: usize = self.0.iter().map(|listen| listen.line.len()).sum();
        self.0.len() < MAX_REQUESTS && bytes + line.len() <= MAX_BYTES
    }

    /// Adds the request `line` that was queued for the daemon.
    pub(super) fn push(&mut self, id: Bytes, line: &Bytes, waited_since: Option<Instant>) {
        self.0.push(ListenRequest { id, line: copied(line), granted: None, stage: Stage::Pending(waited_since) });
    }

    /// Handles an acknowledgement with these params.
    pub(super) fn acknowledged(&mut self, params: Option<&Bytes>) -> Acknowledgement {
        let parts = params.and_then(|params| members(params, ["_meta", "notifications"]).ok());
        let Some([Some(meta), granted]) = parts else { return Acknowledgement::First };
        let Ok([Some(id)]) = members(&meta, [meta::SUBSCRIPTION]) else { return Acknowledgement::First };
        let Some(listen) = self.0.iter_mut().find(|listen| listen.id == id) else { return Acknowledgement::First };
        let granted = granted.as_ref().map(copied);
        let was_interrupted = matches!(std::mem::replace(&mut listen.stage, Stage::Open), Stage::Interrupted);
        let before = std::mem::replace(&mut listen.granted, granted.clone());
        let missed = || granted.as_ref().map_or_else(Vec::new, |granted| missed(granted, &id));
        match (was_interrupted, before == granted) {
            (false, _) => Acknowledgement::First,
            (true, true) => Acknowledgement::Repeated(missed()),
            (true, false) => Acknowledgement::Changed(missed()),
        }
    }

    /// Handles a response, which ends the request. Returns whether the agent receives it now: not if the request may
    /// continue with another daemon.
    pub(super) fn answered(&mut self, id: &Bytes, is_failure: bool, line: &Bytes, now: Instant) -> bool {
        let Some(listen) = self.0.iter_mut().find(|listen| listen.id == *id) else { return true };
        if is_failure || matches!(listen.stage, Stage::Pending(_)) {
            self.cancel(id);
            return true;
        }
        listen.stage = Stage::Ended { line: line.clone(), at: now };
        false
    }

    /// The agent has cancelled this request.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.0.retain(|listen| listen.id != *id);
    }

    /// The daemon is gone. Returns requests without an acknowledgement; the others wait for the next daemon.
    pub(super) fn interrupt(&mut self) -> Vec<PendingListen> {
        let mut pending = Vec::new();
        for ListenRequest { id, line, granted, stage } in std::mem::take(&mut self.0) {
            match stage {
                Stage::Pending(waited_since) => pending.push(PendingListen { id, line, waited_since }),
                Stage::Open | Stage::Interrupted | Stage::Ended { .. } => {
                    self.0.push(ListenRequest { id, line, granted, stage: Stage::Interrupted });
                }
            }
        }
        pending
    }

    /// The requests to repeat at the next daemon.
    pub(super) fn interrupted(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().filter(|listen| matches!(listen.stage, Stage::Interrupted)).map(|listen| &listen.line)
    }

    /// Ends all requests, and returns their ids.
    pub(super) fn end(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|listen| listen.id)
    }

    /// When [`ListenRequests::take_overdue`] has something.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|listen| listen.ended().map(|at| at + GRACE)).min()
    }

    /// The withheld ends whose daemon is still there.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Bytes> {
        let is_over = |listen: &mut ListenRequest| listen.ended().is_some_and(|at| at + GRACE <= now);
        let over = self.0.extract_if(.., is_over);
        over.filter_map(|listen| if let Stage::Ended { line, .. } = listen.stage { Some(line) } else { None }).collect()
    }

    /// The number of requests.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl ListenRequest {
    fn ended(&self) -> Option<Instant> {
        if let Stage::Ended { at, .. } = self.stage { Some(at) } else { None }
    }
}

/// Notifications that everything within this filter may have changed, for the request with this raw id.
fn missed(granted: &Bytes, id: &[u8]) -> Vec<Bytes> {
    let flags = ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"];
    let Ok([tools, prompts, resources, uris]) = members(granted, flags) else { return Vec::new() };
    let lists = [(tools, ListKind::Tools), (prompts, ListKind::Prompts), (resources, ListKind::Resources)];
    let lists = lists.into_iter().filter(|(flags, _)| flags.as_deref() == Some(b"true"));
    let mut lines: Vec<_> = lists.map(|(_, kind)| notification(kind.change_notification(), id, b"")).collect();
    let uris = uris.unwrap_or_default();
    let uris: Vec<&RawValue> = serde_json::from_slice(&uris).unwrap_or_default();
    lines.extend(uris.iter().map(|uri| {
        let uri = [b",\"uri\":", uri.get().as_bytes()].concat();
        notification("notifications/resources/updated", id, &uri)
    }));
    lines
}

/// A notification for the request with this raw id. `more` are raw members of its params after a comma.
fn notification(method: &str, id: &[u8], more: &[u8]) -> Bytes {
    let head =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"_meta\":{{\"{}\":", meta::SUBSCRIPTION);
    [head.as_bytes(), id, b"}", more, b"}}\n"].concat().into()
}

/// Maximum of unanswered requests of the shim: most of the daemon's limit is for the agent.
const WINDOW: usize = 32;

/// The shim's requests of one connection.
#[derive(Debug)]
pub(super) struct Resubscriptions {
    /// The prefix of its ids, with the quote.
    prefix: String,
    next: u64,
    /// Subscriptions not requested yet; raw URIs.
    waiting: VecDeque<Bytes>,
    /// Requested subscriptions, each with its number.
    requested: Vec<(u64, Bytes)>,
    /// Subscriptions that the daemon has refused: their server may not be ready yet.
    lapsed: Vec<Bytes>,
}

impl Resubscriptions {
    /// `nonce` is unguessable for agents.
    pub(super) fn new(nonce: u64) -> Self {
        let prefix = format!("\"mcpd-connect-{nonce:016x}-");
        Self { prefix, next: 0, waiting: VecDeque::new(), requested: Vec::new(), lapsed: Vec::new() }
    }

    /// A new id, raw.
    pub(super) fn id(&mut self) -> String {
        self.next += 1;
        format!("{}{}\"", self.prefix, self.next)
    }

    /// Whether a raw id is one of the shim's.
    pub(super) fn is_shim_id(&self, id: &[u8]) -> bool {
        id.starts_with(self.prefix.as_bytes())
    }

    /// Starts to request these subscriptions at a new daemon.
    pub(super) fn begin(&mut self, subscriptions: &[Bytes]) {
        self.clear();
        self.waiting.extend(subscriptions.iter().cloned());
    }

    /// The daemon is gone.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.requested.clear();
        self.lapsed.clear();
    }

    /// The next request, if at most `room` further requests are possible.
    pub(super) fn next(&mut self, room: usize) -> Option<Bytes> {
        if self.requested.len() >= WINDOW || room == 0 {
            return None;
        }
        let uri = self.waiting.pop_front()?;
        let id = self.id();
        self.requested.push((self.next, uri.clone()));
        Some(request(&id, "resources/subscribe", "uri", &uri))
    }

    /// Handles a response.
    pub(super) fn answered(&mut self, id: &[u8], is_well: bool) {
        let is_it = |number: u64| id == format!("{}{number}\"", self.prefix).as_bytes();
        let Some(position) = self.requested.iter().position(|(number, _)| is_it(*number)) else { return };
        let (_, uri) = self.requested.swap_remove(position);
        if !is_well {
            self.lapsed.push(uri);
        }
    }

    /// Retries refused subscriptions, since the resources have changed.
    pub(super) fn retry(&mut self) {
        self.waiting.extend(self.lapsed.drain(..));
    }

    /// The agent itself has changed this subscription.
    pub(super) fn skip(&mut self, uri: &Bytes) {
        self.waiting.retain(|waiting| !is_same(waiting, uri));
        self.lapsed.retain(|lapsed| !is_same(lapsed, uri));
    }

    /// Whether a subscription waits to be requested.
    pub(super) fn has_pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The number of unanswered requests.
    pub(super) fn in_flight(&self) -> usize {
        self.requested.len()
    }
}

/// A request with one raw param and a raw id.
pub(super) fn request(id: &str, method: &str, name: &str, value: &[u8]) -> Bytes {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"{name}\":");
    [head.as_bytes(), value, b"}}\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn params(id: &str, granted: &str) -> Bytes {
        bytes(&format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{granted}}}"#))
    }

    fn listens(ids: &[&str]) -> ListenRequests {
        let mut listens = ListenRequests::default();
        for id in ids {
            listens.push(bytes(id), &bytes(&format!("listen {id}\n")), None);
        }
        listens
    }

    /// The same, acknowledged by a daemon that is gone.
    fn interrupted(ids: &[&str], granted: &str) -> ListenRequests {
        let mut listens = listens(ids);
        for id in ids {
            assert_eq!(listens.acknowledged(Some(&params(id, granted))), Acknowledgement::First, "{id}");
        }
        assert_eq!(listens.interrupt().len(), 0);
        listens
    }

    #[test]
    fn acknowledged_requests_are_repeated_and_others_returned() {
        let now = Instant::now();
        let mut listens = listens(&["1", "\"1\""]);
        listens.push(bytes("3"), &bytes("listen 3\n"), Some(now));
        assert_eq!(listens.acknowledged(Some(&params("\"1\"", "{}"))), Acknowledgement::First);
        let pending: Vec<_> =
            listens.interrupt().into_iter().map(|pending| (pending.id, pending.waited_since)).collect();
        assert_eq!(pending, [(bytes("1"), None), (bytes("3"), Some(now))]);
        assert_eq!(listens.interrupted().collect::<Vec<_>>(), ["listen \"1\"\n"]);
    }

    #[test]
    fn second_acknowledgement_reports_what_may_have_been_missed() {
        let notification = |method: &str, uri: &str| {
            let meta = "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"a\"}";
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{meta}{uri}}}}}\n")
        };
        for (granted, expected) in [
            ("{}", vec![]),
            ("7", vec![]),
            (r#"{"toolsListChanged":true,"promptsListChanged":false}"#, vec![notification("tools/list_changed", "")]),
            (
                r#"{"resourceSubscriptions":["a:\/","b:"],"resourcesListChanged":true,"promptsListChanged":true}"#,
                vec![
                    notification("prompts/list_changed", ""),
                    notification("resources/list_changed", ""),
                    notification("resources/updated", r#","uri":"a:\/""#),
                    notification("resources/updated", r#","uri":"b:""#),
                ],
            ),
        ] {
            let mut listens = interrupted(&["\"a\""], granted);
            let expected: Vec<_> = expected.into_iter().map(Bytes::from).collect();
            let again = listens.acknowledged(Some(&params("\"a\"", granted)));
            assert_eq!(again, Acknowledgement::Repeated(expected.clone()), "{granted}");
            let other = interrupted(&["\"a\""], "[]").acknowledged(Some(&params("\"a\"", granted)));
            assert_eq!(other, Acknowledgement::Changed(expected), "{granted}");
            assert_eq!(listens.acknowledged(Some(&params("\"a\"", granted))), Acknowledgement::First, "it is open");
            assert_eq!(listens.interrupted().count(), 0);
        }
        assert_eq!(interrupted(&["1"], "{}").acknowledged(Some(&params("2", "{}"))), Acknowledgement::First);
        assert_eq!(interrupted(&["1"], "{}").acknowledged(None), Acknowledgement::First);
    }

    #[test]
    fn end_is_delivered_only_if_the_daemon_stays() {
        let (now, end) = (Instant::now(), bytes("end\n"));
        let mut listens = interrupted(&["1", "2", "3"], "{}");
        for id in ["1", "2"] {
            assert!(!listens.answered(&bytes(id), false, &end, now));
        }
        assert!(listens.answered(&bytes("3"), true, &end, now), "it is refused");
        assert!(listens.answered(&bytes("4"), false, &end, now), "it is another request");
        listens.cancel(&bytes("2"));
        assert_eq!((listens.next_deadline(), listens.len()), (Some(now + GRACE), 1));
        assert_eq!(listens.take_overdue(now), Vec::<Bytes>::new());
        listens.interrupt();
        assert_eq!((listens.next_deadline(), listens.interrupted().count()), (None, 1));
        assert!(!listens.answered(&bytes("1"), false, &end, now));
        assert_eq!((listens.take_overdue(now + GRACE), listens.len()), (vec![end.clone()], 0));
        let mut pending = super::tests::listens(&["1"]);
        assert!(pending.answered(&bytes("1"), false, &end, now), "the agent knows of no subscription");
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn requests_and_bytes_are_limited() {
        let mut full = ListenRequests::default();
        for id in 0..MAX_REQUESTS {
            assert!(full.has_room(&bytes("x")));
            full.push(Bytes::from(id.to_string()), &bytes("x"), None);
        }
        assert!(!full.has_room(&bytes("x")));
        let large = Bytes::from(vec![b'x'; MAX_BYTES]);
        assert!(ListenRequests::default().has_room(&large));
        let mut one = listens(&["1"]);
        assert!(!one.has_room(&large));
        one.cancel(&bytes("1"));
        assert!(one.has_room(&large));
        assert_eq!(listens(&["1", "2"]).end().count(), 2);
    }

    fn uris(count: usize) -> Vec<Bytes> {
        (0..count).map(|n| Bytes::from(format!("\"a:{n}\""))).collect()
    }

    fn copied(number: u64) -> String {
        format!("\"mcpd-connect-0000000000000007-{number}\"")
    }

    #[test]
    fn subscriptions_are_requested_in_a_window() {
        let mut resubscriptions = Resubscriptions::new(7);
        resubscriptions.begin(&uris(WINDOW + 1));
        assert_eq!(resubscriptions.next(0), None);
        let first = resubscriptions.next(1).expect("one is pending");
        let expected = r#","method":"resources/subscribe","params":{"uri":"a:0"}}"#;
        assert_eq!(first, format!("{{\"jsonrpc\":\"2.0\",\"id\":{}{expected}\n", copied(1)));
        assert_eq!(std::iter::from_fn(|| resubscriptions.next(9)).count(), WINDOW - 1);
        resubscriptions.answered(copied(1).as_bytes(), true);
        assert!(resubscriptions.next(9).is_some() && resubscriptions.next(9).is_none());
    }

    #[test]
    fn refused_subscription_is_retried_unless_the_agent_has_changed_it() {
        let mut resubscriptions = Resubscriptions::new(7);
        resubscriptions.begin(&uris(3));
        while resubscriptions.next(9).is_some() {}
        for number in 1..=3 {
            resubscriptions.answered(copied(number).as_bytes(), number == 3);
        }
        assert!(resubscriptions.next(9).is_none());
        resubscriptions.skip(&Bytes::from_static(br#""a\u003a0""#));
        resubscriptions.retry();
        let again = resubscriptions.next(9).expect("one");
        assert!(again.ends_with(b"\"a:1\"}}\n") && resubscriptions.next(9).is_none(), "{again:?}");
        assert!(
            resubscriptions.is_shim_id(copied(4).as_bytes())
                && !resubscriptions.is_shim_id(b"\"mcpd-connect-7\"")
                && !resubscriptions.is_shim_id(b"7")
        );
    }
}
