//! Records of links: one file for each file of a client, readable by this user only. It has the client's file as it was, which may contain
//! secrets.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::client_files::Removed;
use crate::config::clients::Client;
use crate::config::interpolate::{Process, Sources};
use crate::disk::replace_private;
use crate::known_clients::MAX_FILE;
use crate::sha256;

/// Raised when the format of a record changes.
const VERSION: u32 = 1;
/// Characters of a digest in the name of a record.
const NAME_DIGEST: usize = 16;
const LOCK: &str = "lock";
/// A record has the client's file, whose quotes are escaped, and parts of it.
const MAX_RECORD: u64 = 4 * MAX_FILE;

/// Where a client uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// For all projects of the user.
    User,
    /// In the directory of one project.
    Project,
}

/// The daemon and the profile to which the entries lead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) profile: String,
    pub(crate) runtime_directory: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
}

/// An entry of mcpd.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Inserted {
    pub(super) name: String,
    /// The source text of its value.
    pub(super) text: String,
    /// The entry that had the name before.
    pub(super) replaced: Option<Removed>,
}

/// How to undo the link in one file.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LinkRecord {
    version: u32,
    /// The client's word.
    pub(crate) client: String,
    pub(crate) scope: Scope,
    /// The path as the client has it.
    pub(crate) file: PathBuf,
    /// The path with symbolic links resolved.
    pub(super) target: PathBuf,
    /// The text without the link; `None` for a file that the link made.
    pub(super) before: Option<String>,
    /// The directories that the link made, the outermost one first.
    pub(super) directories: Vec<PathBuf>,
    /// The file when this link was about to be written, and when it was.
    pub(super) states: [Digest; 2],
    pub(super) inserted: Vec<Inserted>,
    /// Servers that were taken over, in the order of their removal.
    pub(super) removed: Vec<Removed>,
    pub(crate) served: Served,
}

/// SHA-256 of a text in hexadecimal; empty for a missing file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn of(text: Option<&str>) -> Self {
        Self(text.map(sha256::hexadecimal).unwrap_or_default())
    }
}

impl LinkRecord {
    pub(super) fn new(client: &str, scope: Scope, file: &Path, target: &Path, served: Served) -> Self {
        Self {
            version: VERSION,
            client: client.to_owned(),
            scope,
            file: file.to_owned(),
            target: target.to_owned(),
            before: None,
            directories: Vec::new(),
            states: [Digest::of(None), Digest::of(None)],
            inserted: Vec::new(),
            removed: Vec::new(),
            served,
        }
    }

    /// Whether the file has a state in which nobody but mcpd has changed it.
    pub(super) fn is_untouched(&self, text: Option<&str>) -> bool {
        let now = Digest::of(text);
        self.states.contains(&now) || Digest::of(self.before.as_deref()) == now
    }

    /// Whether both are of one link.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.file, &self.states, self.names()) == (&other.file, &other.states, other.names())
    }

    /// The names of mcpd's entries.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.inserted.iter().map(|inserted| inserted.name.as_str()).collect()
    }

    fn file_name(client: &str, target: &Path) -> String {
        let Digest(digest) = Digest::of(Some(&target.to_string_lossy()));
        format!("{client}-{}.json", &digest[..NAME_DIGEST])
    }
}

/// Why records cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("there is no place for the records of links: neither XDG_STATE_HOME nor HOME is set")]
    NoDirectory,
    #[error("the record of a link cannot be read: {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the record of a link cannot be written: {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A file among the records that is none, or none of this version.
#[derive(Debug)]
pub(crate) struct UnreadableRecord {
    /// The word of its client, by its name.
    pub(crate) client: Option<&'static Client>,
    pub(crate) path: PathBuf,
    pub(crate) error: RecordError,
}

/// The directory of records: `$XDG_STATE_HOME/mcpd/links`, else in `~/.local/state`.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    directory: PathBuf,
}

/// Exclusive access to the records, and so to the clients' files, while it lives.
pub(super) struct LinksLock<'a> {
    links: &'a Links,
    _lock: File,
}

