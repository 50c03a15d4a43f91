//! What the shim itself asks of another daemon, in the agent's name: under ids that no agent can have chosen. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use super::memory::is_same;

/// Requests of the shim's own that may be unanswered: most of what the daemon takes is for the agent.
const WINDOW: usize = 32;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Renewal {
    /// How its ids begin, with the quote.
    prefix: String,
    next: u64,
    /// Subscriptions that were not asked for yet; raw URIs.
    waiting: VecDeque<Bytes>,
    /// Those that were, each with its number.
    asked: Vec<(u64, Bytes)>,
    /// Those that the daemon could not give: its server may not be there yet.
    lapsed: Vec<Bytes>,
}

impl Renewal {
    /// `nonce` is what no agent can know.
    pub(super) fn new(nonce: u64) -> Self {
        let prefix = format!("\"mcpd-connect-{nonce:016x}-");
        Self { prefix, next: 0, waiting: VecDeque::new(), asked: Vec::new(), lapsed: Vec::new() }
    }

    /// A fresh id, raw.
    pub(super) fn id(&mut self) -> String {
        self.next += 1;
        format!("{}{}\"", self.prefix, self.next)
    }

    /// Whether a raw id is one of these.
    pub(super) fn is_own(&self, id: &[u8]) -> bool {
        id.starts_with(self.prefix.as_bytes())
    }

    /// Another daemon is there, which knows of none of these subscriptions.
    pub(super) fn begin(&mut self, subscriptions: &[Bytes]) {
        self.forget_all();
        self.waiting.extend(subscriptions.iter().cloned());
    }

    /// Nobody is there any more.
    pub(super) fn forget_all(&mut self) {
        self.waiting.clear();
        self.asked.clear();
        self.lapsed.clear();
    }

    /// The next to be asked for while at most `room` requests more are taken.
    pub(super) fn next(&mut self, room: usize) -> Option<Bytes> {
        if self.asked.len() >= WINDOW || room == 0 {
            return None;
        }
        let uri = self.waiting.pop_front()?;
        let id = self.id();
        self.asked.push((self.next, uri.clone()));
        Some(request(&id, "resources/subscribe", "uri", &uri))
    }

    /// One was answered.
    pub(super) fn answered(&mut self, id: &[u8], is_well: bool) {
        let is_it = |number: u64| id == format!("{}{number}\"", self.prefix).as_bytes();
        let Some(position) = self.asked.iter().position(|(number, _)| is_it(*number)) else { return };
        let (_, uri) = self.asked.swap_remove(position);
        if !is_well {
            self.lapsed.push(uri);
        }
    }

    /// There are other resources than before, with those that could not be given among them maybe.
    pub(super) fn retry(&mut self) {
        self.waiting.extend(self.lapsed.drain(..));
    }

    /// The agent says itself what it wants to know of this one.
    pub(super) fn leave_alone(&mut self, uri: &Bytes) {
        self.waiting.retain(|waiting| !is_same(waiting, uri));
        self.lapsed.retain(|lapsed| !is_same(lapsed, uri));
    }

    /// Whether there is one that could be asked for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many are unanswered.
    pub(super) fn unanswered(&self) -> usize {
        self.asked.len()
    }
}

/// A request with one raw param under a raw id.
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

    fn own(number: u64) -> String {
        format!("\"mcpd-connect-0000000000000007-{number}\"")
    }

    #[test]
    fn subscriptions_are_asked_for_a_few_at_a_time() {
        let mut renewal = Renewal::new(7);
        renewal.begin(&uris(WINDOW + 1));
        assert_eq!(renewal.next(0), None);
        let first = renewal.next(1).expect("one waits");
        let expected = r#","method":"resources/subscribe","params":{"uri":"a:0"}}"#;
        assert_eq!(first, format!("{{\"jsonrpc\":\"2.0\",\"id\":{}{expected}\n", own(1)));
        assert_eq!(std::iter::from_fn(|| renewal.next(9)).count(), WINDOW - 1);
        renewal.answered(own(1).as_bytes(), true);
        assert!(renewal.next(9).is_some() && renewal.next(9).is_none());
    }

    #[test]
    fn one_that_could_not_be_had_is_asked_for_again_unless_the_agent_has_said_what_it_wants() {
        let mut renewal = Renewal::new(7);
        renewal.begin(&uris(3));
        while renewal.next(9).is_some() {}
        for number in 1..=3 {
            renewal.answered(own(number).as_bytes(), number == 3);
        }
        assert!(renewal.next(9).is_none());
        renewal.leave_alone(&Bytes::from_static(br#""a\u003a0""#));
        renewal.retry();
        let again = renewal.next(9).expect("one");
        assert!(again.ends_with(b"\"a:1\"}}\n") && renewal.next(9).is_none(), "{again:?}");
        assert!(renewal.is_own(own(4).as_bytes()) && !renewal.is_own(b"\"mcpd-connect-7\"") && !renewal.is_own(b"7"));
    }
}
