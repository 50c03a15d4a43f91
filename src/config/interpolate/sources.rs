//! Where values come from: the daemon's environment and files.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access};

use super::super::encoding::decode;

/// The outside world as the configuration sees it. Tests give a table instead.
pub trait Sources {
    /// A variable of the environment; `None` if it is not set, or is not UTF-8.
    fn var(&self, name: &str) -> Option<String>;

    /// The variables whose names begin with `prefix`, but for those that are not UTF-8.
    fn variables(&self, prefix: &str) -> Vec<(String, String)>;

    /// What a file holds, and whose it is.
    ///
    /// # Errors
    /// If it cannot be read, is no regular file, is larger than `limit` bytes, or is not UTF-8.
    fn file(&self, path: &Path, limit: u64) -> io::Result<FileText>;

    /// What a file holds.
    ///
    /// # Errors
    /// As [`Sources::file`].
    fn read(&self, path: &Path, limit: u64) -> io::Result<String> {
        self.file(path, limit).map(|file| file.text)
    }

    /// The names in a directory, in any order, but for those that are not UTF-8.
    ///
    /// # Errors
    /// If it cannot be read, or is no directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Whether there is something at this path.
    fn exists(&self, path: &Path) -> bool;

    /// Whether it is a file that this user may execute.
    fn is_program(&self, path: &Path) -> bool;

    /// The first program of this name in the directories of `path`, which is written as the variable is.
    fn on_path(&self, name: &str, path: &str) -> Option<PathBuf> {
        let mut candidates = std::env::split_paths(path).map(|directory| directory.join(name));
        candidates.find(|candidate| self.is_program(candidate))
    }

    /// Those of a file, and of each directory above it, links resolved.
    ///
    /// # Errors
    /// If it is not there, or a directory above it is closed to this user.
    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>>;

    /// The user's home directory.
    fn home(&self) -> Option<PathBuf>;

    /// Where paths that do not begin with `/` begin.
    fn current_dir(&self) -> Option<PathBuf>;

    /// The id of the user that mcpd runs as.
    fn user(&self) -> u32;

    /// The configuration of the machine, for all its users.
    fn system_config(&self) -> PathBuf;
}

/// What tells a file from another, by whatever path: device and inode.
pub type FileId = (u64, u64);

/// A file that was read. `Debug` shows nothing of its text.
pub struct FileText {
    /// The whole text.
    pub text: String,
    /// The same for no other file that is there.
    pub id: FileId,
    /// Who may do what with it.
    pub permissions: Permissions,
}

impl fmt::Debug for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileText").field("permissions", &self.permissions).finish_non_exhaustive()
    }
}

/// Who may do what with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// As `chmod` has it, up to 0o7777.
    pub mode: u32,
    /// User id.
    pub owner: u32,
    /// Group id.
    pub group: u32,
}

impl Permissions {
    /// Whether its group is most likely its owner's alone, as many systems give each user one.
    #[must_use]
    pub fn has_private_group(&self) -> bool {
        self.owner == self.group
    }
}

/// The environment and the files of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Sources for Process {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let all =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        all.filter(|(name, _)| name.starts_with(prefix)).collect()
    }

    fn file(&self, path: &Path, limit: u64) -> io::Result<FileText> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"));
        if metadata.len() > limit {
            return Err(too_large());
        }
        // The file may grow meanwhile, and files under /proc have no length.
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        let text = decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let id = (metadata.dev(), metadata.ino());
        Ok(FileText { text, id, permissions: permissions(&metadata) })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_program(&self, path: &Path) -> bool {
        path.is_file() && access(path, Access::EXEC_OK).is_ok()
    }

    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>> {
        let of = |path: &Path| Ok(permissions(&path.metadata()?));
        path.canonicalize()?.ancestors().map(of).collect()
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| home.is_absolute())
    }

    fn current_dir(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn system_config(&self) -> PathBuf {
        PathBuf::from("/etc/mcpd/config.toml")
    }
}

fn permissions(metadata: &Metadata) -> Permissions {
    Permissions { mode: metadata.mode() & 0o7777, owner: metadata.uid(), group: metadata.gid() }
}

/// Opens without waiting: a FIFO would hold the daemon up until someone writes to it. The type is looked at after
/// opening, so that nobody can put another file in its place in between.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}