impl Links {
    /// # Errors
    /// If the environment names no place for state.
    pub(crate) fn of(sources: &dyn Sources) -> Result<Self, RecordError> {
        let state = sources.state_home().ok_or(RecordError::NoDirectory)?;
        Ok(Self { directory: state.join("mcpd/links") })
    }

    /// All records, ordered by client and file, and what prevents others from being read: one of them does not affect the rest.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn all(&self) -> Result<(Vec<LinkRecord>, Vec<UnreadableRecord>), RecordError> {
        let failed = |source| RecordError::Read { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            entries => entries.map_err(failed)?,
        };
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match read(&path) {
                    Ok(record) => records.extend(record),
                    Err(error) => unreadable.push(UnreadableRecord { client: client_of(&path), path, error }),
                }
            }
        }
        records.sort_by(|one, other| (&one.client, &one.file).cmp(&(&other.client, &other.file)));
        Ok((records, unreadable))
    }

    /// The record of the link of `client` in the file with the resolved path `target`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn get(&self, client: &str, target: &Path) -> Result<Option<LinkRecord>, RecordError> {
        read(&self.directory.join(LinkRecord::file_name(client, target)))
    }

    /// Waits for exclusive access: other commands hold it only while they write.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub(super) fn lock(&self) -> Result<LinksLock<'_>, RecordError> {
        let locked = loop {
            let file = self.open_lock().map_err(|source| self.write_error(source))?;
            flock(&file, FlockOperation::LockExclusive).map_err(|errno| self.write_error(errno.into()))?;
            // The last unlink removes the directory, and with it the lock that others wait for.
            if self.is_lock(&file) {
                break file;
            }
        };
        Ok(LinksLock { links: self, _lock: locked })
    }

    fn open_lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut options = OpenOptions::new();
        // Another kind of file must not block.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        options.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags);
        options.open(self.directory.join(LOCK))
    }

    fn is_lock(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        let there = fs::metadata(self.directory.join(LOCK)).ok().map(id);
        there.is_some() && there == file.metadata().ok().map(id)
    }

    fn write_error(&self, source: io::Error) -> RecordError {
        RecordError::Write { path: self.directory.clone(), source }
    }
}

impl LinksLock<'_> {
    pub(super) fn write(&self, record: &LinkRecord) -> Result<(), RecordError> {
        let path = self.path(record);
        let written = serde_json::to_vec_pretty(record).map_err(io::Error::from);
        let written = written.and_then(|bytes| replace_private(&path, &bytes));
        written.map_err(|source| RecordError::Write { path, source })
    }

    /// Removes a record, and the directory if it was the last one.
    pub(super) fn remove(&self, record: &LinkRecord) -> Result<(), RecordError> {
        let path = self.path(record);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(RecordError::Write { path, source }),
            _ => {
                self.remove_empty();
                Ok(())
            }
        }
    }

    fn path(&self, record: &LinkRecord) -> PathBuf {
        self.links.directory.join(LinkRecord::file_name(&record.client, &record.target))
    }

    /// Removes what is left of a directory without records. Each step succeeds only then.
    fn remove_empty(&self) {
        let directory = &self.links.directory;
        let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
        if names.into_iter().all(|name| name == LOCK) {
            let _ = fs::remove_file(directory.join(LOCK));
            let _ = fs::remove_dir(directory);
        }
    }
}

fn read(path: &Path) -> Result<Option<LinkRecord>, RecordError> {
    let failed = |source| RecordError::Read { path: path.to_owned(), source };
    let text = match Process.read(path, MAX_RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(failed)?,
    };
    // The parser's error text may contain a secret from the file.
    let unknown = || failed(io::Error::new(io::ErrorKind::InvalidData, "it was not written by this version of mcpd"));
    let record: LinkRecord = serde_json::from_str(&text).map_err(|_| unknown())?;
    if record.version == VERSION { Ok(Some(record)) } else { Err(unknown()) }
}

/// The client of the record at `path`.
fn client_of(path: &Path) -> Option<&'static Client> {
    let (client, _) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    Client::named(client)
}
