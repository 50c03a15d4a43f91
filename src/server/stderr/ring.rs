//! A bounded ring of the last stderr lines of a server, and readers with a position in it.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::crash::crash;
use crate::clock::Moment;

/// Maximum bytes of all lines of one server, over all its instances. When it is full, the oldest lines are dropped. Twenty servers
/// with a full ring take 5 MiB, plus heap fragmentation.
const MAX_BYTES: usize = 256 << 10;
/// The cost of a line besides its text, so that many short lines are bounded too.
const LINE_COST: usize = 112;

/// One line of stderr.
#[derive(Debug)]
pub struct Line {
    /// The time when its end was read.
    pub read: Moment,
    /// Process id of the server.
    pub pid: u32,
    /// The label of the instance, if it is one of several.
    pub purpose: Option<Arc<str>>,
    /// The line as written, not blank.
    pub text: Box<str>,
    /// The server paused before it ended the line.
    pub is_unended: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    lines: VecDeque<Arc<Line>>,
    bytes: usize,
    /// The number of dropped lines. It is also the number of the oldest line here, as lines are counted from 0.
    dropped: u64,
}

impl Ring {
    pub(super) fn push(&mut self, line: Line) {
        self.bytes += line.text.len() + LINE_COST;
        self.lines.push_back(Arc::new(line));
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len() + LINE_COST;
            self.dropped += 1;
        }
    }

    fn end(&self) -> u64 {
        self.dropped + self.lines.len() as u64
    }

    /// The line `number`, or the oldest line after it.
    fn at(&self, number: u64) -> Option<&Arc<Line>> {
        let index = usize::try_from(number.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        self.lines.get(index)
    }
}

/// Read access to the lines of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log(watch::Receiver<Ring>);

impl Log {
    pub(super) fn new(ring: watch::Receiver<Ring>) -> Self {
        Self(ring)
    }

    /// The last lines of the process that wrote the newest line, oldest first. If they end with the report of a crash, these are the
    /// lines that explain it. Each is cut to `longest` bytes, and all together to `most`.
    #[must_use]
    pub fn last(&self, count: usize, longest: usize, most: usize) -> Vec<String> {
        self.last_where(|_, _| true, (count, longest, most))
    }

    /// The same for the lines that `matches_filter` accepts by number and content.
    pub(crate) fn last_where(
        &self,
        matches_filter: impl Fn(u64, &Line) -> bool,
        (count, longest, most): (usize, usize, usize),
    ) -> Vec<String> {
        let ring = self.0.borrow();
        let mut room = most;
        let fits = |text: &&str| {
            room = room.saturating_sub(text.len());
            room > 0
        };
        let numbered = (ring.dropped..).zip(&ring.lines).filter(|(number, line)| matches_filter(*number, line));
        let matching: Vec<_> = numbered.map(|(_, line)| line).collect();
        let newest_pid = matching.last().map(|line| line.pid);
        let of_process = matching.iter().filter(|line| Some(line.pid) == newest_pid);
        let of_process: Vec<_> = of_process.map(|line| &*line.text).collect();
        let shown = crash(&of_process).map_or_else(|| (0..of_process.len()).collect(), |crash| crash.shown);
        let newest_first = shown.iter().rev().take(count).map(|at| beginning(of_process[*at], longest));
        let mut last: Vec<_> = newest_first.take_while(fits).map(str::to_owned).collect();
        last.reverse();
        last
    }

    /// The last line of the server process `pid`, or the message of the crash that it has reported.
    pub(crate) fn last_of(&self, pid: u32) -> Option<String> {
        let ring = self.0.borrow();
        let lines: Vec<_> = ring.lines.iter().filter(|line| line.pid == pid).map(|line| &*line.text).collect();
        let at = crash(&lines).map_or(lines.len().checked_sub(1)?, |crash| crash.message);
        Some(lines[at].to_owned())
    }

    /// The last line of the server process `pid`, if that has no end.
    pub(crate) fn unended_of(&self, pid: u32) -> Option<String> {
        let ring = self.0.borrow();
        let last = ring.lines.iter().rev().find(|line| line.pid == pid);
        last.filter(|line| line.is_unended).map(|line| line.text.to_string())
    }

    /// Whether the newest line has no end.
    pub(crate) fn is_unended(&self) -> bool {
        self.0.borrow().lines.back().is_some_and(|line| line.is_unended)
    }

    /// A reader that starts at the last `count` lines.
    #[must_use]
    pub fn reader(&self, count: usize) -> Reader {
        let ring = self.0.borrow();
        let known = ring.lines.len().min(count) as u64;
        Reader { ring: self.0.clone(), next: ring.end() - known }
    }

