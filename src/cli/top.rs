//! `mcpd top`: call rates, errors, latency, memory and processor time by server and tool, and the details of one server.

mod detail;
mod keys;
mod last_lines;
pub(super) mod model;
mod view;

use std::future::pending;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::detail::{Detail, Stderr};
use self::keys::{CHOSEN_LINE, DETAIL_LINE, Filter, HELP_LINE, LIST_LINE};
use self::last_lines::LastLines;
pub(super) use self::model::Sort;
use self::model::{CallWindow, RowKey, Rows, Selection, Source, TopModel};
use self::view::{CallTable, ViewOptions, view};
use super::daemon_report::{self, LatestReport, POLL_INTERVAL, Reports};
use super::outcome::print_report;
use super::scroll::{Motion, Scroll};
use super::style::OutputStyle;
use super::terminal::{Screen, ScreenEvent, dimensions};
use super::text::truncate;
use super::{CommandResult, FAILED, admin_failure, fail, print};
use crate::admin::report::{Report, ServerReport};
use crate::admin::{AdminError, CallFeedEvent, CpuMeter, follow_calls};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

const MINUTE_MS: i64 = 60_000;
/// Lines of a view that is printed once, in addition to a line for each server.
const LINES_ONCE: usize = 30;
/// Maximum wait for a second measurement of processor time, for a view that is printed once.
const MAX_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct Top {
    /// Sort servers by this
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Sort,
    /// Print the view once, after a few seconds; the default if the output is not a terminal
    #[arg(long)]
    once: bool,
    /// Print the view once as JSON
    #[arg(long)]
    json: bool,
}

struct State {
    socket: PathBuf,
    started: Instant,
    window: CallWindow,
    latest: LatestReport,
    cpu: CpuMeter,
    sort: Sort,
    call_table: CallTable,
    only_last_minute: bool,
    scroll: Scroll,
    filter: Filter,
    /// Shown instead of all else.
    help: Option<Scroll>,
    /// The rows that were drawn last.
    rows: Vec<RowKey>,
    /// The chosen row; without one, the first.
    chosen: Option<RowKey>,
    /// Shown instead of the list.
    opened: Option<OpenedServer>,
}

struct OpenedServer {
    key: RowKey,
    scroll: Scroll,
    call_table: CallTable,
    /// `None` if mcpd starts no server of this name.
    stderr: Option<LastLines>,
}

pub(super) async fn run(directory: &RuntimeDir, top: &Top) -> CommandResult {
    let socket = directory.socket(ADMIN_SOCKET);
    let mut reports = daemon_report::poll(socket.clone());
    let latest = LatestReport::first(&mut reports).await?;
    let calls = follow_calls(socket.clone());
    let mut state = State {
        socket,
        started: Instant::now(),
        window: CallWindow::default(),
        latest,
        cpu: CpuMeter::default(),
        sort: top.sort,
        call_table: CallTable::default(),
        only_last_minute: true,
        scroll: Scroll::default(),
        filter: Filter::default(),
        help: None,
        rows: Vec::new(),
        chosen: None,
        opened: None,
    };
    state.measure();
    if top.once || top.json || !io::stdout().is_terminal() {
        return run_once(state, reports, calls, top.json).await;
    }
    run_live(state, reports, calls).await.map_err(|error| fail(FAILED, error))
}

/// Prints the state once the recorded calls are received and the processor time was measured twice.
async fn run_once(
    mut state: State,
    mut reports: Reports,
    mut calls: mpsc::Receiver<CallFeedEvent>,
    as_json: bool,
) -> CommandResult {
    let end = sleep(POLL_INTERVAL);
    tokio::pin!(end);
    let mut has_history = false;
    while !has_history || !state.cpu.is_known(&state.latest.report) && state.started.elapsed() < MAX_WAIT {
        tokio::select! {
            biased;
            event = calls.recv() => if let Some(event) = event { state.apply(event) },
            report = reports.recv() => match report {
                Some(Ok(report)) => state.update(Ok(report)),
                Some(Err(error)) => return Err(admin_failure(&error)),
                None => return Err(ExitCode::from(FAILED)),
            },
            () = &mut end, if !has_history => has_history = true,
        }
    }
    let model = state.model(Rows::All);
    if as_json {
        return Ok(print_report(&model));
    }
    let (sort, call_table, height) = (state.sort, state.call_table, model.servers.len() + LINES_ONCE);
    let options = ViewOptions { sort, call_table, style: OutputStyle::of_stdout(), height, chosen: None };
    Ok(print(view(&model, options, &mut Scroll::default())))
}

