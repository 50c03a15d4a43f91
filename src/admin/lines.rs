//! Merges the stderr lines of several servers in the order in which they were read.
//!
//! Each server's log buffers its lines. This module stores only a read position per log.

use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;

use super::report::LineReport;
use crate::clock::{Moment, WallClockAnchor};
use crate::manager::{Member, View};
use crate::server::stderr::{Log, Reader};

pub(super) struct NextLine {
    /// Lines of the same server that were overwritten unread before this one.
    pub(super) missed: u64,
    pub(super) line: LineReport,
}

pub(super) struct MergedLines {
    /// Reads only the logs of these servers, if there are any.
    only: Vec<String>,
    sources: Vec<Source>,
}

struct Source {
    name: Arc<str>,
    log: Log,
    reader: Reader,
    /// [`MergedLines::next`] returns lines before this position; [`MergedLines::refresh`] advances it.
    until: u64,
}

impl Source {
    fn new(member: &Member, last: usize) -> Self {
        let log = member.handle.stderr().clone();
        let reader = log.reader(last);
        Self { name: Arc::clone(member.handle.name()), log, until: reader.end(), reader }
    }

    fn next_read(&self) -> Option<Moment> {
        self.reader.next_read().filter(|_| self.reader.next_line_number() < self.until)
    }
}

impl MergedLines {
    /// Starts with the last `last` lines.
    pub(super) fn new(view: &View, only: Vec<String>, last: usize) -> Self {
        let mut lines = Self { only, sources: Vec::new() };
        let selected = view.servers.iter().filter(|member| lines.selects(member));
        lines.sources = selected.map(|member| Source::new(member, last)).collect();
        lines.skip_all_but(last);
        lines
    }

    fn selects(&self, member: &Member) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| *only == **member.handle.name())
    }

    /// Skips the oldest lines across all servers, so that `last` remain.
    fn skip_all_but(&mut self, last: usize) {
        let read =
            |(source, one): (usize, &Source)| one.reader.times_of_unread().into_iter().map(move |read| (read, source));
        let mut all: Vec<(Moment, usize)> = self.sources.iter().enumerate().flat_map(read).collect();
        let surplus = all.len().saturating_sub(last);
        if surplus == 0 {
            return;
        }
        all.select_nth_unstable(surplus);
        for (_, source) in &all[..surplus] {
            self.sources[*source].reader.skip(1);
        }
    }

    /// The oldest unread line as of the last [`MergedLines::refresh`]. `anchor` gives its wall-clock time.
    pub(super) fn next(&mut self, anchor: WallClockAnchor) -> Option<NextLine> {
        let due = self.sources.iter_mut().filter_map(|source| Some((source.next_read()?, source)));
        let (_, source) = due.min_by_key(|(read, _)| *read)?;
        let (missed, line) = source.reader.take()?;
        let line = LineReport {
            time: humantime::format_rfc3339_millis(anchor.time_of(line.read)).to_string(),
            server: source.name.to_string(),
            pid: line.pid,
            purpose: line.purpose.as_deref().map(str::to_owned),
            text: line.text.to_string(),
        };
        Some(NextLine { missed, line })
    }

    /// Includes the lines written and the servers added since. The returned future ends when there may be more.
    pub(super) fn refresh(&mut self, view: &mut watch::Receiver<Arc<View>>) -> impl Future<Output = ()> + use<> {
        let servers = Arc::clone(&view.borrow_and_update());
        self.sources.retain(|source| !source.log.is_closed() || source.reader.next_read().is_some());
        for member in &servers.servers {
            let log = member.handle.stderr();
            if self.selects(member) && !log.is_closed() && !self.sources.iter().any(|source| source.log.is_same(log)) {
                self.sources.push(Source::new(member, usize::MAX));
            }
        }
        let changes = FuturesUnordered::new();
        for source in &mut self.sources {
            changes.push(source.reader.changed().boxed());
            source.until = source.reader.end();
        }
        let mut view = view.clone();
        changes.push(async move { drop(view.changed().await) }.boxed());
        changes.into_future().map(drop)
    }
}
