//! Requests that the daemon has not answered. Pure.
//!
//! Their lines are kept within a limit: a stopping daemon may refuse a request that no server has seen, which the next
//! daemon then receives.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use super::parked;
use super::request::Request;

/// Maximum of lines. At the limit the agent is not read until one is answered. A daemon refuses requests beyond its
/// own, far lower limit at once.
const MAX_REQUESTS: usize = 4096;
/// Maximum bytes of their ids, likewise.
const MAX_BYTES: usize = 1 << 20;

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
        let line = line.filter(|line| self.line_bytes + line.len() <= parked::MAX_BYTES);
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
        self.lines.len() >= MAX_REQUESTS || self.bytes >= MAX_BYTES
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
