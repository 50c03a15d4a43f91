//! The file of calls, written by a thread of its own: a disk that is slow or full is nobody else's business.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Entry;
use super::report::CallReport;
use crate::printable;

/// Entries that wait to be written; further ones are not written, and counted.
const PLACES: usize = 4096;
/// After a batch, so that the next one is also more than one entry: waking the thread costs more than an entry.
const REST: Duration = Duration::from_millis(10);
/// Between two complaints.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);
/// For the last entries when the daemon stops; a disk that takes longer keeps what it has.
const LAST_ENTRIES: Duration = Duration::from_millis(500);

/// The way to the thread.
pub(super) struct FileWriter {
    entries: mpsc::SyncSender<Arc<Entry>>,
    finished: oneshot::Receiver<()>,
    unwritten: Arc<AtomicU64>,
}

/// Starts the thread. Without one there is no file, which is said.
pub(super) fn start(path: PathBuf, max_bytes: usize) -> Option<FileWriter> {
    let (entries, received) = mpsc::sync_channel(PLACES);
    let (finish, finished) = oneshot::channel();
    let unwritten = Arc::new(AtomicU64::new(0));
    let lost = Arc::clone(&unwritten);
    let run = move || {
        write_all(&received, &mut Rotated::new(path, max_bytes as u64), &lost);
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
            self.miss(1);
        }
    }

    /// Notes that `count` entries never come.
    pub(super) fn miss(&self, count: u64) {
        self.unwritten.fetch_add(count, Ordering::Relaxed);
    }

    /// Entries that are missing in the file.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, for a bounded time.
    pub(super) async fn finish(self) {
        let Self { entries, finished, unwritten: _ } = self;
        drop(entries);
        let _ = tokio::time::timeout(LAST_ENTRIES, finished).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread moves no agent's data")]
fn write_all(entries: &mpsc::Receiver<Arc<Entry>>, file: &mut Rotated, unwritten: &AtomicU64) {
    let mut complained: Option<Instant> = None;
    while let Ok(first) = entries.recv() {
        file.notice_removal();
        for entry in std::iter::once(first).chain(entries.try_iter()) {
            let Err(error) = write_one(file, &entry) else { continue };
            unwritten.fetch_add(1, Ordering::Relaxed);
            if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_AGAIN) {
                complained = Some(Instant::now());
                tracing::warn!("calls are not written to {}: {error}", file.path.display());
            }
        }
        std::thread::sleep(REST);
    }
}

fn write_one(file: &mut Rotated, entry: &Entry) -> io::Result<()> {
    let line = serde_json::to_string(&CallReport::from(entry))?;
    file.append(format!("{}\n", printable::json(&line)).as_bytes())
}

/// A file that becomes `.1` instead of growing beyond its size.
struct Rotated {
    path: PathBuf,
    max_bytes: u64,
    /// Once it could be opened.
    open: Option<Opened>,
}

struct Opened {
    file: File,
    length: u64,
    /// A device has no length, and is never renamed.
    is_regular: bool,
}

impl Rotated {
    fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self { path, max_bytes, open: None }
    }

    /// Begins anew if somebody has removed the file: what is written to one without a name is lost.
    fn notice_removal(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.file.metadata().is_ok_and(|found| found.nlink() == 0)) {
            self.open = None;
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.is_full(line.len() as u64, self.max_bytes)) {
            fs::rename(&self.path, generation(&self.path))?;
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(Opened::new(&self.path)?),
        };
        open.append(line)
    }
}

impl Opened {
    fn new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        if found.is_file() {
            // One that was there before may be open to others.
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
            // Half a line would spoil the next one too.
            Err(_) if self.is_regular => drop(self.file.set_len(self.length)),
            Err(_) => {}
        }
        written
    }
}

fn generation(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_renamed_before_it_grows_too_large_and_one_generation_stays() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("calls.jsonl");
        fs::write(&path, "old\n").expect("writable");
        let mut file = Rotated::new(path.clone(), 10);
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
    fn it_is_made_anew_after_somebody_removed_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("calls.jsonl");
        let mut file = Rotated::new(path.clone(), 100);
        for line in ["1\n", "2\n"] {
            file.notice_removal();
            file.append(line.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("there"), line);
            fs::remove_file(&path).expect("there");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_no_more() {
        let mut file = Rotated::new("/dev/full".into(), 10);
        for _ in 0..3 {
            let error = file.append(b"123456\n").expect_err("it is full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }
}
