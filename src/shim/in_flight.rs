//! Requests that the daemon has not answered. Pure.
//!
//! Their lines are kept within a limit: a stopping daemon may refuse a request that no server has seen, which the next
//! daemon then receives.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use super::parked;
use super::request_group::{Request, RequestGroup};

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
    pub(super) group: RequestGroup,
    /// Since when it was parked before, if it was.
    pub(super) waited_since: Option<Instant>,
}

impl InFlight {
    pub(super) fn push(
        &mut self,
        number: u64,
        line: Option<Bytes>,
        group: RequestGroup,
        waited_since: Option<Instant>,
    ) {
        self.bytes += group.members.iter().map(|request| request.id.len()).sum::<usize>();
        let line = line.filter(|line| self.line_bytes + line.len() <= parked::MAX_BYTES);
        self.line_bytes += line.as_ref().map_or(0, Bytes::len);
        self.lines.push_back(InFlightLine { number, line, group, waited_since });
    }

    /// Removes the line whose requests are exactly these, if it was kept.
    pub(super) fn take_refused(&mut self, ids: &[&Bytes]) -> Option<InFlightLine> {
        let is_theirs = |sent: &InFlightLine| {
            let request = &sent.group.members;
            sent.line.is_some()
                && request.len() == ids.len()
                && request.iter().all(|request| ids.contains(&&request.id))
        };
        let position = self.lines.iter().position(is_theirs)?;
        self.bytes -= ids.iter().map(|id| id.len()).sum::<usize>();
        self.remove_line(position)
    }

    /// Removes the oldest request with this id, which was answered.
    pub(super) fn take(&mut self, id: &Bytes) -> Option<Request> {
        self.remove(|group| group.take(id))
    }

    /// Removes the oldest request with this id, which was cancelled.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.remove(|group| group.cancel(id));
    }

    /// Whether a request with this id is unanswered.
    pub(super) fn has(&self, id: &Bytes) -> bool {
        self.lines.iter().any(|sent| sent.group.members.iter().any(|request| request.id == *id))
    }

    fn remove(&mut self, take: impl Fn(&mut RequestGroup) -> Option<Request>) -> Option<Request> {
        let mut lines = self.lines.iter_mut().enumerate();
        let (position, request) = lines.find_map(|(position, sent)| Some((position, take(&mut sent.group)?)))?;
        self.bytes -= request.id.len();
        if self.lines[position].group.members.is_empty() {
            self.remove_line(position);
        }
        Some(request)
    }

    fn remove_line(&mut self, position: usize) -> Option<InFlightLine> {
        let sent = self.lines.remove(position)?;
        self.line_bytes -= sent.line.as_ref().map_or(0, Bytes::len);
        Some(sent)
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_REQUESTS || self.bytes >= MAX_BYTES
    }

    /// The number of unanswered requests.
    pub(super) fn requests(&self) -> usize {
        self.lines.iter().map(|sent| sent.group.members.len()).sum()
    }

    /// Removes all, since the connection has ended.
    pub(super) fn end(&mut self) -> VecDeque<InFlightLine> {
        std::mem::take(self).lines
    }
}
