//! Reads stderr line by line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Copier;
use super::ring::{Line, Log, Ring};
use crate::clock::Moment;
use crate::config::Secrets;
use crate::logging::ServerOutput;
use crate::masking::KnownSecrets;

/// Maximum length of a line, in bytes. A longer line is cut and ends with `…`.
const MAX_LINE: usize = 64 << 10;
/// Time after which a line counts as ended, although it has no line end: it may be a question to a person.
const UNFINISHED: Duration = Duration::from_secs(1);
/// Bytes read at once.
const CHUNK: usize = 4 << 10;

/// Writes the lines of one instance to the ring of its server.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    ring: watch::Sender<Ring>,
    server: Arc<str>,
    purpose: Option<Arc<str>>,
    output: ServerOutput,
}

impl Writer {
    pub(crate) fn new(server: Arc<str>, output: ServerOutput) -> Self {
        Self { ring: watch::Sender::default(), server, purpose: None, output }
    }

    /// The writer of one of several instances.
    pub(crate) fn for_purpose(&self, purpose: Arc<str>) -> Self {
        Self { purpose: Some(purpose), ..self.clone() }
    }

    pub(crate) fn log(&self) -> Log {
        Log::new(self.ring.subscribe())
    }

    /// Reads `pipe` until its last writer closes it. Counts the bytes in `total`. Copies have neither the secrets of the server nor others that
    /// the daemon knows.
    pub(crate) async fn drain(
        self,
        mut pipe: pipe::Receiver,
        pid: u32,
        total: Arc<AtomicU64>,
        (secrets, known): (Secrets, KnownSecrets),
    ) {
        let mut buffer = vec![0; CHUNK];
        let mut partial = Partial::default();
        let mut copier = Copier::new(&self.server, self.purpose.as_deref(), pid, &self.output, (&secrets, &known));
        loop {
            let reading = pipe.read(&mut buffer);
            let read = match partial.bytes.is_empty() {
                true => reading.await,
                false => match timeout(UNFINISHED, reading).await {
                    Ok(read) => read,
                    Err(_) => {
                        self.take(&mut partial, b"\n", (pid, true), &mut copier);
                        continue;
                    }
                },
            };
            let Ok(read @ 1..) = read else { break };
            total.fetch_add(read as u64, Ordering::Relaxed);
            self.take(&mut partial, &buffer[..read], (pid, false), &mut copier);
            // Otherwise a server that writes without pause would delay all other tasks for about a hundred reads.
            tokio::task::yield_now().await;
        }
        // Ends the last line if it has no newline.
        self.take(&mut partial, b"\n", (pid, false), &mut copier);
    }

    fn take(&self, partial: &mut Partial, read: &[u8], (pid, is_unended): (u32, bool), copier: &mut Copier<'_>) {
        let lines: Vec<_> = read.split_inclusive(|byte| *byte == b'\n').filter_map(|part| partial.take(part)).collect();
        if lines.is_empty() {
            return;
        }
        let read = Moment::now();
        lines.iter().for_each(|text| copier.copy(text));
        self.ring.send_modify(|ring| {
            for text in lines {
                ring.push(Line { read, pid, purpose: self.purpose.clone(), text, is_unended });
            }
        });
    }
}

/// A line that has not ended yet.
#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    /// The line was too long. Its beginning was returned, and the rest is dropped.
    was_cut: bool,
}

impl Partial {
    /// Adds the next part of the line. Returns the line when it has ended or is too long, unless it is blank.
    fn take(&mut self, part: &[u8]) -> Option<Box<str>> {
        let (text, ends) = match part.strip_suffix(b"\n") {
            Some(text) => (text, true),
            None => (part, false),
        };
        if self.was_cut {
            self.was_cut = !ends;
            return None;
        }
        let room = MAX_LINE - self.bytes.len();
        let (piece, is_cut) = (&text[..text.len().min(room)], text.len() > room);
        self.was_cut = is_cut && !ends;
        if !ends && !is_cut {
            self.bytes.extend_from_slice(piece);
            return None;
        }
        if self.bytes.is_empty() {
            return line_text(piece, is_cut);
        }
        // Moved out, so that one long line does not keep its buffer allocated.
        let mut line = std::mem::take(&mut self.bytes);
        line.extend_from_slice(piece);
        line_text(&line, is_cut)
    }
}

fn line_text(line: &[u8], is_cut: bool) -> Option<Box<str>> {
    let whole = match std::str::from_utf8(line) {
        // The cut split a character.
        Err(error) if is_cut && error.error_len().is_none() => &line[..error.valid_up_to()],
        _ => line,
    };
    let line = String::from_utf8_lossy(whole);
    let text: String = line.trim_end().chars().chain(is_cut.then_some('…')).collect();
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let mut partial = Partial::default();
        let split = parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n'));
        split.filter_map(|part| partial.take(part)).map(String::from).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_were_cut_into_reads() {
        for parts in
            [&[&b"one\r\ntwo\n"[..]][..], &[b"on", b"e\r", b"\ntw", b"o", b"\n"], &[b"one\n", b"\n \n", b"two\n"]]
        {
            assert_eq!(lines(parts), ["one", "two"]);
        }
    }

    #[test]
    fn lines_stay_as_they_were_written() {
        assert_eq!(lines(&[b"\x1b[31mred\xff\tzero\0\n"]), ["\u{1b}[31mred\u{fffd}\tzero\0"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_at_once() {
        let longest = vec![b'x'; MAX_LINE];
        let whole = String::from_utf8(longest.clone()).expect("text");
        assert_eq!(lines(&[&longest, b"\n", b"next\n"]), [whole.clone(), "next".to_owned()]);
        assert_eq!(lines(&[&longest, b"xx"]), [format!("{whole}…")]);
        assert_eq!(lines(&[&longest, b"xx\nnext\n"]), [format!("{whole}…"), "next".to_owned()]);
        assert_eq!(lines(&[&longest, b"x", &longest, &longest, b"\nnext\n"]), [format!("{whole}…"), "next".to_owned()]);
        assert_eq!(lines(&[&longest[1..], "ä\n".as_bytes()]), [format!("{}…", &whole[1..])]);
    }
}
