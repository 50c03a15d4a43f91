//! `mcpd top`: call rates, errors and latency by server and tool.
//!
//! The stream of calls begins with the recorded calls. It reconnects when the daemon restarts.

pub(super) mod model;
mod view;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

pub(super) use self::model::Sort;
use self::model::{CallWindow, TimeRange, TopModel};
use self::view::{CallTable, ViewOptions, view};
use super::daemon_report::{self, LatestReport, POLL_INTERVAL, Reports};
use super::outcome::print_report;
use super::style::OutputStyle;
use super::terminal::{Screen, ScreenEvent, dimensions};
use super::{CommandResult, FAILED, admin_failure, fail, print};
use crate::admin::{self, AdminError, AdminEvent, CallsRequest, FeedItem};
use crate::calls::report::CallReport;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

const MINUTE_MS: i64 = 60_000;
/// Lines of a view that is printed once, in addition to a line for each server.
const LINES_ONCE: usize = 30;
const FOOTER: &str = "c calls, l latency, e errors, n name · w minute/all · s slowest/last · q quits";

#[derive(Debug, Args)]
pub(super) struct Top {
    /// Sort servers by this
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Sort,
    /// Print the view once, after one second; the default if the output is not a terminal
    #[arg(long)]
    once: bool,
    /// Print the view once as JSON
    #[arg(long)]
    json: bool,
}

struct State {
    started: Instant,
    window: CallWindow,
    latest: LatestReport,
    sort: Sort,
    call_table: CallTable,
    only_last_minute: bool,
}

pub(super) async fn run(directory: &RuntimeDir, top: &Top) -> CommandResult {
    let socket = directory.socket(ADMIN_SOCKET);
    let mut reports = daemon_report::poll(socket.clone());
    let latest = LatestReport::first(&mut reports).await?;
    let calls = start(socket);
    let state = State {
        started: Instant::now(),
        window: CallWindow::default(),
        latest,
        sort: top.sort,
        call_table: CallTable::default(),
        only_last_minute: true,
    };
    if top.once || top.json || !io::stdout().is_terminal() {
        return run_once(state, reports, calls, top.json).await;
    }
    run_live(state, reports, calls).await.map_err(|error| fail(FAILED, error))
}

/// Prints the state after one interval. By then the recorded calls are received.
async fn run_once(
    mut state: State,
    mut reports: Reports,
    mut calls: mpsc::Receiver<FeedEvent>,
    as_json: bool,
) -> CommandResult {
    let end = sleep(POLL_INTERVAL);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            event = calls.recv() => if let Some(event) = event { state.apply(event) },
            report = reports.recv() => match report {
                Some(Ok(report)) => state.latest.report = report,
                Some(Err(error)) => return Err(admin_failure(&error)),
                None => return Err(ExitCode::from(FAILED)),
            },
            () = &mut end => break,
        }
    }
    let model = state.model();
    if as_json {
        return Ok(print_report(&model));
    }
    let height = model.servers.len() + LINES_ONCE;
    Ok(print(view(&model, state.view_options(OutputStyle::of_stdout(), height))))
}

async fn run_live(
    mut state: State,
    mut reports: Reports,
    mut calls: mpsc::Receiver<FeedEvent>,
) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    loop {
        state.draw(&screen)?;
        loop {
            tokio::select! {
                event = calls.recv() => if let Some(event) = event { state.apply(event) },
                report = reports.recv() => {
                    match report {
                        Some(result) => state.latest.update(result),
                        None => return Ok(ExitCode::from(FAILED)),
                    }
                    break;
                }
                event = screen.next_event() => match event {
                    ScreenEvent::Leave(signal) => {
                        screen.leave(signal);
                        return Ok(ExitCode::SUCCESS);
                    }
                    ScreenEvent::Key(key) => { state.press(key); break }
                    ScreenEvent::Resized => break,
                },
            }
        }
    }
}

impl State {
    fn now(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn apply(&mut self, event: FeedEvent) {
        match event {
            FeedEvent::Reset => {
                let uptime = i64::try_from(self.latest.report.uptime_ms).unwrap_or(i64::MAX);
                self.window = CallWindow::new(self.now().saturating_sub(uptime));
            }
            FeedEvent::HistoryTruncated => self.window.truncate_history(),
            FeedEvent::Call(call) => {
                let ago = call.ended_ago().map_or(0, |ago| i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
                self.window.add(self.now().saturating_sub(ago), &call);
            }
            FeedEvent::Missed(count) => self.window.missed += count,
        }
    }

    fn press(&mut self, key: char) {
        match key {
            'c' => self.sort = Sort::Calls,
            'l' => self.sort = Sort::Latency,
            'e' => self.sort = Sort::Errors,
            'n' => self.sort = Sort::Name,
            'w' => self.only_last_minute = !self.only_last_minute,
            's' => self.call_table = self.call_table.other(),
            _ => {}
        }
    }

    fn model(&self) -> TopModel {
        let now = self.now();
        let from = if self.only_last_minute { now - MINUTE_MS } else { i64::MIN };
        TopModel::new(&self.window, &self.latest.report, TimeRange { from, now }, self.sort)
    }

    fn view_options(&self, style: OutputStyle, height: usize) -> ViewOptions {
        ViewOptions { sort: self.sort, call_table: self.call_table, style, height }
    }

    fn draw(&self, screen: &Screen) -> io::Result<()> {
        let style = OutputStyle::of_stdout();
        let notice = self.latest.outage_notice(style);
        let (width, rows) = dimensions();
        let height = rows.saturating_sub(1 + notice.lines().count());
        let drawn = view(&self.model(), self.view_options(style, height));
        let footer: String = FOOTER.chars().take(width.saturating_sub(1)).collect();
        screen.draw(&(notice + &drawn), &footer)
    }
}

/// Recorded calls to request: the default size of the daemon's record.
const HISTORY: usize = 1000;
/// Received calls that are not counted yet. If the queue is full, the daemon skips calls and reports their number.
const QUEUE: usize = 1024;

#[derive(Debug)]
enum FeedEvent {
    /// A new connection: earlier calls are sent again, or were another daemon's.
    Reset,
    /// A call has ended.
    Call(Box<CallReport>),
    /// The daemon has older calls that it did not send.
    HistoryTruncated,
    /// This number of calls was skipped.
    Missed(u64),
}

/// Starts receiving. It ends when the receiver is dropped.
fn start(socket: PathBuf) -> mpsc::Receiver<FeedEvent> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while !sender.is_closed() {
            // The poll of the status reports the error.
            let _ = receive(&socket, &sender).await;
            sleep(POLL_INTERVAL).await;
        }
    });
    receiver
}

async fn receive(socket: &Path, sender: &mpsc::Sender<FeedEvent>) -> Result<(), AdminError> {
    let mut feed =
        admin::calls(socket, CallsRequest { last: HISTORY, follow: true, ..CallsRequest::default() }).await?;
    let mut received = 0;
    let mut event = FeedEvent::Reset;
    loop {
        if sender.send(event).await.is_err() {
            return Ok(());
        }
        event = loop {
            match feed.next().await? {
                Some(FeedItem::Event(AdminEvent::Call(call))) => {
                    received += 1;
                    break FeedEvent::Call(call);
                }
                Some(FeedItem::Event(AdminEvent::Missed(count))) => break FeedEvent::Missed(count),
                Some(FeedItem::Summary(_)) if received >= HISTORY => break FeedEvent::HistoryTruncated,
                Some(_) => {}
                None => return Ok(()),
            }
        };
    }
}

#[cfg(test)]
mod tests;
