//! Reloads the configuration when one of its files changes, if `[daemon] watch = true`.
//!
//! - It watches every directory that contains a file or a link on the path to it. So it sees replaced files and changed links.
//! - A written file counts as changed when its writer closes it.
//! - A removed file does not count, because many editors remove a file for a moment. In `config.d` it does count.

mod watch_paths;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use self::watch_paths::WatchPaths;

/// Wait for further changes after each change, because editors make several.
const QUIET: Duration = Duration::from_millis(200);
/// Maximum wait for further changes.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Attempts to set up the watches while the directories change.
const MAX_ATTEMPTS: usize = 8;
/// Events to receive for a directory.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);
/// Events that mean that a directory has moved or that events were lost.
const LOST: ReadFlags = ReadFlags::QUEUE_OVERFLOW
    .union(ReadFlags::IGNORED)
    .union(ReadFlags::UNMOUNT)
    .union(ReadFlags::MOVE_SELF)
    .union(ReadFlags::DELETE_SELF);

/// Requests a reload after each change of one of `files`; with `defaults`, also of the default files. Runs as long as the daemon.
pub(super) async fn run(mut files: watch::Receiver<Vec<PathBuf>>, defaults: bool, reload: Arc<Notify>) {
    let mut watching: Option<Watching> = None;
    let mut has_changed = false;
    loop {
        let configured = files.borrow_and_update().clone();
        let known = watching.as_ref().filter(|watching| !watching.is_lost).map(|watching| watching.paths.clone());
        // Looking up files may block, for example on a network disk that does not answer.
        let other = spawn_blocking(move || Queue::unless(known.as_ref(), &configured, defaults)).await;
        match other.unwrap_or_else(|error| Err(error.into())).and_then(|other| other.map(Watching::begin).transpose()) {
            Ok(None) => {}
            Ok(Some(other)) => {
                // Changes before these watches were set up are found by reading the files.
                has_changed |= watching.is_some();
                watching = Some(other);
            }
            Err(error) => return tracing::warn!("cannot watch the configuration: {error}"),
        }
        // After the watches are set up, so that changes during the reload are noticed as well.
        if has_changed {
            reload.notify_one();
        }
        let Some(watching) = &mut watching else { return };
        watching.has_changed = false;
        tokio::select! {
            changed = watching.changed() => if let Err(error) = changed {
                return tracing::warn!("the configuration is watched no longer: {error}");
            },
            Ok(()) = files.changed() => {}
        }
        // A change that was noticed before the list of files changed still needs a reload.
        has_changed = watching.has_changed;
    }
}

/// An inotify queue with watches on all directories of the configuration files.
struct Queue {
    queue: OwnedFd,
    paths: WatchPaths,
    /// The paths of each watched directory, by watch number. Links may give a directory several paths.
    directories: BTreeMap<i32, Vec<PathBuf>>,
}

impl Queue {
    /// A new queue for `files`; `None` if their paths are those of `known`.
    fn unless(known: Option<&WatchPaths>, files: &[PathBuf], defaults: bool) -> io::Result<Option<Self>> {
        let paths = WatchPaths::of(files, defaults);
        if known == Some(&paths) {
            return Ok(None);
        }
        let mut made = Self::of(paths)?;
        for _ in 1..MAX_ATTEMPTS {
            // A directory may have been replaced between the lookup and the watch.
            let paths = WatchPaths::of(files, defaults);
            if made.paths == paths {
                break;
            }
            made = Self::of(paths)?;
        }
        Ok(Some(made))
    }

    fn of(paths: WatchPaths) -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // A directory that no longer exists cannot be watched. Its parent is watched, and reports when it appears again.
        let mut directories: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for directory in paths.directories() {
            if let Ok(number) = inotify::add_watch(&queue, directory, CHANGES) {
                directories.entry(number).or_default().push(directory.clone());
            }
        }
        Ok(Self { queue, paths, directories })
    }
}

/// A queue in use: it waits for changes.
struct Watching {
    queue: pipe::Receiver,
    paths: WatchPaths,
    /// The paths of each watched directory, by watch number. Links may give a directory several paths.
    directories: BTreeMap<i32, Vec<PathBuf>>,
    /// A relevant change was noticed.
    has_changed: bool,
    /// Created paths that were not examined yet.
    made: Vec<PathBuf>,
    /// Events were lost or a directory has moved, so the queue has to be set up again.
    is_lost: bool,
}

impl Watching {
    fn begin(Queue { queue, paths, directories }: Queue) -> io::Result<Self> {
        // An inotify descriptor is read like a pipe, and tokio waits for pipes without `unsafe`.
        let queue = pipe::Receiver::from_owned_fd_unchecked(queue)?;
        Ok(Self { queue, paths, directories, has_changed: false, made: Vec::new(), is_lost: false })
    }

    /// Waits for a change, and then until no further change follows.
    async fn changed(&mut self) -> io::Result<()> {
        while !self.has_changed {
            self.look().await?;
        }
        let longest = Instant::now() + MAX_WAIT;
        while Instant::now() < longest {
            match timeout_at(longest.min(Instant::now() + QUIET), self.look()).await {
                Ok(look) => look?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Waits for events in the directories and processes them. Cancel safe.
    async fn look(&mut self) -> io::Result<()> {
        if self.made.is_empty() {
            self.queue.readable().await?;
            self.read()?;
        }
        if !self.has_changed && !self.made.is_empty() {
            let made = self.made.clone();
            let is_no_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|one| !one.is_file());
            self.has_changed = spawn_blocking(move || made.iter().any(is_no_file)).await?;
        }
        self.made.clear();
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.queue, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => match self.relevance(&event) {
                        EventRelevance::Nothing => {}
                        EventRelevance::Counts => self.has_changed = true,
                        EventRelevance::Lost => (self.has_changed, self.is_lost) = (true, true),
                        EventRelevance::IfNoFile(path) => self.made.push(path),
                    },
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // Clears tokio's readiness. A buffer of one byte is too small for an event, so this reads none.
        let _ = self.queue.try_read(&mut [0]);
        Ok(())
    }

    fn relevance(&self, event: &Event<'_>) -> EventRelevance {
        let what = event.events();
        if what.intersects(LOST) {
            return EventRelevance::Lost;
        }
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
        let (Some(directories), Some(name)) = (self.directories.get(&event.wd()), name) else {
            return EventRelevance::Nothing;
        };
        let is_one_of_many = directories.iter().any(|directory| self.paths.have_among_many(directory, name));
        let is_ours = || directories.iter().any(|directory| self.paths.have(directory, name));
        let goes = what.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE);
        if !is_one_of_many && (goes || !is_ours()) {
            EventRelevance::Nothing
        } else if what.contains(ReadFlags::CREATE) {
            directories
                .first()
                .map_or(EventRelevance::Nothing, |directory| EventRelevance::IfNoFile(directory.join(name)))
        } else {
            EventRelevance::Counts
        }
    }
}

/// The effect of an event.
enum EventRelevance {
    Nothing,
    Counts,
    /// A change, after which the watches have to be set up again.
    Lost,
    /// The path was created. A link or directory is complete, so it counts; a file is still empty, so it does not.
    IfNoFile(PathBuf),
}
