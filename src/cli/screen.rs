//! A view that takes the whole terminal until somebody leaves it, and gives it back as it was: after a key, a signal, a panic.
//!
//! Keys are read as bytes from the terminal itself, so standard input may be anything.

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

/// The terminal while the view has it; dropping it gives it back.
pub(super) struct Screen {
    keys: pipe::Receiver,
    signals: Signals,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A key that has a character.
    Key(char),
    /// The size of the terminal is another.
    Resized,
    /// Somebody wants to leave; by a signal, if there is one.
    Leave(Option<i32>),
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is none, or it does not let itself be changed.
    pub(super) fn open() -> io::Result<Self> {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let tty = OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/tty")?;
        // A terminal is read like a pipe, and this is the runtime's safe way to wait for a descriptor that is.
        let keys = pipe::Receiver::from_file_unchecked(tty)?;
        let screen = Self { keys, signals: Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])? };
        let panicked = std::panic::take_hook();
        // What a panic says would go with the view.
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            panicked(info);
        }));
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws `text`, as much of it as there is room for, with `foot` in the last line.
    ///
    /// # Errors
    /// If the terminal has gone.
    pub(super) fn draw(&self, text: &str, foot: &str) -> io::Result<()> {
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
        write!(out, "{}", style.paint(Tone::Faint, foot))?;
        queue!(out, Clear(ClearType::UntilNewLine), EndSynchronizedUpdate)?;
        out.flush()
    }

    /// What comes next. Nothing is lost if it is not waited for.
    pub(super) async fn turn(&mut self) -> Turn {
        loop {
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Some(SIGWINCH) => return Turn::Resized,
                    signal => return Turn::Leave(signal),
                },
                key = key(&self.keys) => if let Some(turn) = key {
                    return turn;
                },
            }
        }
    }

    /// Gives the terminal back and ends as `signal` would have ended this process, if there is one.
    pub(super) fn leave(self, signal: Option<i32>) {
        drop(self);
        if let Some(signal) = signal {
            let _ = emulate_default_handler(signal);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
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

/// What was pressed; nothing, if it means nothing here.
async fn key(keys: &pipe::Receiver) -> Option<Turn> {
    let mut bytes = [0; 64];
    let read = match keys.readable().await {
        Ok(()) => keys.try_read(&mut bytes),
        Err(error) => Err(error),
    };
    match read {
        Ok(count) => meaning(&bytes[..count]),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
        // The terminal has gone.
        Err(_) => Some(Turn::Leave(None)),
    }
}

/// What the bytes of one key press, or of several, mean.
fn meaning(bytes: &[u8]) -> Option<Turn> {
    match bytes {
        // Nothing more will come; Ctrl-C; Ctrl-D; Escape alone.
        [] | [0x03 | 0x04, ..] | [0x1b] => Some(Turn::Leave(None)),
        // A key with a name: an arrow, Home, F1.
        [0x1b, ..] => None,
        [b'q' | b'Q', ..] => Some(Turn::Leave(None)),
        [byte, ..] => char::from(*byte).is_ascii_graphic().then_some(Turn::Key(char::from(*byte))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_they_say() {
        let leave = Some(Turn::Leave(None));
        for (bytes, expected) in [
            (&b"q"[..], leave),
            (b"\x03", leave),
            (b"\x1b", leave),
            (b"", leave),
            (b"\x1b[A", None),
            (b"\x1bOP", None),
            (b"\r", None),
            ("é".as_bytes(), None),
            (b"c", Some(Turn::Key('c'))),
        ] {
            assert_eq!(meaning(bytes), expected, "{bytes:?}");
        }
    }
}
