//! Has the configuration read again when one of its files changes, if that is wanted: `[daemon] watch = true`.
//!
//! What is watched are the directories in which a name leads to a file, links included, so that a file that an editor puts in
//! the place of another is seen, and one that a link leads to from now on. A change counts when the writing of a file has ended.
//! A file that goes is none, since many editors have it gone for a moment; but one of `config.d` is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::config::default_path;
use crate::config::interpolate::Process;

/// For further changes to come, each time one has: an editor makes several.
const QUIET: Duration = Duration::from_millis(200);
/// For all of them.
const LONGEST: Duration = Duration::from_secs(2);
/// Links that are followed from one name, as by the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// The directory whose files are all read.
const DIRECTORY: &str = "config.d";
/// What is told of a directory.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ONLYDIR);

/// Names in directories.
type Places = BTreeMap<PathBuf, BTreeSet<OsString>>;

/// Asks for a reload whenever one of `files` has changed, or the default file if there are none, for as long as the daemon runs.
pub(super) async fn run(mut files: watch::Receiver<Vec<PathBuf>>, reload: Arc<Notify>) {
    let mut watching: Option<Watching> = None;
    loop {
        let wanted = files.borrow_and_update().clone();
        let known = watching.as_ref().map(|watching| watching.places.clone());
        // Files may be on a disk that has gone away.
        let other = spawn_blocking(move || Queue::unless(known.as_ref(), &wanted)).await;
        let is_first = watching.is_none();
        match other.unwrap_or_else(|error| Err(error.into())).and_then(|other| other.map(Watching::begin).transpose()) {
            Ok(None) => {}
            Ok(Some(other)) => {
                watching = Some(other);
                // What has changed there before it was looked is seen by reading it.
                if !is_first {
                    reload.notify_one();
                }
            }
            Err(error) => return tracing::warn!("cannot watch the configuration: {error}"),
        }
        let Some(watching) = &watching else { return };
        tokio::select! {
            changed = watching.changed() => if let Err(error) = changed {
                return tracing::warn!("the configuration is watched no longer: {error}");
            },
            // What was seen already must not be forgotten for this.
            Ok(()) = files.changed() => {}
        }
        reload.notify_one();
    }
}

/// What the system tells of names in directories.
struct Queue {
    queue: OwnedFd,
    places: Places,
    directories: BTreeMap<i32, PathBuf>,
}

impl Queue {
    /// That of `files`, unless they are in the places that are `known`.
    fn unless(known: Option<&Places>, files: &[PathBuf]) -> io::Result<Option<Self>> {
        let default = if files.is_empty() { default_path(&Process) } else { None };
        let places = places(files.iter().chain(&default));
        if known == Some(&places) {
            return Ok(None);
        }
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // One that has gone has a name in another directory, where it will be seen again.
        let number =
            |directory: &PathBuf| Some((inotify::add_watch(&queue, directory, CHANGES).ok()?, directory.clone()));
        let directories = places.keys().filter_map(number).collect();
        Ok(Some(Self { queue, places, directories }))
    }
}

/// The same, as it is waited for.
struct Watching {
    queue: pipe::Receiver,
    places: Places,
    directories: BTreeMap<i32, PathBuf>,
}

impl Watching {
    fn begin(Queue { queue, places, directories }: Queue) -> io::Result<Self> {
        // It is read like a pipe, and this is the runtime's safe way to wait for a descriptor that is.
        Ok(Self { queue: pipe::Receiver::from_owned_fd_unchecked(queue)?, places, directories })
    }