async fn run_live(
    mut state: State,
    mut reports: Reports,
    mut calls: mpsc::Receiver<CallFeedEvent>,
) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    loop {
        state.draw(&screen)?;
        loop {
            tokio::select! {
                event = calls.recv() => if let Some(event) = event { state.apply(event) },
                draws = state.more_lines() => if draws { break },
                report = reports.recv() => {
                    match report {
                        Some(result) => state.update(result),
                        None => return Ok(ExitCode::from(FAILED)),
                    }
                    break;
                }
                event = screen.next_event() => {
                    if let ControlFlow::Break(signal) = state.press(event) {
                        screen.leave(signal);
                        return Ok(ExitCode::SUCCESS);
                    }
                    if !screen.has_unread() {
                        break;
                    }
                }
            }
        }
    }
}

impl State {
    fn now(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn update(&mut self, result: Result<Report, AdminError>) {
        let is_new = result.is_ok();
        self.latest.update(result);
        if is_new {
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.cpu.update(self.now(), &self.latest.report);
    }

    fn apply(&mut self, event: CallFeedEvent) {
        match event {
            CallFeedEvent::Reset => {
                let uptime = i64::try_from(self.latest.report.uptime_ms).unwrap_or(i64::MAX);
                self.window = CallWindow::new(self.now().saturating_sub(uptime));
            }
            CallFeedEvent::HistoryTruncated => self.window.truncate_history(),
            CallFeedEvent::Call(call) => {
                let ago = call.ended_ago().map_or(0, |ago| i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
                self.window.add(self.now().saturating_sub(ago), &call);
            }
            CallFeedEvent::Missed(count) => self.window.missed += count,
        }
    }

    /// Waits for a line of the opened server, and returns whether the view is drawn for it. Cancel safe.
    async fn more_lines(&mut self) -> bool {
        match self.opened.as_mut().and_then(|opened| opened.stderr.as_mut()) {
            Some(stderr) => stderr.update().await,
            None => pending().await,
        }
    }

    /// Breaks if the user ends the view, with the signal if it was one.
    fn press(&mut self, event: ScreenEvent) -> ControlFlow<Option<i32>> {
        let event = if self.filter.is_typed() { self.filter.press(event) } else { Some(event.command()) };
        match (event, &mut self.help, &mut self.opened) {
            (None | Some(ScreenEvent::Resized), ..) => {}
            (Some(ScreenEvent::Leave(signal)), ..) => return ControlFlow::Break(signal),
            (Some(ScreenEvent::Move(motion)), Some(scroll), _) => scroll.press(motion),
            (Some(_), Some(_), _) => self.help = None,
            (Some(ScreenEvent::Key('?')), ..) => self.help = Some(Scroll::default()),
            (Some(ScreenEvent::Key('w')), ..) => self.only_last_minute = !self.only_last_minute,
            (Some(event), None, Some(opened)) => match event {
                ScreenEvent::Move(motion) => opened.scroll.press(motion),
                ScreenEvent::Key('s') => opened.call_table = opened.call_table.next(),
                ScreenEvent::Escape | ScreenEvent::Backspace | ScreenEvent::Key('b') => self.opened = None,
                _ => {}
            },
            (Some(event), None, None) => return self.press_in_list(event),
        }
        ControlFlow::Continue(())
    }

    fn press_in_list(&mut self, event: ScreenEvent) -> ControlFlow<Option<i32>> {
        match event {
            ScreenEvent::Move(motion) => self.choose(motion),
            ScreenEvent::Enter => self.open(),
            ScreenEvent::Escape if !self.filter.clear() => return ControlFlow::Break(None),
            ScreenEvent::Key('/') => self.filter.start(),
            ScreenEvent::Key('s') => self.call_table = self.call_table.next(),
            ScreenEvent::Key(key) => {
                if let Some(sort) = keys::sort_of(key) {
                    (self.sort, self.chosen) = (sort, None);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn chosen_index(&self) -> usize {
        self.chosen.as_ref().and_then(|chosen| self.rows.iter().position(|row| row == chosen)).unwrap_or_default()
    }

    /// While a server is chosen, the order is kept. The first row is no particular server.
    fn choose(&mut self, motion: Motion) {
        let index = motion.target(self.chosen_index(), self.rows.len(), self.scroll.page());
        self.chosen = self.rows.get(index).filter(|_| index > 0).cloned();
    }

    fn open(&mut self) {
        let Some(key) = self.rows.get(self.chosen_index()).cloned() else { return };
        let stderr = self.report_of(&key).filter(|server| server.elsewhere().is_none());
        let stderr = stderr.map(|server| LastLines::of(server.name.clone(), self.socket.clone()));
        self.chosen = Some(key.clone());
        self.opened = Some(OpenedServer { key, scroll: Scroll::default(), call_table: CallTable::Last, stderr });
    }

    fn report_of(&self, key: &RowKey) -> Option<&ServerReport> {
        self.latest.report.servers.iter().find(|server| Some(&server.name) == key.as_ref())
    }

    fn model(&self, rows: Rows<'_>) -> TopModel {
        let now = self.now();
        let from = if self.only_last_minute { now - MINUTE_MS } else { i64::MIN };
        let source = Source { window: &self.window, report: &self.latest.report, cpu: &self.cpu };
        TopModel::new(source, Selection { from, now, sort: self.sort, rows })
    }

    fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        let style = OutputStyle::of_stdout().scrolled();
        let notice = self.latest.outage_notice(style);
        let (width, rows) = dimensions();
        let height = rows.saturating_sub(1 + notice.lines().count());
        let (drawn, footer) = if let Some(scroll) = &mut self.help {
            let text = keys::help(self.call_table, self.only_last_minute, style);
            let (shown, position) = scroll.lines(&text, height);
            (shown, with_position(position, HELP_LINE))
        } else if let Some(mut opened) = self.opened.take() {
            let text = self.detail(&opened, style, height);
            let (shown, position) = opened.scroll.lines(&text, height);
            self.opened = Some(opened);
            (shown, with_position(position, DETAIL_LINE))
        } else {
            self.list(style, height)
        };
        screen.draw(&(notice + &drawn), &truncate(&footer, width.saturating_sub(1)))
    }

    /// The list of servers, and the last line.
    fn list(&mut self, style: OutputStyle, height: usize) -> (String, String) {
        let mut model = self.model(self.filter.text().map_or(Rows::All, Rows::Containing));
        if self.chosen.is_some() {
            model.keep_order(&self.rows);
        }
        self.rows = model.servers.iter().map(|row| row.name.clone()).collect();
        let chosen = Some(self.chosen_index());
        let options = ViewOptions { sort: self.sort, call_table: self.call_table, style, height, chosen };
        let line = if self.chosen.is_some() { CHOSEN_LINE } else { LIST_LINE };
        (view(&model, options, &mut self.scroll), self.filter.line(line))
    }

    fn detail(&self, opened: &OpenedServer, style: OutputStyle, height: usize) -> String {
        let stderr = match &opened.stderr {
            None => Stderr::Nothing("mcpd does not start it, so its stderr is not available".to_owned()),
            Some(last) => match (last.lines(), last.error()) {
                (Some(lines), _) if lines.len() > 0 => Stderr::Lines(lines.collect()),
                (_, Some(error)) => Stderr::Nothing(error.to_string()),
                (Some(_), None) => Stderr::Nothing("it has written nothing".to_owned()),
                (None, None) => Stderr::Nothing("…".to_owned()),
            },
        };
        let (key, model) = (&opened.key, self.model(Rows::One(&opened.key)));
        let detail = Detail { key, model: &model, server: self.report_of(key), cpu: &self.cpu, stderr };
        detail.draw(opened.call_table, style, height)
    }
}

fn with_position(position: Option<String>, line: &str) -> String {
    position.map_or_else(|| line.to_owned(), |position| format!("{position} · {line}"))
}

#[cfg(test)]
mod tests;