    /// Whether no more lines can arrive.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Whether both belong to one server. A later server of the same name is another one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

/// The beginning of `text`, at most `longest` bytes.
fn beginning(text: &str, longest: usize) -> &str {
    let end = (0..=text.len().min(longest)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// A position in the lines of one server.
#[derive(Debug)]
pub struct Reader {
    ring: watch::Receiver<Ring>,
    /// The number of the next line to take.
    next: u64,
}

impl Reader {
    /// The number of the next line, counted from the server's first.
    #[must_use]
    pub fn next_line_number(&self) -> u64 {
        self.next
    }

    /// The number of the next line that the server will write.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ring.borrow().end()
    }

    /// The time when the next line was read, if there is one.
    #[must_use]
    pub fn next_read(&self) -> Option<Moment> {
        Some(self.ring.borrow().at(self.next)?.read)
    }

    /// The times when the lines ahead of the reader were read.
    #[must_use]
    pub fn times_of_unread(&self) -> Vec<Moment> {
        let ring = self.ring.borrow();
        let first = usize::try_from(self.next.saturating_sub(ring.dropped)).unwrap_or(usize::MAX);
        ring.lines.iter().skip(first).map(|line| line.read).collect()
    }

    /// Skips `count` lines.
    pub fn skip(&mut self, count: u64) {
        self.next += count;
    }

    /// The next line, with the number of lines missed before it.
    pub fn take(&mut self) -> Option<(u64, Arc<Line>)> {
        let ring = self.ring.borrow();
        let line = Arc::clone(ring.at(self.next)?);
        let missed = ring.dropped.saturating_sub(self.next);
        self.next += missed + 1;
        Some((missed, line))
    }

    /// Completes when there may be new lines, or when no more can arrive. Does not borrow the reader.
    pub fn changed(&mut self) -> impl Future<Output = ()> + use<> {
        self.ring.mark_unchanged();
        let mut ring = self.ring.clone();
        async move {
            // A closed channel counts as a change.
            let _ = ring.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { read: Moment::now(), pid: 1, purpose: None, text: text.into(), is_unended: false }
    }

    #[test]
    fn the_ring_keeps_the_last_lines_within_its_bounds() {
        let (ring, log) = watch::channel(Ring::default());
        let log = Log::new(log);
        ring.send_modify(|ring| (0..100_000).for_each(|n| ring.push(line(&format!("line {n}")))));
        assert_eq!(log.last(2, 100, 1000), ["line 99998", "line 99999"]);
        assert_eq!(log.last(9, 6, 13), ["line 9", "line 9"]);
        assert_eq!(log.last(9, 0, 13), [""; 9]);
        assert!(ring.borrow().bytes <= MAX_BYTES);
        ring.send_modify(|ring| (0..100).for_each(|_| ring.push(line(&"ä".repeat(40_000)))));
        assert!(ring.borrow().bytes <= MAX_BYTES && ring.borrow().lines.len() == 3);
        assert_eq!(log.last(1, 3, 100), ["ä"]);
    }

    #[test]
    fn last_lines_are_those_of_the_process_that_wrote_last() {
        let (ring, log) = watch::channel(Ring::default());
        let log = Log::new(log);
        let push = |pid, text| ring.send_modify(|ring| ring.push(Line { pid, ..line(text) }));
        assert!(log.last(9, 100, 1000).is_empty());
        for (pid, text) in [(1, "no key"), (2, "no key"), (1, "late"), (2, "bye")] {
            push(pid, text);
        }
        assert_eq!(log.last(9, 100, 1000), ["no key", "bye"]);
        assert_eq!(log.last_where(|number, _| number < 3, (9, 100, 1000)), ["no key", "late"]);
    }

    #[test]
    fn crash_of_the_last_process_is_shown_by_its_message() {
        let (ring, log) = watch::channel(Ring::default());
        let log = Log::new(log);
        let push = |pid, text| ring.send_modify(|ring| ring.push(Line { pid, ..line(text) }));
        for (pid, text) in [(1, "starting"), (1, "Error: x"), (2, "ready"), (1, "    at a (b)"), (1, "Node.js v22.1.0")]
        {
            push(pid, text);
        }
        assert_eq!(log.last(9, 100, 1000), ["Error: x", "Node.js v22.1.0"]);
        assert_eq!(
            (log.last_of(1).as_deref(), log.last_of(2).as_deref(), log.last_of(3)),
            (Some("Error: x"), Some("ready"), None)
        );
    }

    #[test]
    fn a_reader_that_falls_behind_loses_the_oldest_lines_and_learns_how_many() {
        let (ring, log) = watch::channel(Ring::default());
        let log = Log::new(log);
        let push = |range: std::ops::Range<u64>| {
            ring.send_modify(|ring| range.for_each(|n| ring.push(line(&n.to_string()))));
        };
        push(0..5);
        let mut reader = log.reader(2);
        let mut take = || reader.take().map(|(missed, line)| (missed, line.text.parse().expect("a number")));
        assert_eq!((take(), take(), take()), (Some((0, 3)), Some((0, 4)), None));
        push(5..100_000);
        let oldest = ring.borrow().dropped;
        assert_eq!((take(), take()), (Some((oldest - 5, oldest)), Some((0, oldest + 1))));
        assert_eq!(log.reader(usize::MAX).next_line_number(), oldest);
    }
}
