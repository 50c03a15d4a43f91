//! Work on files that a dead disk may hold up for ever.
//!
//! It gets few of the threads that there are for work that blocks, so that a large message always finds one. Whoever waits for such
//! work gives up after a time; the thread goes on for as long as the disk takes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Threads that may wait for a disk at once.
const THREADS: usize = 2;
/// How long the work of one caller may take, waiting for a thread included.
const LIMIT: Duration = Duration::from_secs(5);

/// The mode bits that let others change a file, or create files in a directory.
pub(crate) const WRITABLE_BY_OTHERS: u32 = 0o022;

static DISK: Disk = Disk::new(THREADS, LIMIT);

/// The disk did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk does not answer")]
pub(crate) struct DiskTimeout;

struct Disk {
    threads: Semaphore,
    limit: Duration,
}

/// Does this on a thread that may block.
///
/// # Errors
/// If it takes longer than 5 s, or panics.
pub(crate) async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, DiskTimeout> {
    DISK.run(work).await
}

/// Writes a file that only its owner may read, as a whole or not at all: after a power cut it is the former one or this.
///
/// # Errors
/// If that is impossible.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written_beside(path, bytes)?.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// As [`replace_private`], for a new file.
///
/// # Errors
/// If that is impossible, or there is one.
pub(crate) fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written_beside(path, bytes)?.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether [`create_private`] can create this file now.
///
/// # Errors
/// If it cannot.
pub(crate) fn can_create(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(io::Error::from(Errno::EXIST)),
        Err(_) => written_beside(path, &[]).map(drop),
    }
}

/// A file with another name in the same directory.
fn written_beside(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    // It is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Opens a file with these options, and creates it for its owner alone. Where others can create files, it must be no link and belong to
/// this user: they could have put it there.
///
/// # Errors
/// If it cannot be opened, or is not this user's.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let own = geteuid().as_raw();
    let directory = fs::metadata(std::path::absolute(path)?.parent().unwrap_or(Path::new("/")))?;
    let is_shared = ![0, own].contains(&directory.uid()) || directory.mode() & WRITABLE_BY_OTHERS != 0;
    let flags = if is_shared { OFlags::NOFOLLOW } else { OFlags::empty() };
    let opened = options.create(true).mode(0o600).custom_flags(flags.bits().cast_signed()).open(path);
    let refused = |what: &str| {
        let text = format!("it is {what}, in a directory where other users can create files");
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    match opened {
        Err(error) if is_shared && Errno::from_io_error(&error) == Some(Errno::LOOP) => Err(refused("a link")),
        Ok(file) if is_shared && file.metadata().is_ok_and(|found| found.is_file() && found.uid() != own) => {
            Err(refused("another user's"))
        }
        opened => opened,
    }
}

impl Disk {
    const fn new(threads: usize, limit: Duration) -> Self {
        Self { threads: Semaphore::const_new(threads), limit }
    }

    async fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskTimeout> {
        let done = async {
            let thread = self.threads.acquire().await.ok()?;
            let work = move || {
                let done = work();
                drop(thread);
                done
            };
            spawn_blocking(work).await.ok()
        };
        timeout(self.limit, done).await.ok().flatten().ok_or(DiskTimeout)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn a_dead_disk_leaves_threads_for_other_work() {
        static DEAD: Disk = Disk::new(THREADS, Duration::from_millis(50));
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().max_blocking_threads(THREADS + 1).build().expect("a runtime");
        runtime.block_on(async {
            let hang = |_| {
                let (repair, repaired) = mpsc::sync_channel::<()>(0);
                (repair, DEAD.run(move || repaired.recv().is_err()))
            };
            let (repairs, hangs): (Vec<_>, Vec<_>) = (0..10).map(hang).unzip();
            assert!(join_all(hangs).await.iter().all(|done| *done == Err(DiskTimeout)));
            assert_eq!(spawn_blocking(|| 7).await.ok(), Some(7), "a large message is parsed");
            drop(repairs);
            let works = async { while DEAD.run(|| 8).await != Ok(8) {} };
            timeout(Duration::from_secs(60), works).await.expect("it works again");
        });
    }
}
