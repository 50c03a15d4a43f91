//! `mcpd top`: what is called now, by server and tool, and how long it takes.

mod feed;
mod model;
mod view;
mod window;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::feed::Heard;
use self::model::Picture;
pub(super) use self::model::Sort;
use self::view::{Below, view};
use self::window::Window;
use super::poll::{self, Known, Reports};
use super::screen::{Screen, Turn, dimensions};
use super::style::OutputStyle;
use super::{FAILED, admin_failure, fail, json, try_print};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// How far back calls count, unless all that are known do.
const MINUTE: i64 = 60_000;
/// Lines of a view that is shown once, beside those of servers.
const ONCE: usize = 30;
const FOOT: &str = "c calls, l latency, e errors, n name · w minute/all · s slowest/last · q leaves";

/// What is to be shown.
#[derive(Debug, Args)]
pub(super) struct Top {
    /// By what servers are sorted
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Sort,
    /// Show it once, after a second, and end; as where it is piped
    #[arg(long)]
    once: bool,
    /// Print it once as JSON
    #[arg(long)]
    json: bool,
}

/// All that is known, and how it is to be shown.
struct State {
    began: Instant,
    window: Window,
    known: Known,
    sort: Sort,
    below: Below,
    only_minute: bool,
}

pub(super) async fn run(directory: &RuntimeDir, top: &Top) -> ExitCode {
    let socket = directory.socket(ADMIN_SOCKET);
    let mut reports = poll::status(socket.clone());
    let known = match Known::first(&mut reports).await {
        Ok(known) => known,
        Err(code) => return code,
    };
    let mut calls = feed::calls(socket);
    let mut state = State {
        began: Instant::now(),
        window: Window::default(),
        known,
        sort: top.sort,
        below: Below::default(),
        only_minute: true,
    };
    if top.once || top.json || !io::stdout().is_terminal() {
        return once(&mut state, &mut reports, &mut calls, top.json).await.err().unwrap_or(ExitCode::SUCCESS);
    }
    live(state, reports, calls).await.unwrap_or_else(|error| fail(FAILED, error))
}

/// Shows what is known after all that there was is told and one interval has passed.
async fn once(
    state: &mut State,
    reports: &mut Reports,
    calls: &mut mpsc::Receiver<Heard>,
    as_json: bool,
) -> Result<(), ExitCode> {
    let end = sleep(poll::EVERY);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            heard = calls.recv() => if let Some(heard) = heard { state.hear(heard) },
            report = reports.recv() => match report {
                Some(Ok(report)) => state.known.report = report,
                Some(Err(error)) => return Err(admin_failure(&error)),
                None => return Err(ExitCode::from(FAILED)),
            },
            () = &mut end => break,
        }
    }
    let picture = state.picture();
    try_print(if as_json {
        json::page(&picture)?
    } else {
        view(&picture, (state.sort, state.below), OutputStyle::of_stdout(), picture.servers.len() + ONCE)
    })
}

async fn live(mut state: State, mut reports: Reports, mut calls: mpsc::Receiver<Heard>) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    loop {
        state.draw(&screen)?;
        loop {
            tokio::select! {
                heard = calls.recv() => if let Some(heard) = heard { state.hear(heard) },
                report = reports.recv() => {
                    match report {
                        Some(told) => state.known.hear(told),
                        None => return Ok(ExitCode::from(FAILED)),
                    }
                    break;
                }
                turn = screen.turn() => match turn {
                    Turn::Leave(signal) => {
                        screen.leave(signal);
                        return Ok(ExitCode::SUCCESS);
                    }
                    Turn::Key(key) => { state.press(key); break }
                    Turn::Resized => break,
                },
            }
        }
    }
}

impl State {
    fn now(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Anew => {
                let up = i64::try_from(self.known.report.uptime_ms).unwrap_or(i64::MAX);
                self.window = Window::new(self.now().saturating_sub(up));
            }
            Heard::Cut => self.window.is_cut(),
            Heard::Call(call) => {
                let ago = call.ended_ago().map_or(0, |ago| i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
                self.window.add(self.now().saturating_sub(ago), &call);
            }
            Heard::Missed(count) => self.window.missed += count,
        }
    }

    fn press(&mut self, key: char) {
        match key {
            'c' => self.sort = Sort::Calls,
            'l' => self.sort = Sort::Latency,
            'e' => self.sort = Sort::Errors,
            'n' => self.sort = Sort::Name,
            'w' => self.only_minute = !self.only_minute,
            's' => self.below = if self.below == Below::Slowest { Below::Last } else { Below::Slowest },
            _ => {}
        }
    }

    fn picture(&self) -> Picture {
        let now = self.now();
        let from = if self.only_minute { now - MINUTE } else { i64::MIN };
        Picture::of(&self.window, &self.known.report, (from, now), self.sort)
    }

    fn draw(&self, screen: &Screen) -> io::Result<()> {
        let style = OutputStyle::of_stdout();
        let absence = self.known.absence(style);
        let (width, rows) = dimensions();
        let height = rows.saturating_sub(1 + absence.lines().count());
        let drawn = view(&self.picture(), (self.sort, self.below), style, height);
        let foot: String = FOOT.chars().take(width.saturating_sub(1)).collect();
        screen.draw(&(absence + &drawn), &foot)
    }
}

#[cfg(test)]
mod tests;
