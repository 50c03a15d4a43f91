//! The methods `calls` and `logs`: they send records of calls, or lines that servers write to stderr, to an operator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::operator::{
    Access, OPERATOR_TIMEOUT, Operator, event, refuse, refuse_overload, respond, send, unknown_server,
};
use super::report::LineReport;
use super::{AdminEvent, Answer, CallsRequest, CallsSummary, LogsRequest, LogsSummary};
use crate::calls::{CallEvent, Filter, Subscription};
use crate::clock::{Moment, WallClockAnchor};
use crate::manager::{Member, View};
use crate::server::stderr::{Log, Reader};

/// Pause after each batch, so that following costs little while many calls end.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of text between two flushes. The last line may exceed it.
const BURST: usize = 64 << 10;
/// Pause between two reads while following, so that a server that writes without end costs little. Lines that its log
/// overwrites within this time are reported as missed.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Answers request `id` with records of calls. With `follow` it returns when the operator sends another message or disconnects.
pub(super) async fn calls(operator: &mut Operator, id: u64, request: CallsRequest, access: &Access) -> io::Result<()> {
    let CallsRequest { last, server, tool, follow } = request;
    let filter = Filter { server: server.clone(), tool };
    let history = access.calls.read(last, filter, follow);
    if follow && history.subscription.is_none() {
        return refuse_overload(operator, id).await;
    }
    // A removed server is valid as long as the history has records of it.
    let unknown = server.as_deref().filter(|_| history.entries.is_empty());
    if let Some(error) = unknown.and_then(|server| unknown_server(&access.view.borrow(), server)) {
        return refuse(operator, Some(id), error).await;
    }
    for entry in &history.entries {
        send(operator, event(AdminEvent::Call(Box::new((&**entry).into())))).await?;
    }
    let summary = CallsSummary { unwritten: history.unwritten };
    respond(operator, Some(id), Answer::Calls(summary)).await?;
    match history.subscription {
        Some(subscription) => follow_calls(operator, subscription).await,
        None => Ok(()),
    }
}

/// Sends new records without a timeout. An operator that stops reading loses records and occupies a subscription.
async fn follow_calls(operator: &mut Operator, mut subscription: Subscription) -> io::Result<()> {
    loop {
        let mut next = tokio::select! {
            next = subscription.next() => next,
            // A follower sends nothing more: this is the end of the connection.
            _ = operator.next() => None,
        };
        if next.is_none() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        while let Some(received) = next {
            let message = match received {
                CallEvent::Entry(entry) => AdminEvent::Call(Box::new((&*entry).into())),
                CallEvent::Missed(missed) => AdminEvent::Missed(missed),
            };
            operator.feed(event(message)).await?;
            next = subscription.next().now_or_never().flatten();
        }
        operator.flush().await?;
        sleep(BATCH_INTERVAL).await;
    }
}

/// Answers request `id` with servers' stderr lines, merged in the order in which they were read. Each server's log buffers its lines; here is only
/// a read position per log.
///
/// With `follow` it returns when the operator sends another message or disconnects.
pub(super) async fn logs(operator: &mut Operator, id: u64, request: LogsRequest, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let LogsRequest { last, servers, follow } = request;
    let view = access.view.clone();
    let unknown = servers.iter().find_map(|server| unknown_server(&view.borrow(), server));
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let mut lines = MergedLines::new(&view.borrow(), servers, last);
    while timeout(OPERATOR_TIMEOUT, send_burst(operator, &mut lines)).await?? {}
    respond(operator, Some(id), Answer::Logs(LogsSummary {})).await?;
    if follow { follow_lines(operator, &mut lines, view).await } else { Ok(()) }
}

/// Sends new lines without a timeout. An operator that stops reading loses lines and occupies one of the long requests.
async fn follow_lines(
    operator: &mut Operator,
    lines: &mut MergedLines,
    mut view: watch::Receiver<Arc<View>>,
) -> io::Result<()> {
    loop {
        let more = lines.refresh(&mut view);
        while send_burst(operator, lines).await? {}
        // The manager publishes the view; it ended.
        if view.has_changed().is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        tokio::select! {
            () = async { sleep(READ_INTERVAL).await; more.await } => {}
            // A follower sends nothing more: this is the end of the connection.
            _ = operator.next() => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Sends up to [`BURST`] bytes of lines and flushes. Returns `false` if there were none.
async fn send_burst(operator: &mut Operator, lines: &mut MergedLines) -> io::Result<bool> {
    let anchor = WallClockAnchor::now();
    let mut sent = 0;
    while sent < BURST
        && let Some(next) = lines.next(anchor)
    {
        let (server, count) = (next.line.server.clone(), next.missed);
        sent += next.line.text.len() + server.len();
        if count > 0 {
            operator.feed(event(AdminEvent::LinesMissed { server, count })).await?;
        }
        operator.feed(event(AdminEvent::Line(Box::new(next.line)))).await?;
    }
    operator.flush().await?;
    Ok(sent > 0)
}

struct NextLine {
    /// Lines of the same server that were overwritten unread before this one.
    missed: u64,
    line: LineReport,
}

struct MergedLines {
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
    fn new(view: &View, only: Vec<String>, last: usize) -> Self {
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
    fn next(&mut self, anchor: WallClockAnchor) -> Option<NextLine> {
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
    fn refresh(&mut self, view: &mut watch::Receiver<Arc<View>>) -> impl Future<Output = ()> + use<> {
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
