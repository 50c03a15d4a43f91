//! Pin files: for each configuration a directory, and in it two files for each server.
//!
//! `NAME.json` has what the operator has approved, and `NAME.seen.json` when changes of it were first seen. All functions may block, and
//! belong on another thread ([`crate::disk::on_disk`]).

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::disk::{WRITABLE_BY_OTHERS, replace_private};
use crate::pins::{PinRecord, PinRecordError, SeenChanges};
use crate::sha256;

/// Largest file that is read or written: a few times what the lists of a server may have.
const MAX_FILE: u64 = 64 << 20;
/// Characters of a digest in the name of a directory.
const NAME_DIGEST: usize = 16;

/// The pin files of one configuration: `$XDG_STATE_HOME/mcpd/pins/CONFIG`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PinDirectory(PathBuf);

/// Why a pin file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PinFileError {
    /// Neither this file nor the directory is replaced.
    #[error("it cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it belongs to another user")]
    Foreign,
    #[error("other users may write to it, or to its directory")]
    WritableByOthers,
    #[error("it is too large")]
    TooLarge,
    #[error("{0}")]
    Malformed(#[from] PinRecordError),
    #[error("it was written for another server")]
    OtherServer,
    #[error("it cannot be written: {0}")]
    Unwritable(io::ErrorKind),
}

impl PinFileError {
    /// The word for it in reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::NotRegular => "not_regular",
            Self::Foreign => "foreign",
            Self::WritableByOthers => "writable_by_others",
            Self::TooLarge => "too_large",
            Self::Malformed(_) => "malformed",
            Self::OtherServer => "other_server",
            Self::Unwritable(_) => "unwritable",
        }
    }
}

impl PinDirectory {
    /// The directory of pin files itself. It need not exist yet.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory for a configuration file, or for that in the default place.
    pub(crate) fn of(state_home: &Path, configuration: Option<&Path>) -> Self {
        let digest = |path: &Path| {
            let digest = sha256::hexadecimal(path.as_os_str().as_encoded_bytes());
            digest[..NAME_DIGEST].to_owned()
        };
        let name = configuration.map_or_else(|| "default".to_owned(), digest);
        Self(state_home.join("mcpd/pins").join(name))
    }

    /// The pin file of a server.
    pub(crate) fn file(&self, server: &str) -> PathBuf {
        self.0.join(format!("{server}.json"))
    }

    fn seen_file(&self, server: &str) -> PathBuf {
        self.0.join(format!("{server}.seen.json"))
    }

    /// What is approved of a server. `None` if it has no pin file.
    pub(crate) fn load(&self, server: &str) -> Result<Option<PinRecord>, PinFileError> {
        let Some(text) = self.read(&self.file(server))? else { return Ok(None) };
        record(&text, server).map(Some)
    }

    /// Writes what is approved of a server, as a whole or not at all. A present file that cannot be used is not replaced.
    pub(crate) fn store(&self, server: &str, record: &PinRecord) -> Result<(), PinFileError> {
        let (path, text) = (self.file(server), record.to_text());
        let present = self.read(&path)?;
        if present.as_deref() == Some(text.as_bytes()) {
            return Ok(());
        }
        present.map(|present| self::record(&present, server)).transpose()?;
        self.write(&path, &text)
    }

    /// When the changes of a server were first seen. Nothing, if that cannot be read.
    pub(crate) fn load_seen(&self, server: &str) -> SeenChanges {
        let text = self.read(&self.seen_file(server)).ok().flatten();
        let text = text.and_then(|text| String::from_utf8(text).ok());
        text.and_then(|text| SeenChanges::parse(&text)).unwrap_or_default()
    }

    /// Writes when the changes of a server were first seen. An empty record removes the file.
    pub(crate) fn store_seen(&self, server: &str, seen: &SeenChanges) -> Result<(), PinFileError> {
        let (path, text) = (self.seen_file(server), seen.to_text());
        if seen.is_empty() {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PinFileError::Unwritable(error.kind())),
                _ => Ok(()),
            };
        }
        match self.read(&path) {
            Ok(Some(present)) if present == text.as_bytes() => Ok(()),
            _ => self.write(&path, &text),
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), PinFileError> {
        if text.len() as u64 > MAX_FILE {
            return Err(PinFileError::TooLarge);
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.and_then(|()| replace_private(path, text.as_bytes()))
            .map_err(|error| PinFileError::Unwritable(error.kind()))
    }

    /// The content of a file in the directory, through the descriptors that are checked. `None` if there is none.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, PinFileError> {
        let Some(directory) = open(CWD, &self.0, OFlags::DIRECTORY)? else { return Ok(None) };
        check(&directory)?;
        let Some(name) = path.file_name() else { return Ok(None) };
        // Another kind of file must not block.
        let Some(file) = open(&directory, Path::new(name), OFlags::NOFOLLOW | OFlags::NONBLOCK)? else {
            return Ok(None);
        };
        let found = check(&file)?;
        if !found.is_file() {
            return Err(PinFileError::NotRegular);
        }
        let mut text = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE { Err(PinFileError::TooLarge) } else { Ok(Some(text)) }
    }
}

