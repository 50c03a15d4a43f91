//! Requests of the agent that the daemon has and has not answered. Pure.
//!
//! Their lines are kept, within a limit: a daemon that is being stopped may refuse a request that no server has seen, and then the
//! next daemon gets it.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use super::asking::{Asked, Asking};
use super::held;

/// Most lines with such requests. When there are so many, no more is read of the agent until one is answered: far more than the
/// daemon takes, which answers each one beyond its own limit at once.
const MOST: usize = 4096;
/// Most bytes of their ids, likewise.
const BYTES: usize = 1 << 20;

/// Those of this connection, in order.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    lines: VecDeque<Sent>,
    /// Of ids.
    bytes: usize,
    /// Of lines that are kept.
    kept: usize,
}

/// A line that was queued for the daemon.
#[derive(Debug)]
pub(super) struct Sent {
    /// Its number there.
    pub(super) number: u64,
    /// `None` if there was no room for it beside the others.
    pub(super) line: Option<Bytes>,
    pub(super) asking: Asking,
    /// Since when it had waited for this daemon, if it had.
    pub(super) waited_since: Option<Instant>,
}

impl Unanswered {
    pub(super) fn push(&mut self, number: u64, line: Option<Bytes>, asking: Asking, waited_since: Option<Instant>) {
        self.bytes += asking.asked.iter().map(|asked| asked.id.len()).sum::<usize>();
        let line = line.filter(|line| self.kept + line.len() <= held::BYTES);
        self.kept += line.as_ref().map_or(0, Bytes::len);
        self.lines.push_back(Sent { number, line, asking, waited_since });
    }

    /// Takes back the line whose requests are exactly these, if it was kept.
    pub(super) fn take_back(&mut self, ids: &[&Bytes]) -> Option<Sent> {
        let is_theirs = |sent: &Sent| {
            let asked = &sent.asking.asked;
            sent.line.is_some() && asked.len() == ids.len() && asked.iter().all(|asked| ids.contains(&&asked.id))
        };
        let position = self.lines.iter().position(is_theirs)?;
        self.bytes -= ids.iter().map(|id| id.len()).sum::<usize>();
        self.remove_line(position)
    }

    /// The oldest with this id was answered.
    pub(super) fn take(&mut self, id: &Bytes) -> Option<Asked> {
        self.remove(|asking| asking.take(id))
    }

    /// The agent does not want the oldest with this id any more.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.remove(|asking| asking.cancel(id));
    }

    /// Whether one with this id is unanswered.
    pub(super) fn has(&self, id: &Bytes) -> bool {
        self.lines.iter().any(|sent| sent.asking.asked.iter().any(|asked| asked.id == *id))
    }

    fn remove(&mut self, take: impl Fn(&mut Asking) -> Option<Asked>) -> Option<Asked> {
        let mut lines = self.lines.iter_mut().enumerate();
        let (position, asked) = lines.find_map(|(position, sent)| Some((position, take(&mut sent.asking)?)))?;
        self.bytes -= asked.id.len();
        if self.lines[position].asking.asked.is_empty() {
            self.remove_line(position);
        }
        Some(asked)
    }

    fn remove_line(&mut self, position: usize) -> Option<Sent> {
        let sent = self.lines.remove(position)?;
        self.kept -= sent.line.as_ref().map_or(0, Bytes::len);
        Some(sent)
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MOST || self.bytes >= BYTES
    }

    /// How many there are.
    pub(super) fn requests(&self) -> usize {
        self.lines.iter().map(|sent| sent.asking.asked.len()).sum()
    }

    /// All of them: the connection has ended.
    pub(super) fn end(&mut self) -> VecDeque<Sent> {
        std::mem::take(self).lines
    }
}
