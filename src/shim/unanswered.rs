//! Unanswered requests of the agent: parked ones wait for a daemon, those in flight for its response. Pure.
//!
//! The lines of requests in flight are kept within a limit: a stopping daemon may refuse a request that no server has seen, which
//! the next daemon then receives.

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
/// Longest extension of that time while a daemon stops, which takes at most 10 s, besides the time that it gives to calls before a
/// restart.
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

    /// The daemon is stopping: the waiting time begins when it is gone, within a limit. Before that it gives calls the time
    /// `restart_wait`.
    pub(super) fn pause(&mut self, restart_wait: Duration) {
        self.allowance = DRAIN_TIMEOUT.saturating_add(restart_wait);
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
        self.lines.front()?.since.checked_add(MAX_WAIT.saturating_add(self.allowance))
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

/// Maximum of lines. At the limit the agent is not read until one is answered. A daemon refuses requests beyond its
/// own, far lower limit at once.
const MAX_IN_FLIGHT: usize = 4096;
/// Maximum bytes of their ids, likewise.
const MAX_ID_BYTES: usize = 1 << 20;

/// The unanswered requests of a connection, in order.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    lines: VecDeque<InFlightLine>,
    /// Bytes of ids.
    bytes: usize,
    /// Bytes of lines.
    line_bytes: usize,
}

/// A line that was queued for the daemon.
#[derive(Debug)]
pub(super) struct InFlightLine {
    /// Its number there.
    pub(super) number: u64,
    /// `None` beyond the limit.
    pub(super) line: Option<Bytes>,
    pub(super) request: Request,
    /// Since when it was parked before, if it was.
    pub(super) waited_since: Option<Instant>,
}

impl InFlight {
    pub(super) fn push(&mut self, number: u64, line: Option<Bytes>, request: Request, waited_since: Option<Instant>) {
        self.bytes += request.id.len();
        let line = line.filter(|line| self.line_bytes + line.len() <= MAX_BYTES);
        self.line_bytes += line.as_ref().map_or(0, Bytes::len);
        self.lines.push_back(InFlightLine { number, line, request, waited_since });
    }

    /// Removes the oldest request with this id whose line was kept.
    pub(super) fn take_refused(&mut self, id: &Bytes) -> Option<InFlightLine> {
        self.remove(|sent| sent.request.id == *id && sent.line.is_some())
    }

    /// Removes the oldest request with this id, which was answered.
    pub(super) fn take(&mut self, id: &Bytes) -> Option<Request> {
        Some(self.remove(|sent| sent.request.id == *id)?.request)
    }

    /// Removes the oldest request with this id, which was cancelled.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.remove(|sent| sent.request.id == *id && sent.request.is_cancellable());
    }

    /// Whether a request with this id is unanswered.
    pub(super) fn has(&self, id: &Bytes) -> bool {
        self.lines.iter().any(|sent| sent.request.id == *id)
    }

    fn remove(&mut self, is_it: impl Fn(&InFlightLine) -> bool) -> Option<InFlightLine> {
        let sent = self.lines.remove(self.lines.iter().position(is_it)?)?;
        self.bytes -= sent.request.id.len();
        self.line_bytes -= sent.line.as_ref().map_or(0, Bytes::len);
        Some(sent)
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_IN_FLIGHT || self.bytes >= MAX_ID_BYTES
    }

    /// The number of unanswered requests.
    pub(super) fn requests(&self) -> usize {
        self.lines.len()
    }

    /// Removes all, since the connection has ended.
    pub(super) fn end(&mut self) -> VecDeque<InFlightLine> {
        std::mem::take(self).lines
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
        parked.pause(Duration::from_secs(3));
        assert_eq!(parked.next_deadline(), Some(start + MAX_WAIT + DRAIN_TIMEOUT + Duration::from_secs(3)));
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