fn record(text: &[u8], server: &str) -> Result<PinRecord, PinFileError> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let line = text[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        PinRecordError::Syntax { line }
    })?;
    let record = PinRecord::parse(text)?;
    if record.server() == server { Ok(record) } else { Err(PinFileError::OtherServer) }
}

fn open(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<Option<File>, PinFileError> {
    match openat(directory, path, flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()) {
        Ok(opened) => Ok(Some(opened.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => Err(PinFileError::NotRegular),
        // A socket, or a device without a driver.
        Err(Errno::NXIO | Errno::NODEV) => Err(PinFileError::NotRegular),
        Err(errno) => Err(unreadable(errno.into())),
    }
}

/// Refuses what another user could change.
fn check(opened: &File) -> Result<Metadata, PinFileError> {
    let found = opened.metadata().map_err(unreadable)?;
    if found.uid() != geteuid().as_raw() {
        return Err(PinFileError::Foreign);
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(PinFileError::WritableByOthers);
    }
    Ok(found)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: io::Error) -> PinFileError {
    PinFileError::Unreadable(error.kind())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    use rustix::fs::{FileType, mknodat};
    use tempfile::TempDir;

    use super::*;
    use crate::pins::{Digest, PinnedKind};

    const SERVER: &str = "files";

    fn directory() -> (TempDir, PinDirectory) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = PinDirectory::of(place.path(), None);
        (place, directory)
    }

    fn record(json: &str) -> PinRecord {
        let mut record = PinRecord::new(SERVER);
        record.insert(PinnedKind::Tool, &Arc::from("a"), json.as_bytes(), 7).expect("JSON");
        record
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn each_configuration_has_its_own_directory() {
        let of =
            |configuration: Option<&str>| PinDirectory::of(Path::new("/s"), configuration.map(Path::new)).file("a");
        assert_eq!(of(None), Path::new("/s/mcpd/pins/default/a.json"));
        assert_eq!(of(Some("/etc/mcpd.toml")), Path::new("/s/mcpd/pins/cd175fc6736d1a52/a.json"));
        assert_ne!(of(Some("/a")), of(Some("/b")));
    }

    #[test]
    fn a_record_is_stored_for_its_owner_alone_and_loaded() {
        let (_place, directory) = directory();
        assert!(directory.load(SERVER).expect("no file").is_none());
        directory.store(SERVER, &record("1")).expect("stored");
        let loaded = directory.load(SERVER).expect("readable").expect("a file");
        assert_eq!(loaded.to_text(), record("1").to_text());
        assert_eq!((mode(&directory.file(SERVER)), mode(&directory.0)), (0o600, 0o700));
        assert_eq!(fs::read_dir(&directory.0).expect("a directory").count(), 1, "nothing else");
        assert!(directory.load("other").expect("no file").is_none());
    }

    #[test]
    fn an_unchanged_text_is_not_written_again() {
        let (_place, directory) = directory();
        let inode = || fs::metadata(directory.file(SERVER)).expect("a file").ino();
        directory.store(SERVER, &record("1")).expect("stored");
        let before = inode();
        directory.store(SERVER, &record("1")).expect("stored");
        assert_eq!(inode(), before);
        directory.store(SERVER, &record("2")).expect("stored");
        assert_ne!(inode(), before);
    }

    /// What stands in the place of a pin file: its name, how it comes there, and the error.
    type Spoiled = (&'static str, fn(&Path), PinFileError);

    fn files_of_other_kinds() -> [Spoiled; 7] {
        let syntax = |line| PinFileError::Malformed(PinRecordError::Syntax { line });
        [
            ("empty", |path| fs::write(path, "").expect("written"), syntax(1)),
            (
                "in a directory that is writable by all",
                |path| set_mode(path.parent().expect("a directory"), 0o703),
                PinFileError::WritableByOthers,
            ),
            (
                "a link",
                |path| {
                    fs::rename(path, path.with_extension("old")).expect("renamed");
                    symlink(path.with_extension("old"), path).expect("a link")
                },
                PinFileError::NotRegular,
            ),
            (
                "a FIFO",
                |path| {
                    fs::remove_file(path).expect("removed");
                    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO")
                },
                PinFileError::NotRegular,
            ),
            (
                "a directory",
                |path| {
                    fs::remove_file(path).expect("removed");
                    DirBuilder::new().mode(0o700).create(path).expect("a directory")
                },
                PinFileError::NotRegular,
            ),
            (
                "a socket",
                |path| {
                    fs::remove_file(path).expect("removed");
                    UnixListener::bind(path).expect("a socket");
                },
                PinFileError::NotRegular,
            ),
            (
                "too large",
                |path| File::options().write(true).open(path).expect("open").set_len(MAX_FILE + 1).expect("long"),
                PinFileError::TooLarge,
            ),
        ]
    }

    fn changed_files() -> [Spoiled; 6] {
        let syntax = |line| PinFileError::Malformed(PinRecordError::Syntax { line });
        [
            (
                "truncated",
                |path| {
                    let text = fs::read(path).expect("text");
                    fs::write(path, &text[..text.len() - 9]).expect("written")
                },
                syntax(2),
            ),
            ("not UTF-8", |path| fs::write(path, b"{\n\n\xff").expect("written"), syntax(3)),
            (
                "of another version",
                |path| fs::write(path, r#"{"version":9}"#).expect("written"),
                PinFileError::Malformed(PinRecordError::Version { version: 9 }),
            ),
            (
                "of another server",
                |path| fs::write(path, PinRecord::new("x").to_text()).expect("written"),
                PinFileError::OtherServer,
            ),
            ("writable by the group", |path| set_mode(path, 0o620), PinFileError::WritableByOthers),
            ("writable by all", |path| set_mode(path, 0o602), PinFileError::WritableByOthers),
        ]
    }

    /// Each of these is in the place of the pin file. None is loaded or replaced, and reading none of them blocks.
    #[test]
    fn what_cannot_be_trusted_is_refused_and_not_replaced() {
        for (what, spoil, expected) in files_of_other_kinds().into_iter().chain(changed_files()) {
            let (_place, directory) = directory();
            directory.store(SERVER, &record("1")).expect("stored");
            let path = directory.file(SERVER);
            spoil(&path);
            let inode = || fs::symlink_metadata(&path).expect("something").ino();
            let before = inode();
            assert_eq!(directory.load(SERVER).err(), Some(expected), "{what}");
            assert_eq!(directory.store(SERVER, &record("2")).err(), Some(expected), "{what}");
            assert_eq!(inode(), before, "{what}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let (_place, directory) = directory();
        directory.store(SERVER, &record("1")).expect("stored");
        // Only root can give a file away.
        if chown(directory.file(SERVER), Some(1), None).is_ok() {
            assert_eq!(directory.load(SERVER).err(), Some(PinFileError::Foreign));
        }
        if chown(&directory.0, Some(1), None).is_ok() {
            assert_eq!(directory.load("other").err(), Some(PinFileError::Foreign));
        }
    }

    #[test]
    fn a_failed_write_is_an_error_and_leaves_the_former_file() {
        let (place, directory) = directory();
        fs::write(place.path().join("mcpd"), "a file in the place of a directory").expect("written");
        assert!(matches!(
            directory.store(SERVER, &record("1")),
            Err(PinFileError::Unreadable(_) | PinFileError::Unwritable(_))
        ));
        fs::remove_file(place.path().join("mcpd")).expect("removed");
        directory.store(SERVER, &record("1")).expect("stored");
        set_mode(&directory.0, 0o500);
        let stored = directory.store(SERVER, &record("2"));
        // Root may write in spite of the mode.
        let expected = if stored.is_ok() { "2" } else { "1" };
        let loaded = directory.load(SERVER).expect("readable").expect("a file");
        assert!(loaded.pins().is_approved(PinnedKind::Tool, "a", Digest::of(expected.as_bytes())));
    }

    #[test]
    fn the_times_of_changes_are_kept_in_a_file_of_their_own() {
        let (_place, directory) = directory();
        let (digest, key) = (Digest::of(b"1"), Arc::from("a"));
        let mut seen = directory.load_seen(SERVER);
        directory.store_seen(SERVER, &seen).expect("nothing to write");
        assert!(!directory.0.exists());
        seen.observe([(PinnedKind::Tool, Arc::clone(&key), digest)], 7);
        directory.store_seen(SERVER, &seen).expect("stored");
        assert_eq!(directory.load_seen(SERVER).since(PinnedKind::Tool, &key, digest), Some(7));
        assert!(directory.load(SERVER).expect("no pin file").is_none());
        fs::write(directory.seen_file(SERVER), "no record").expect("written");
        assert!(directory.load_seen(SERVER).is_empty(), "a malformed file");
        directory.store_seen(SERVER, &seen).expect("replaced");
        assert!(!directory.load_seen(SERVER).is_empty());
        directory.store_seen(SERVER, &SeenChanges::default()).expect("removed");
        assert!(!directory.seen_file(SERVER).exists());
    }
}
