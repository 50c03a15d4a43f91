//! Subscriptions that the shim requests again at the next daemon, with ids that no agent can have chosen. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use super::memory::is_same;

/// InFlight requests of the shim: most of the daemon's limit is for the agent.
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
