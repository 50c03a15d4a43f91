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

/// Asks for a reload whenever one of `files` has changed, or one of the default files if they are wanted, for as long as the
/// daemon runs.
pub(super) async fn run(mut files: watch::Receiver<Vec<PathBuf>>, defaults: bool, reload: Arc<Notify>) {
    let mut watching: Option<Watching> = None;
    let mut has_changed = false;
    loop {
        let configured = files.borrow_and_update().clone();
        let known = watching.as_ref().filter(|watching| !watching.is_lost).map(|watching| watching.paths.clone());
        // Files may be on a disk that has gone away.
        let other = spawn_blocking(move || Queue::unless(known.as_ref(), &configured, defaults)).await;
        match other.unwrap_or_else(|error| Err(error.into())).and_then(|other| other.map(Watching::begin).transpose()) {
            Ok(None) => {}
            Ok(Some(other)) => {
                // What has changed there before it was looked is seen by reading it.
                has_changed |= watching.is_some();
                watching = Some(other);
            }
            Err(error) => return tracing::warn!("cannot watch the configuration: {error}"),
        }
        // Only now, so that what changes while it is read is seen as well.
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
        // What was seen already must not be forgotten for other files.
        has_changed = watching.has_changed;
    }
}

/// What the system tells of names in directories.
struct Queue {
    queue: OwnedFd,
    paths: WatchPaths,
    /// By several names, where links lead to one.
    directories: BTreeMap<i32, Vec<PathBuf>>,
}

impl Queue {
    /// That of `files`, unless they are in the places that are `known`.
    fn unless(known: Option<&WatchPaths>, files: &[PathBuf], defaults: bool) -> io::Result<Option<Self>> {
        let paths = WatchPaths::of(files, defaults);
        if known == Some(&paths) {
            return Ok(None);
        }
        let mut made = Self::of(paths)?;
        for _ in 1..MAX_ATTEMPTS {
            // A directory that comes before its name is watched is in another place by now.
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
        // One that has gone has a name in another directory, where it will be seen again.
        let mut directories: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for directory in paths.directories() {
            if let Ok(number) = inotify::add_watch(&queue, directory, CHANGES) {
                directories.entry(number).or_default().push(directory.clone());
            }
        }
        Ok(Self { queue, paths, directories })
    }
}

/// The same, as it is waited for.
struct Watching {
    queue: pipe::Receiver,
    paths: WatchPaths,
    /// By several names, where links lead to one.
    directories: BTreeMap<i32, Vec<PathBuf>>,
    /// Something that counts was seen.
    has_changed: bool,
    /// What has been made and was not looked at yet.
    made: Vec<PathBuf>,
    /// The queue has to be made anew.
    is_lost: bool,
}

impl Watching {
    fn begin(Queue { queue, paths, directories }: Queue) -> io::Result<Self> {
        // It is read like a pipe, and this is the runtime's safe way to wait for a descriptor that is.
        let queue = pipe::Receiver::from_owned_fd_unchecked(queue)?;
        Ok(Self { queue, paths, directories, has_changed: false, made: Vec::new(), is_lost: false })
    }

    /// Waits for a change, and until no other follows.
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

    /// Waits until something happens in the directories. May be cancelled without loss.
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
        // Too small for anything that has come meanwhile; otherwise the runtime learns that there is nothing to read.
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

/// What there is to an event.
enum EventRelevance {
    Nothing,
    Counts,
    /// It counts, and there is another directory in the place of one, or none.
    Lost,
    /// It has been made: a file is empty yet, and a link or a directory is whole.
    IfNoFile(PathBuf),
}
