//! What is redrawn on a terminal: a line on standard error while a command waits, and the full-screen view of `mcpd top` and
//! `mcpd status --watch`. The line is erased at the end. The view restores the terminal after a key, a signal or a panic.
//!
//! Keys are read as bytes from `/dev/tty`, so standard input may be anything.
//!
//! `ratatui` was measured and not used. It would shorten the view from 116 to 74 lines, but needs 28 more crates and
//! 17 s more of processor time in a clean build; tables are also printed to pipes and stay text.

use std::collections::VecDeque;
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

use super::scroll::Motion;
use super::style::{OutputStyle, Tone};
use super::text::{one_line, shorten};
use crate::duration;

/// The terminal in raw mode with the alternate screen. Dropping it restores the terminal.
pub(super) struct Screen {
    keys: pipe::Receiver,
    /// Key presses that were read and have no event yet.
    unread: VecDeque<ScreenEvent>,
    signals: Signals,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenEvent {
    /// A printable ASCII key.
    Key(char),
    Move(Motion),
    Enter,
    Backspace,
    Escape,
    Resized,
    /// The user ends the view, by a key or by this signal.
    Leave(Option<i32>),
}

impl ScreenEvent {
    /// What a key means where no text is typed.
    pub(super) fn command(self) -> Self {
        match self {
            Self::Key('q' | 'Q') => Self::Leave(None),
            Self::Key('j') => Self::Move(Motion::Down),
            Self::Key('k') => Self::Move(Motion::Up),
            Self::Key(' ') => Self::Move(Motion::PageDown),
            event => event,
        }
    }
}

impl Screen {
    /// # Errors
    /// If there is no terminal, or raw mode cannot be set.
    pub(super) fn open() -> io::Result<Self> {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let tty = OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/tty")?;
        // A terminal is read like a pipe. The checked constructor accepts only pipes.
        let keys = pipe::Receiver::from_file_unchecked(tty)?;
        let screen =
            Self { keys, unread: VecDeque::new(), signals: Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])? };
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
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate, MoveTo(0, 0))?;
        for line in text.lines().chain(std::iter::repeat("")).take(rows.saturating_sub(1)) {
            write!(out, "{line}")?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
            write!(out, "\r\n")?;
        }
        write!(out, "{}", OutputStyle::of_stdout().paint(Tone::Faint, footer))?;
        queue!(out, Clear(ClearType::UntilNewLine), EndSynchronizedUpdate)?;
        out.flush()
    }

    /// Whether further keys were read already, as after a paste.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn next_event(&mut self) -> ScreenEvent {
        loop {
            if let Some(event) = self.unread.pop_front() {
                return event;
            }
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Some(SIGWINCH) => return ScreenEvent::Resized,
                    signal => return ScreenEvent::Leave(signal),
                },
                events = read_keys(&self.keys) => self.unread.extend(events),
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

async fn read_keys(keys: &pipe::Receiver) -> Vec<ScreenEvent> {
    let mut bytes = [0; 64];
    let read = match keys.readable().await {
        Ok(()) => keys.try_read(&mut bytes),
        Err(error) => Err(error),
    };
    match read {
        Ok(count) => parse_keys(&bytes[..count]),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Vec::new(),
        // The terminal is gone.
        Err(_) => vec![ScreenEvent::Leave(None)],
    }
}

/// The events of the key presses in `bytes`. Keys without a function have none.
fn parse_keys(mut bytes: &[u8]) -> Vec<ScreenEvent> {
    if bytes.is_empty() {
        return vec![ScreenEvent::Leave(None)];
    }
    let mut events = Vec::new();
    while let [first, rest @ ..] = bytes {
        let (event, rest) = match (first, rest) {
            // Ctrl-C, Ctrl-D.
            (0x03 | 0x04, _) => (Some(ScreenEvent::Leave(None)), rest),
            (0x1b, []) => (Some(ScreenEvent::Escape), rest),
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let (sequence, rest) = sequence.split_at(end.map_or(sequence.len(), |end| end + 1));
                (motion(sequence).map(ScreenEvent::Move), rest)
            }
            // A key that is pressed together with Alt.
            (0x1b, [_, rest @ ..]) => (None, rest),
            (b'\r' | b'\n', _) => (Some(ScreenEvent::Enter), rest),
            (0x08 | 0x7f, _) => (Some(ScreenEvent::Backspace), rest),
            (byte, _) => {
                ((byte.is_ascii_graphic() || *byte == b' ').then(|| ScreenEvent::Key(char::from(*byte))), rest)
            }
        };
        events.extend(event);
        bytes = rest;
    }
    events
}

/// The end of the escape sequence of an arrow key and its neighbours, in the spellings of xterm, the Linux console and rxvt.
fn motion(sequence: &[u8]) -> Option<Motion> {
    Some(match sequence {
        b"A" => Motion::Up,
        b"B" => Motion::Down,
        b"5~" => Motion::PageUp,
        b"6~" => Motion::PageDown,
        b"H" | b"1~" | b"7~" => Motion::First,
        b"F" | b"4~" | b"8~" => Motion::Last,
        _ => return None,
    })
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
        use ScreenEvent::{Backspace, Enter, Escape, Key, Leave, Move};
        for (bytes, expected) in [
            (&b"\x03"[..], &[Leave(None)][..]),
            (b"", &[Leave(None)]),
            (b"\x1b", &[Escape]),
            (b"\x1b[A\x1bOB", &[Move(Motion::Up), Move(Motion::Down)]),
            (b"\x1b[5~\x1b[6~ ", &[Move(Motion::PageUp), Move(Motion::PageDown), Key(' ')]),
            (b"\x1b[H\x1b[4~j\x7f", &[Move(Motion::First), Move(Motion::Last), Key('j'), Backspace]),
            (b"\x1bOP\x1b[1;5A\x1b[", &[]),
            (b"\x1bx\r", &[Enter]),
            ("éc".as_bytes(), &[Key('c')]),
        ] {
            assert_eq!(parse_keys(bytes), expected, "{bytes:?}");
        }
        let commands = [Key('q'), Key('j'), Key('k'), Key(' '), Key('x')].map(ScreenEvent::command);
        let meanings = [Leave(None), Move(Motion::Down), Move(Motion::Up), Move(Motion::PageDown), Key('x')];
        assert_eq!(commands, meanings);
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
