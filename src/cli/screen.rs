//! A full-screen view for `mcpd top` and `mcpd status --watch`. It restores the terminal after a key, a signal or a panic.
//!
//! Keys are read as bytes from `/dev/tty`, so standard input may be anything.
//!
//! `ratatui` was measured and not used. It would shorten this module from 116 to 74 lines, but needs 28 more crates and
//! 17 s more of processor time in a clean build; tables are also printed to pipes and stay text.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

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

use super::style::{OutputStyle, Tone};

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
}
