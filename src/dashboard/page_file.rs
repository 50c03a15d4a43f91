//! The file `dashboard` in the runtime directory: the process that serves the page, its address and its token. The process holds a lock
//! on the file, and removes it when it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::sockets::RuntimeDir;

const NAME: &str = "dashboard";
/// Maximum number of bytes read.
const MAX: u64 = 4 << 10;

/// A page that is served.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ServedPage {
    pub(crate) pid: u32,
    pub(crate) address: SocketAddr,
    /// The value of the cookie.
    pub(super) token: String,
}

impl ServedPage {
    /// What a browser of this user opens.
    pub(crate) fn bare_address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// What any browser opens whose process mcpd cannot see, for example behind `ssh -L`. It is secret.
    pub(crate) fn address_with_key(&self) -> String {
        format!("http://{}/?key={}", self.address, self.token)
    }
}

/// The file, while this process holds its lock.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: File,
    path: PathBuf,
}

impl PageFile {
    /// Takes the lock; `None` if another process has it.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn lock(directory: &RuntimeDir) -> io::Result<Option<Self>> {
        let path = directory.socket(NAME);
        loop {
            // Whatever else is there must neither block nor be written.
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true).mode(0o600).custom_flags(flags);
            let file = options.open(&path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Its last owner may have removed it in between.
            if is_at(&file, &path) {
                return Ok(Some(Self { file, path }));
            }
        }
    }

    /// Writes what [`PageFile::served`] reads.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn publish(&mut self, page: &ServedPage) -> io::Result<()> {
        let text = serde_json::to_string(page)? + "\n";
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }

    /// Whether others find it.
    pub(super) fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Removes it, unless it is another process's by now.
    pub(super) fn remove(self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// The page that is served for the daemon in `directory`. `None` if there is none, or if it is just being started.
    pub(crate) fn served(directory: &RuntimeDir) -> Option<ServedPage> {
        let file = File::open(directory.socket(NAME)).ok()?;
        // Without an owner, it is what a killed process has left.
        if file.try_lock_shared().is_ok() {
            return None;
        }
        let mut text = String::new();
        file.take(MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    file.metadata().map(identity).ok().is_some_and(|own| fs::metadata(path).map(identity).ok() == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_known_as_long_as_its_process_holds_the_lock() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it was given");
        assert!(PageFile::served(&directory).is_none());
        let mut file = PageFile::lock(&directory).expect("writable").expect("nobody else's");
        assert!(PageFile::served(&directory).is_none(), "it is not published yet");
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        file.publish(&ServedPage { pid: 3, address, token: "t".to_owned() }).expect("writable");
        assert!(PageFile::lock(&directory).expect("writable").is_none());
        let found = PageFile::served(&directory).expect("it is published");
        assert_eq!((found.pid, &*found.bare_address()), (3, "http://127.0.0.1:7/"));
        assert_eq!(found.address_with_key(), "http://127.0.0.1:7/?key=t");

        // Killed: the file stays, without a lock.
        drop(file);
        assert!(PageFile::served(&directory).is_none());
        PageFile::lock(&directory).expect("writable").expect("nobody else's").remove();
        assert!(!directory.socket(NAME).exists());
    }
}
