//! Keeps what servers write to stderr for the time after the daemon: in the journal, or else in a file of bounded size.
//!
//! A separate thread writes it. If the queue is full, lines are dropped, so a slow disk or journal does not block the daemon. A full
//! file is renamed to `.1` and replaces the former `.1`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_with::skip_serializing_none;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

use super::output::is_journal;
use crate::disk::open_own;
use crate::printable;

/// Maximum number of lines in the queue. Further lines are dropped.
const MAX_QUEUED_LINES: usize = 4096;

/// Where lines of servers are kept. The default keeps none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ServerOutput(Option<Arc<Kept>>);

#[derive(Debug)]
struct Kept {
    writer: NonBlocking,
    is_journal: bool,
    /// Writes the last lines when it is dropped.
    _flush: WorkerGuard,
}

/// A line in the file: the JSON of `mcpd logs --json`.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
pub(crate) struct ServerLine<'a> {
    /// RFC 3339, in UTC, with milliseconds.
    pub(crate) time: String,
    pub(crate) server: &'a str,
    pub(crate) pid: u32,
    pub(crate) purpose: Option<&'a str>,
    pub(crate) text: &'a str,
}

impl ServerOutput {
    /// Keeps lines in the journal if this process's stderr is the journal, else in the file at `path`, if there is one.
    #[must_use]
    pub fn open(path: Option<PathBuf>) -> Self {
        let is_journal = is_journal(std::env::var_os("JOURNAL_STREAM").as_deref());
        let builder = NonBlockingBuilder::default().thread_name("mcpd-stderr");
        let builder = builder.buffered_lines_limit(MAX_QUEUED_LINES).lossy(true);
        let (writer, flush) = match path {
            _ if is_journal => builder.finish(io::stderr()),
            Some(path) => builder.finish(BoundedFile { path, file: None }),
            None => return Self::default(),
        };
        Self(Some(Arc::new(Kept { writer, is_journal, _flush: flush })))
    }

    /// Whether lines are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.0.is_some()
    }

    /// Whether lines are kept where mcpd's own log is.
    pub(crate) fn is_journal(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.is_journal)
    }

    /// Keeps a line.
    pub(crate) fn keep(&self, line: &ServerLine<'_>) {
        let Some(kept) = &self.0 else { return };
        let text = if kept.is_journal { line.journal_entry() } else { line.json() };
        // A full queue drops the line.
        let _ = kept.writer.clone().write_all(text.as_bytes());
    }
}

impl ServerLine<'_> {
    /// With the priority of information (sd-daemon(3)). The journal adds the time.
    fn journal_entry(&self) -> String {
        let purpose = self.purpose.map(|purpose| format!(" ({purpose})")).unwrap_or_default();
        format!("<6>{}\n", printable::one_line(&format!("{}{purpose}[{}]: {}", self.server, self.pid, self.text)))
    }

    fn json(&self) -> String {
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n", printable::json(&line))
    }
}

/// The kept lines at `path`, oldest first, as they were written.
pub(crate) fn kept_lines(path: &Path) -> Vec<String> {
    let texts = [older(path), path.to_owned()].map(|path| std::fs::read(path).unwrap_or_default());
    texts.iter().flat_map(|text| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A file that is created with its first line, and replaced when it is full.
struct BoundedFile {
    path: PathBuf,
    file: Option<(File, u64)>,
}

impl BoundedFile {
    fn open(&self) -> io::Result<(File, u64)> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.path.parent().unwrap_or(&self.path))?;
        let file = open_own(OpenOptions::new().append(true), &self.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }
}

impl Write for BoundedFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (mut file, mut length) = match self.file.take() {
            Some(opened) => opened,
            None => self.open()?,
        };
        if length + line.len() as u64 > MAX_SIZE {
            std::fs::rename(&self.path, older(&self.path))?;
            (file, length) = self.open()?;
        }
        file.write_all(line)?;
        self.file = Some((file, length + line.len() as u64));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The size at which a file is replaced.
pub(super) const MAX_SIZE: u64 = 4 << 20;

/// The standard output and error of this process, in a file of bounded size.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    length: u64,
}

impl LogFile {
    /// Redirects standard output and error to the end of this file. A new file is private to the user.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let length = redirect(&path)?;
        Ok(Self { path, length })
    }
}

/// The path of the file that a full one becomes.
pub(crate) fn older(path: &Path) -> PathBuf {
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    older.into()
}

/// Redirects the standard streams. Returns the length of the file.
fn redirect(path: &Path) -> io::Result<u64> {
    let file = open_own(OpenOptions::new().append(true), path)?;
    rustix::stdio::dup2_stdout(&file)?;
    rustix::stdio::dup2_stderr(&file)?;
    Ok(file.metadata()?.len())
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.length > 0 && self.length + line.len() as u64 > MAX_SIZE {
            // If the file cannot be replaced, logging continues in it, and the next attempt follows after as many bytes.
            let renewed = std::fs::rename(&self.path, older(&self.path)).and_then(|()| redirect(&self.path));
            self.length = renewed.unwrap_or(0);
        }
        io::stderr().write_all(line)?;
        self.length += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_file_becomes_the_older_one() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("state/servers.log");
        let mut file = BoundedFile { path: path.clone(), file: None };
        let line = vec![b'x'; 1 << 20];
        for _ in 0..6 {
            file.write_all(&line).expect("it is written");
        }
        let length = |path: &Path| std::fs::metadata(path).expect("it exists").len();
        assert_eq!((length(&older(&path)), length(&path)), (MAX_SIZE, 2 << 20));
    }

    #[test]
    fn entry_of_the_journal_is_one_line_that_names_the_server() {
        let line = |purpose| ServerLine { time: String::new(), server: "s", pid: 7, purpose, text: "a\u{1b}\nb" };
        assert_eq!(line(None).journal_entry(), "<6>s[7]: a\\u{1b}\\nb\n");
        assert_eq!(line(Some("/p")).journal_entry(), "<6>s (/p)[7]: a\\u{1b}\\nb\n");
    }
}
