//! The file of calls. A separate thread writes it, so a slow or full disk delays nothing else.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Entry;
use super::report::CallReport;
use crate::disk::open_own;
use crate::{logging, printable};

/// Entries in the queue of the thread. Further ones are counted, but not written.
const QUEUE_LEN: usize = 4096;
/// Pause after a batch, so that the next batch has several entries: waking the thread costs more than writing one.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum size of the file in bytes: some 30,000 calls, and twice that with the file before it.
const MAX_FILE: u64 = 10 << 20;
/// Time limit for the last entries when the daemon stops.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

/// Handle of the writing thread.
#[derive(Debug)]
pub(super) struct FileWriter {
    entries: mpsc::SyncSender<Arc<Entry>>,
    finished: oneshot::Receiver<()>,
    unwritten: Arc<AtomicU64>,
}

/// Starts the thread. If that fails, it logs a warning and there is no file.
pub(super) fn start(path: PathBuf) -> Option<FileWriter> {
    let (entries, received) = mpsc::sync_channel(QUEUE_LEN);
    let (finish, finished) = oneshot::channel();
    let unwritten = Arc::new(AtomicU64::new(0));
    let lost = Arc::clone(&unwritten);
    let run = move || {
        write_all(&received, &mut RotatingFile::new(path, MAX_FILE), &lost);
        drop(finish);
    };
    match std::thread::Builder::new().name("mcpd-calls".to_owned()).spawn(run) {
        Ok(_) => Some(FileWriter { entries, finished, unwritten }),
        Err(error) => {
            tracing::warn!("calls are not written to their file: no thread: {error}");
            None
        }
    }
}

impl FileWriter {
    pub(super) fn push(&self, entry: &Arc<Entry>) {
        if self.entries.try_send(Arc::clone(entry)).is_err() {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of entries missing in the file.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, for a limited time. Returns whether it is.
    pub(super) async fn finish(self) -> bool {
        let Self { entries, finished, unwritten: _ } = self;
        drop(entries);
        // The thread never sends: it drops its end.
        tokio::time::timeout(FINISH_TIMEOUT, finished).await.is_ok()
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread moves no data of agents")]
fn write_all(entries: &mpsc::Receiver<Arc<Entry>>, file: &mut RotatingFile, unwritten: &AtomicU64) {
    let mut last_warning: Option<Instant> = None;
    while let Ok(first) = entries.recv() {
        file.notice_removal();
        for entry in std::iter::once(first).chain(entries.try_iter()) {
            let Err(error) = write_one(file, &entry) else { continue };
            unwritten.fetch_add(1, Ordering::Relaxed);
            if last_warning.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
                last_warning = Some(Instant::now());
                tracing::warn!("calls are not written to {}: {error}", file.path.display());
            }
        }
        std::thread::sleep(BATCH_INTERVAL);
    }
}

fn write_one(file: &mut RotatingFile, entry: &Entry) -> io::Result<()> {
    let line = serde_json::to_string(&CallReport::from(entry))?;
    file.append(format!("{}\n", printable::json(&line)).as_bytes())
}

/// A file that is renamed to `.1` before it exceeds its maximum size.
struct RotatingFile {
    path: PathBuf,
    max_bytes: u64,
    /// `None` until it could be opened.
    open: Option<OpenFile>,
}

struct OpenFile {
    file: File,
    length: u64,
    /// A device has no length and is never renamed.
    is_regular: bool,
}

impl RotatingFile {
    fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self { path, max_bytes, open: None }
    }

    /// Closes the file if it was removed, so that the next entry creates it again.
    fn notice_removal(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.file.metadata().is_ok_and(|found| found.nlink() == 0)) {
            self.open = None;
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.is_full(line.len() as u64, self.max_bytes)) {
            fs::rename(&self.path, logging::older(&self.path))?;
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(OpenFile::new(&self.path)?),
        };
        open.append(line)
    }
}

impl OpenFile {
    fn new(path: &Path) -> io::Result<Self> {
        let file = open_own(OpenOptions::new().append(true), path)?;
        let found = file.metadata()?;
        if found.is_file() {
            // An existing file may have another mode.
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(Self { file, length: found.len(), is_regular: found.is_file() })
    }

    fn is_full(&self, more: u64, max: u64) -> bool {
        self.is_regular && self.length > 0 && self.length + more > max
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        match written {
            Ok(()) => self.length += line.len() as u64,
            // A partial line would corrupt the next one, too.
            Err(_) if self.is_regular => drop(self.file.set_len(self.length)),
            Err(_) => {}
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_file_is_renamed_and_one_generation_is_retained() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("calls.jsonl");
        fs::write(&path, "old\n").expect("writable");
        let mut file = RotatingFile::new(path.clone(), 10);
        let expect = |now: &str, before: Option<&str>| {
            assert_eq!(fs::read_to_string(&path).expect("there"), now);
            assert_eq!(fs::read_to_string(dir.path().join("calls.jsonl.1")).ok().as_deref(), before);
        };
        file.append(b"12345\n").expect("written");
        expect("old\n12345\n", None);
        file.append(b"6\n").expect("written");
        expect("6\n", Some("old\n12345\n"));
        file.append(b"longer than all of it\n").expect("written");
        expect("longer than all of it\n", Some("6\n"));
        file.append(b"7\n").expect("written");
        expect("7\n", Some("longer than all of it\n"));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn removed_file_is_created_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("calls.jsonl");
        let mut file = RotatingFile::new(path.clone(), 100);
        for line in ["1\n", "2\n"] {
            file.notice_removal();
            file.append(line.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("there"), line);
            fs::remove_file(&path).expect("there");
        }
    }

    #[test]
    fn full_disk_is_an_error_for_each_entry() {
        let mut file = RotatingFile::new("/dev/full".into(), 10);
        for _ in 0..3 {
            let error = file.append(b"123456\n").expect_err("it is full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }
}