    /// Waits for a change, and until no other follows.
    async fn changed(&self) -> io::Result<()> {
        while !self.look().await? {}
        let longest = Instant::now() + LONGEST;
        while Instant::now() < longest {
            match timeout_at(longest.min(Instant::now() + QUIET), self.look()).await {
                Ok(look) => drop(look?),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Waits until something happens in the directories. Whether it counts.
    async fn look(&self) -> io::Result<bool> {
        self.queue.readable().await?;
        let (mut counts, mut made) = (false, Vec::new());
        {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.queue, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => match self.weigh(&event) {
                        Weight::Nothing => {}
                        Weight::Counts => counts = true,
                        Weight::IfNoFile(path) => made.push(path),
                    },
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // Too small for anything that has come meanwhile; otherwise the runtime learns that there is nothing to read.
        let _ = self.queue.try_read(&mut [0]);
        let is_no_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|one| !one.is_file());
        let is_link_made = !made.is_empty() && spawn_blocking(move || made.iter().any(is_no_file)).await?;
        Ok(counts || is_link_made)
    }

    fn weigh(&self, event: &Event<'_>) -> Weight {
        let what = event.events();
        if what.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED) {
            return Weight::Counts;
        }
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
        let (Some(directory), Some(name)) = (self.directories.get(&event.wd()), name) else { return Weight::Nothing };
        let is_of_all = directory.ends_with(DIRECTORY) && Path::new(name).extension().is_some_and(|end| end == "toml");
        let is_ours = is_of_all || self.places.get(directory).is_some_and(|names| names.contains(name));
        let goes = what.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE);
        if !is_ours || (goes && !is_of_all) {
            Weight::Nothing
        } else if what.contains(ReadFlags::CREATE) {
            Weight::IfNoFile(directory.join(name))
        } else {
            Weight::Counts
        }
    }
}

/// What there is to an event.
enum Weight {
    Nothing,
    Counts,
    /// It has been made: a file is empty yet, and a link or a directory is whole.
    IfNoFile(PathBuf),
}

/// Where each of `files` is found, by way of every link, and which directory beside it is read whole.
fn places<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Places {
    let mut all = Places::new();
    for file in files {
        follow(file, &mut all, MOST_LINKS);
        let directory = file.with_file_name(DIRECTORY);
        if directory.is_dir() {
            all.entry(directory).or_default();
        }
    }
    all
}

fn follow(path: &Path, all: &mut Places, links: usize) {
    let Ok(path) = std::path::absolute(path) else { return };
    let mut at = PathBuf::new();
    let mut components = path.components();
    while let Some(component) = components.next() {
        let directory = at.clone();
        at.push(component);
        let Component::Normal(name) = component else { continue };
        let target = std::fs::read_link(&at);
        let is_last = components.as_path().as_os_str().is_empty();
        if is_last || target.is_ok() || !at.exists() {
            all.entry(directory.clone()).or_default().insert(name.to_owned());
        }
        match target {
            Ok(target) if links > 0 => {
                return follow(&directory.join(target).join(components.as_path()), all, links - 1);
            }
            _ if !at.exists() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_found_where_every_link_on_the_way_to_it_is() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path().canonicalize().expect("it is there");
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("real/deep")).expect("its own");
        fs::write(at("real/deep/file"), "").expect("its own");
        symlink("real", at("now")).expect("its own");
        symlink("../now/deep/file", at("real/link")).expect("its own");
        let found = |path: &str| -> Vec<(String, Vec<String>)> {
            let text = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
            let names = |names: &BTreeSet<OsString>| names.iter().map(|name| name.display().to_string()).collect();
            places([at(path)].iter()).iter().map(|(directory, all)| (text(directory), names(all))).collect()
        };
        let expect = |path: &str, expected: &[(&str, &[&str])]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|(directory, names)| {
                    ((*directory).to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(found(path), expected, "{path}");
        };
        expect("real/deep/file", &[("real/deep", &["file"])]);
        expect("now/deep/file", &[("", &["now"]), ("real/deep", &["file"])]);
        expect("real/link", &[("real", &["link"]), ("real/..", &["now"]), ("real/../real/deep", &["file"])]);
        expect("no/such/file", &[("", &["no"])]);
        symlink("loop", at("loop")).expect("its own");
        expect("loop", &[("", &["loop"])]);
    }
}
