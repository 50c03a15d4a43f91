//! Requests of the agent that wait for a daemon. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::request::Request;

/// Maximum of parked requests. Further ones are refused with −31003. A daemon accepts as many.
const MAX_REQUESTS: usize = 256;
/// Maximum of their bytes, likewise.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// How long each may wait. Then it ends with −31004.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);
/// Longest extension of that time while a daemon stops, which takes at most 10 s.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of lines that were not sent before: after those that a daemon has refused.
const UNSENT: u64 = u64::MAX;

/// The parked requests of one agent, in order.
#[derive(Debug, Default)]
pub(super) struct ParkedRequests {
    lines: VecDeque<ParkedLine>,
    bytes: usize,
    /// Extends [`MAX_WAIT`].
    allowance: Duration,
}

/// A parked line.
#[derive(Debug)]
pub(super) struct ParkedLine {
    pub(super) line: Bytes,
    pub(super) request: Request,
    /// Since when it is parked.
    pub(super) since: Instant,
    number: u64,
}

impl ParkedRequests {
    /// Parks a line.
    ///
    /// # Errors
    /// At the limit. The caller refuses the requests.
    pub(super) fn push(&mut self, line: Bytes, request: Request, now: Instant) -> Result<(), Request> {
        self.push_at(UNSENT, line, request, now)
    }

    /// Parks a line that was sent as line `number` of a connection. Such lines come first.
    ///
    /// # Errors
    /// See [`ParkedRequests::push`].
    pub(super) fn push_at(&mut self, number: u64, line: Bytes, request: Request, now: Instant) -> Result<(), Request> {
        if self.lines.len() >= MAX_REQUESTS || self.bytes + line.len() > MAX_BYTES {
            return Err(request);
        }
        self.bytes += line.len();
        let position = self.lines.partition_point(|parked| parked.number <= number);
        self.lines.insert(position, ParkedLine { line, request, since: now, number });
        Ok(())
    }

    /// The agent has cancelled this request.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.lines.retain(|parked| parked.request.id != *id || !parked.request.is_cancellable());
        self.bytes = self.lines.iter().map(|parked| parked.line.len()).sum();
    }

    /// The daemon is stopping: the waiting time begins when it is gone, within a limit.
    pub(super) fn pause(&mut self) {
        self.allowance = DRAIN_TIMEOUT;
    }

    /// The daemon is gone, `after` it began to stop.
    pub(super) fn resume(&mut self, after: Duration) {
        self.allowance = Duration::ZERO;
        for parked in &mut self.lines {
            parked.since += after;
        }
    }

    /// When the next request expires.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.lines.front().map(|oldest| oldest.since + MAX_WAIT + self.allowance)
    }

    /// Removes expired requests.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Request> {
        let mut take_overdue = Vec::new();
        while self.next_deadline().is_some_and(|due| due <= now) {
            take_overdue.extend(self.take_first().map(|parked| parked.request));
        }
        take_overdue
    }

    /// Removes the first line.
    pub(super) fn take_first(&mut self) -> Option<ParkedLine> {
        let first = self.lines.pop_front()?;
        self.bytes -= first.line.len();
        Some(first)
    }

    /// The number of parked requests.
    pub(super) fn requests(&self) -> usize {
        self.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: usize) -> (Bytes, Request) {
        (Bytes::from(format!("line {id}\n")), Request::plain(Bytes::from(id.to_string())))
    }

    fn parked(ids: impl IntoIterator<Item = usize>, now: Instant) -> ParkedRequests {
        let mut parked = ParkedRequests::default();
        for (line, request) in ids.into_iter().map(request) {
            parked.push(line, request, now).expect("room");
        }
        parked
    }

    fn lines(parked: &mut ParkedRequests) -> Vec<Bytes> {
        std::iter::from_fn(|| parked.take_first()).map(|parked| parked.line).collect()
    }

    #[test]
    fn requests_stay_in_order_and_cancelled_ones_are_removed() {
        let mut parked = parked([1, 2, 3], Instant::now());
        parked.cancel(&Bytes::from_static(b"2"));
        parked.cancel(&Bytes::from_static(b"7"));
        assert_eq!((parked.requests(), lines(&mut parked)), (2, vec!["line 1\n".into(), "line 3\n".into()]));
        assert_eq!((parked.requests(), parked.bytes, parked.next_deadline()), (0, 0, None));
    }

    #[test]
    fn each_request_expires_after_ten_seconds() {
        let start = Instant::now();
        let mut parked = parked([1], start);
        let (line, request_two) = request(2);
        parked.push(line, request_two, start + Duration::from_secs(1)).expect("room");
        assert_eq!(parked.take_overdue(start + MAX_WAIT - Duration::from_millis(1)), []);
        assert_eq!(parked.take_overdue(start + MAX_WAIT), [request(1).1]);
        assert_eq!(parked.next_deadline(), Some(start + MAX_WAIT + Duration::from_secs(1)));
    }

    #[test]
    fn lines_sent_before_come_first_in_their_order() {
        let now = Instant::now();
        let mut parked = parked([8, 9], now);
        for position in [3, 1, 2] {
            let (line, request) = request(position);
            parked.push_at(position as u64, line, request, now).expect("room");
        }
        parked.cancel(&Bytes::from_static(b"2"));
        assert_eq!(lines(&mut parked), ["line 1\n", "line 3\n", "line 8\n", "line 9\n"]);
    }

    #[test]
    fn waiting_time_begins_when_a_stopping_daemon_is_gone() {
        let start = Instant::now();
        let mut parked = parked([1], start);
        parked.pause();
        assert_eq!(parked.next_deadline(), Some(start + MAX_WAIT + DRAIN_TIMEOUT));
        parked.resume(Duration::from_secs(7));
        assert_eq!(parked.next_deadline(), Some(start + MAX_WAIT + Duration::from_secs(7)));
    }

    #[test]
    fn requests_and_bytes_are_limited() {
        let now = Instant::now();
        let mut full = parked(0..MAX_REQUESTS, now);
        assert_eq!(full.push("x".into(), request(999).1, now), Err(request(999).1));
        let mut large = ParkedRequests::default();
        large.push(vec![b'x'; MAX_BYTES].into(), request(1).1, now).expect("room");
        assert_eq!(large.push("x".into(), request(2).1, now), Err(request(2).1));
    }
}
