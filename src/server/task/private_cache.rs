//! Removes a download that was cut off from the private cache of a server at level `files`, once.
//!
//! The server can replace everything below its private directory by links. So the directory that it names is opened from the private
//! directory on without following links, and removed through that descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use tokio::task::spawn_blocking;

use super::ServerTask;
use crate::config::known_commands::half_written_cache;
use crate::server::lifecycle::State;

/// Last lines of stderr that are read, with the maximum length of one and of all.
const LINES: (usize, usize, usize) = (40, 2 << 10, 32 << 10);

impl ServerTask {
    /// Removes what a start that has just failed reports as incomplete, if it lies in the `private` directory.
    pub(super) async fn clear_private_cache(&mut self, private: Option<PathBuf>) {
        let Some(private) = private else { return };
        if self.last_process.has_cleared_cache()
            || self.runner().is_none()
            || !matches!(self.lifecycle.state(), State::Starting)
        {
            return;
        }
        let (count, longest, most) = LINES;
        let lines = self.last_process.stderr().log().last(count, longest, most);
        let Some(incomplete) = half_written_cache(lines.iter().map(String::as_str)) else { return };
        let removing = spawn_blocking(move || remove_below(&private, &incomplete).map(|()| incomplete));
        if let Ok(Ok(removed)) = self.handling_commands_until(removing).await {
            self.last_process.note_cleared_cache();
            tracing::warn!(server = &*self.config.name, "removed an incomplete download: {}", removed.display());
        }
    }
}

/// Removes `directory`, which must lie in the directory `private`, with no symbolic link in between.
pub(crate) fn remove_below(private: &Path, directory: &Path) -> io::Result<()> {
    let private = private.canonicalize()?;
    let outside = || io::Error::from(io::ErrorKind::PermissionDenied);
    let below = directory.strip_prefix(&private).map_err(|_| outside())?;
    let (parent, name) = below.parent().zip(below.file_name()).ok_or_else(outside)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat2(
        File::open(&private)?,
        parent,
        flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )?;
    fs::remove_dir_all(Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_directories_below_the_private_one_are_removed() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        for directory in ["private/cache/npm/_npx/a/b", "private/cache/npm/_npx/c", "outside/_npx/a"] {
            fs::create_dir_all(path(directory)).expect("a directory");
        }
        symlink(path("outside"), path("private/link")).expect("a link");
        symlink(path("outside"), path("private/cache/npm/_npx/link")).expect("a link");
        let removed =
            |name: &str| remove_below(&path("private"), &path(name).canonicalize().unwrap_or_else(|_| path(name)));
        assert!(removed("private/cache/npm/_npx/a").is_ok() && !path("private/cache/npm/_npx/a").exists());
        assert!(remove_below(&path("private"), &path("private/link/_npx/a")).is_err());
        assert!(remove_below(&path("private"), &path("outside/_npx/a")).is_err());
        assert!(remove_below(&path("private"), &path("private/../outside/_npx/a")).is_err());
        let _ = remove_below(&path("private"), &path("private/cache/npm/_npx/link"));
        assert!(path("outside/_npx/a").exists() && path("private/cache/npm/_npx/c").exists());
    }
}
