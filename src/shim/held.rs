//! Lines of the agent that wait for a daemon. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::asking::Asking;

/// Requests that wait. One more is refused at once with −31003. A daemon takes as many.
const MOST: usize = 256;
/// Bytes of their lines, likewise.
pub(super) const BYTES: usize = 16 << 20;
/// How long each waits; then it ends with −31004.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// For how long that time does not begin while a daemon is being stopped, which takes it 10 s at most.
const DRAIN: Duration = Duration::from_secs(10);
/// The place of a line that was not sent before, behind those that a daemon has refused.
const LAST: u64 = u64::MAX;

/// Those of one agent, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    lines: VecDeque<Waiting>,
    requests: usize,
    bytes: usize,
    /// What each may wait beyond [`LONGEST`].
    allowance: Duration,
}

/// A line that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) line: Bytes,
    pub(super) asking: Asking,
    /// When it began to.
    pub(super) since: Instant,
    place: u64,
}

impl Held {
    /// Keeps a line.
    ///
    /// # Errors
    /// There is no room for it: whoever asks is refused.
    pub(super) fn push(&mut self, line: Bytes, asking: Asking, now: Instant) -> Result<(), Asking> {
        self.push_at(LAST, line, asking, now)
    }

    /// The same for one that was sent as line `place` of a connection, which comes before those that were not.
    ///
    /// # Errors
    /// As [`Held::push`].
    pub(super) fn push_at(&mut self, place: u64, line: Bytes, asking: Asking, now: Instant) -> Result<(), Asking> {
        if self.requests + asking.asked.len() > MOST || self.bytes + line.len() > BYTES {
            return Err(asking);
        }
        let line = asking.narrow(line);
        self.requests += asking.asked.len();
        self.bytes += line.len();
        let position = self.lines.partition_point(|waiting| waiting.place <= place);
        self.lines.insert(position, Waiting { line, asking, since: now, place });
        Ok(())
    }

    /// The agent does not want this request any more.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        let fresh = Self { allowance: self.allowance, ..Self::default() };
        let lines = std::mem::replace(self, fresh).lines;
        for Waiting { line, mut asking, since, place } in lines {
            asking.cancel(id);
            if !asking.asked.is_empty() {
                // It had room before.
                let _ = self.push_at(place, line, asking, since);
            }
        }
    }

    /// The daemon is being stopped: the time of those that wait begins when it has gone, within bounds.
    pub(super) fn pause(&mut self) {
        self.allowance = DRAIN;
    }

    /// The daemon has gone, `after` it began to be stopped.
    pub(super) fn resume(&mut self, after: Duration) {
        self.allowance = Duration::ZERO;
        for waiting in &mut self.lines {
            waiting.since += after;
        }
    }

    /// When the next one has waited for too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lines.front().map(|oldest| oldest.since + LONGEST + self.allowance)
    }

    /// Takes out what has waited for too long by `now`.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Asking> {
        let mut overdue = Vec::new();
        while self.due().is_some_and(|due| due <= now) {
            overdue.extend(self.take_first().map(|waiting| waiting.asking));
        }
        overdue
    }

    /// Takes the first out.
    pub(super) fn take_first(&mut self) -> Option<Waiting> {
        let first = self.lines.pop_front()?;
        self.requests -= first.asking.asked.len();
        self.bytes -= first.line.len();
        Some(first)
    }

    /// How many requests wait.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: usize) -> (Bytes, Asking) {
        (Bytes::from(format!("line {id}\n")), Asking::plain(Bytes::from(id.to_string())))
    }

    fn held(ids: impl IntoIterator<Item = usize>, now: Instant) -> Held {
        let mut held = Held::default();
        for (line, asking) in ids.into_iter().map(request) {
            held.push(line, asking, now).expect("room");
        }
        held
    }

    fn lines(held: &mut Held) -> Vec<Bytes> {
        std::iter::from_fn(|| held.take_first()).map(|waiting| waiting.line).collect()
    }

    #[test]
    fn they_wait_in_order_and_a_cancelled_one_is_gone() {
        let mut held = held([1, 2, 3], Instant::now());
        held.cancel(&Bytes::from_static(b"2"));
        held.cancel(&Bytes::from_static(b"7"));
        assert_eq!((held.requests(), lines(&mut held)), (2, vec!["line 1\n".into(), "line 3\n".into()]));
        assert_eq!((held.requests, held.bytes, held.due()), (0, 0, None));
    }

    #[test]
    fn each_waits_ten_seconds() {
        let start = Instant::now();
        let mut held = held([1], start);
        let (line, asking) = request(2);
        held.push(line, asking, start + Duration::from_secs(1)).expect("room");
        assert_eq!(held.overdue(start + LONGEST - Duration::from_millis(1)), []);
        assert_eq!(held.overdue(start + LONGEST), [request(1).1]);
        assert_eq!(held.due(), Some(start + LONGEST + Duration::from_secs(1)));
    }

    #[test]
    fn what_was_sent_before_comes_first_in_its_order_also_after_a_cancellation() {
        let now = Instant::now();
        let mut held = held([8, 9], now);
        for place in [3, 1, 2] {
            let (line, asking) = request(place);
            held.push_at(place as u64, line, asking, now).expect("room");
        }
        held.cancel(&Bytes::from_static(b"2"));
        assert_eq!(lines(&mut held), ["line 1\n", "line 3\n", "line 8\n", "line 9\n"]);
    }

    #[test]
    fn the_time_begins_when_a_daemon_that_is_being_stopped_has_gone() {
        let start = Instant::now();
        let mut held = held([1], start);
        held.pause();
        assert_eq!(held.due(), Some(start + LONGEST + DRAIN));
        held.resume(Duration::from_secs(7));
        assert_eq!(held.due(), Some(start + LONGEST + Duration::from_secs(7)));
    }

    #[test]
    fn there_is_room_for_so_many_and_so_large_ones() {
        let now = Instant::now();
        let mut full = held(0..MOST, now);
        assert_eq!(full.push("x".into(), request(999).1, now), Err(request(999).1));
        let mut large = Held::default();
        large.push(vec![b'x'; BYTES].into(), request(1).1, now).expect("room");
        assert_eq!(large.push("x".into(), request(2).1, now), Err(request(2).1));
    }
}
