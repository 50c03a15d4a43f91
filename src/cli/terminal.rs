//! What is redrawn on a terminal: a line on standard error while a command waits, and the full-screen view of `mcpd top` and
//! `mcpd status --watch`. The line is erased at the end. The view restores the terminal after a key, a signal or a panic.
//!
//! Keys are read as bytes from `/dev/tty`, so standard input may be anything.
//!
//! `ratatui` was measured and not used. It would shorten the view from 116 to 74 lines, but needs 28 more crates and
//! 17 s more of processor time in a clean build; tables are also printed to pipes and stay text.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::pin;
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use futures_util::StreamExt;
use rustix::fs::OFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;
use signal_hook_tokio::Signals;
use tokio::net::unix::pipe;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use unicode_width::UnicodeWidthStr;

use super::style::{OutputStyle, Tone};
use super::text::{one_line, shorten};
use crate::duration;

/// The terminal in raw mode with the alternate screen. Dropping it restores the terminal.
pub(super) struct Screen {
    keys: pipe::Receiver,
    signals: Signals,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenEvent {
    /// A printable ASCII key.
    Key(char),
    Resized,
    /// The user ends the view, by a key or by this signal.
    Leave(Option<i32>),
}

impl Screen {
    /// # Errors
    /// If there is no terminal, or raw mode cannot be set.
    pub(super) fn open() -> io::Result<Self> {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let tty = OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/tty")?;
        // A terminal is read like a pipe. The checked constructor accepts only pipes.
        let keys = pipe::Receiver::from_file_unchecked(tty)?;
        let screen = Self { keys, signals: Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])? };
        let panic_hook = std::panic::take_hook();
        // The message of a panic would vanish with the alternate screen.
        std::panic::set_hook(Box::new(move |info| {
            restore();
            panic_hook(info);
        }));
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws the lines of `text` that fit, and `footer` in the last line.
    pub(super) fn draw(&self, text: &str, footer: &str) -> io::Result<()> {
        let (_, rows) = dimensions();
        let lines: Vec<_> = text.lines().collect();
        let room = rows.saturating_sub(1);
        let shown = if lines.len() <= room { lines.len() } else { room.saturating_sub(1) };
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate, MoveTo(0, 0))?;
        let style = OutputStyle::of_stdout();
        let more =
            (shown < lines.len()).then(|| style.paint(Tone::Faint, &format!("… {} more lines", lines.len() - shown)));
        let body = lines[..shown].iter().copied().chain(more.as_deref());
        for line in body.chain(std::iter::repeat("")).take(room) {
            write!(out, "{line}")?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
            write!(out, "\r\n")?;
        }
        write!(out, "{}", style.paint(Tone::Faint, footer))?;
        queue!(out, Clear(ClearType::UntilNewLine), EndSynchronizedUpdate)?;
        out.flush()
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn next_event(&mut self) -> ScreenEvent {
        loop {
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Some(SIGWINCH) => return ScreenEvent::Resized,
                    signal => return ScreenEvent::Leave(signal),
                },
                event = read_key(&self.keys) => if let Some(event) = event {
                    return event;
                },
            }
        }
    }

    /// Restores the terminal. If a signal ended the view, the process ends by the same signal.
    pub(super) fn leave(self, signal: Option<i32>) {
        drop(self);
        if let Some(signal) = signal {
            let _ = emulate_default_handler(signal);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Columns and rows of the terminal.
pub(super) fn dimensions() -> (usize, usize) {
    match size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
        _ => (80, 24),
    }
}

async fn read_key(keys: &pipe::Receiver) -> Option<ScreenEvent> {
    let mut bytes = [0; 64];
    let read = match keys.readable().await {
        Ok(()) => keys.try_read(&mut bytes),
        Err(error) => Err(error),
    };
    match read {
        Ok(count) => parse_key(&bytes[..count]),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
        // The terminal is gone.
        Err(_) => Some(ScreenEvent::Leave(None)),
    }
}

/// The event of the first key press in `bytes`; `None` for a key without a function.
fn parse_key(bytes: &[u8]) -> Option<ScreenEvent> {
    match bytes {
        // End of input, Ctrl-C, Ctrl-D, Escape alone.
        [] | [0x03 | 0x04, ..] | [0x1b] => Some(ScreenEvent::Leave(None)),
        // An escape sequence, such as an arrow key or F1.
        [0x1b, ..] => None,
        [b'q' | b'Q', ..] => Some(ScreenEvent::Leave(None)),
        [byte, ..] => char::from(*byte).is_ascii_graphic().then_some(ScreenEvent::Key(char::from(*byte))),
    }
}

/// A shorter wait shows no line.
const INITIAL_DELAY: Duration = Duration::from_millis(300);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Return to the first column and clear the line.
const ERASE: &str = "\r\u{1b}[K";

/// Awaits `future`. Meanwhile it shows the activity, which is read again for each frame.
pub(super) async fn with_spinner<T>(activity: impl Fn() -> String, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    if !io::stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|name| name == "dumb") {
        return future.await;
    }
    let started = Instant::now();
    let mut ticks = interval_at(started + INITIAL_DELAY, FRAME_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut line = SpinnerLine { frames_drawn: 0 };
    loop {
        tokio::select! {
            biased;
            output = &mut future => return output,
            _ = ticks.tick() => line.draw(&activity(), started.elapsed()),
        }
    }
}

/// Dropping it erases the line.
struct SpinnerLine {
    frames_drawn: usize,
}

impl SpinnerLine {
    fn draw(&mut self, activity: &str, elapsed: Duration) {
        let frame = FRAMES[self.frames_drawn % FRAMES.len()];
        let style = OutputStyle::of_stderr();
        let line = style.paint(Tone::Faint, &format_line(frame, activity, elapsed, style.width().unwrap_or_default()));
        write(&format!("{ERASE}{line}"));
        self.frames_drawn += 1;
    }
}

impl Drop for SpinnerLine {
    fn drop(&mut self) {
        if self.frames_drawn > 0 {
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The last column stays free. Otherwise the cursor moves to the next line, and the text cannot be erased.
fn format_line(frame: &str, activity: &str, elapsed: Duration, width: usize) -> String {
    let seconds = format!(" · {}", duration::format(Duration::from_secs(elapsed.as_secs())));
    let room = width.saturating_sub(1 + frame.width() + 1 + seconds.width());
    if room == 0 { String::new() } else { format!("{frame} {}{seconds}", shorten(&one_line(activity), room)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_bytes_are_parsed_to_events() {
        let leave = Some(ScreenEvent::Leave(None));
        for (bytes, expected) in [
            (&b"q"[..], leave),
            (b"\x03", leave),
            (b"\x1b", leave),
            (b"", leave),
            (b"\x1b[A", None),
            (b"\x1bOP", None),
            (b"\r", None),
            ("é".as_bytes(), None),
            (b"c", Some(ScreenEvent::Key('c'))),
        ] {
            assert_eq!(parse_key(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_line_never_reaches_the_last_column() {
        for (width, expected) in [
            (80, "⠋ waiting for files\\nto be ready · 12s"),
            (23, "⠋ waitin…e ready · 12s"),
            (11, "⠋ …y · 12s"),
            (10, "⠋ … · 12s"),
            (9, ""),
            (0, ""),
        ] {
            let drawn = format_line("⠋", "waiting for files\nto be ready", Duration::from_millis(12_900), width);
            assert_eq!(drawn, expected, "{width}");
        }
        assert_eq!(format_line("⠋", "日本語のサーバー", Duration::ZERO, 15), "⠋ 日…バー · 0s");
    }
}
