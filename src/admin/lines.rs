//! The lines of one server, or of all, in the order in which they were read.
//!
//! No line is kept here: there is a place in what each server keeps, and a line is taken when it can be told.

use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;

use super::report::LineReport;
use crate::clock::{Moment, WallClockAnchor};
use crate::manager::{Member, View};
use crate::server::stderr::{Log, Reader};

/// A line that is next, after so many that have made room untaken.
pub(super) struct NextLine {
    pub(super) missed: u64,
    pub(super) line: LineReport,
}

pub(super) struct Lines {
    /// The server they are to be of, if it is only one.
    only: Option<String>,
    sources: Vec<Source>,
}

struct Source {
    name: Arc<str>,
    log: Log,
    reader: Reader,
    /// Lines from this one on are left for later.
    until: u64,
}

impl Source {
    fn of(member: &Member, last: usize) -> Self {
        let log = member.handle.stderr().clone();
        let reader = log.reader(last);
        Self { name: Arc::clone(member.handle.name()), log, until: reader.end(), reader }
    }

    fn next_read(&self) -> Option<Moment> {
        self.reader.next_read().filter(|_| self.reader.place() < self.until)
    }
}

impl Lines {
    /// The last lines that there are, at most `last`.
    pub(super) fn of(view: &View, only: Option<String>, last: usize) -> Self {
        let is_wanted = |member: &&Member| only.as_deref().is_none_or(|only| *only == **member.handle.name());
        let sources: Vec<_> = view.servers.iter().filter(is_wanted).map(|member| Source::of(member, last)).collect();
        let mut lines = Self { only, sources };
        lines.forget_all_but(last);
        lines
    }

    /// Passes over the oldest, whosever they are.
    fn forget_all_but(&mut self, last: usize) {
        let read = |(source, one): (usize, &Source)| one.reader.all_read().into_iter().map(move |read| (read, source));
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

    /// The next line of those that were there when they were last looked at; their time of day is by `anchor`.
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

    /// Looks at what there is now, of the servers that there are now. What it returns ends when there may be more.
    pub(super) fn look(&mut self, view: &mut watch::Receiver<Arc<View>>) -> impl Future<Output = ()> + use<> {
        let servers = Arc::clone(&view.borrow_and_update());
        self.sources.retain(|source| !source.log.is_closed() || source.reader.next_read().is_some());
        for member in &servers.servers {
            let log = member.handle.stderr();
            let is_wanted = self.only.as_deref().is_none_or(|only| *only == **member.handle.name());
            if is_wanted && !log.is_closed() && !self.sources.iter().any(|source| source.log.is_same(log)) {
                self.sources.push(Source::of(member, usize::MAX));
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
