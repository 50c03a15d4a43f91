//! The sources of values: the environment and files of this process, or the environment of a daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, OFlags, access};

use super::super::encoding::decode;

/// The most links on the way to a file. Source: path_resolution(7).
const MAX_LINKS: usize = 40;

/// The environment and files that the configuration reads: by default those of this process. Tests use a table.
pub trait Sources {
    /// An environment variable. `None` if it is unset or not UTF-8.
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// The variables with names that begin with `prefix`, except those that are not UTF-8.
    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let all =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        all.filter(|(name, _)| name.starts_with(prefix)).collect()
    }

    /// The text and permissions of a file.
    ///
    /// # Errors
    /// If it cannot be read, is not a regular file, is larger than `limit` bytes, or is not UTF-8.
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
        // The file can grow while it is read, and files under /proc have no length.
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        let text = decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let id = (metadata.dev(), metadata.ino());
        Ok(FileText { text, id, permissions: permissions(&metadata) })
    }

    /// The text of a file.
    ///
    /// # Errors
    /// As [`Sources::file`].
    fn read(&self, path: &Path, limit: u64) -> io::Result<String> {
        self.file(path, limit).map(|file| file.text)
    }

    /// The names in a directory, in any order, except those that are not UTF-8.
    ///
    /// # Errors
    /// If it cannot be read, or is not a directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    /// Whether this path exists.
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Where a link leads. `None` if it is no link.
    fn link(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(path).ok()
    }

    /// `path` without links and `..`. What does not exist stays as it is.
    fn real(&self, path: &Path) -> PathBuf {
        let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
        let (mut real, mut rest, mut links): (_, Vec<OsString>, _) = (PathBuf::new(), parts(path), 0);
        while let Some(part) = rest.pop() {
            if Path::new(&part).components().next() == Some(Component::ParentDir) {
                real.pop();
                continue;
            }
            let next = real.join(part);
            match self.link(&next).filter(|_| links < MAX_LINKS) {
                Some(target) => {
                    links += 1;
                    rest.extend(parts(&target));
                }
                None => real = next,
            }
        }
        real
    }

    /// Whether it is a file that this user can execute.
    fn is_program(&self, path: &Path) -> bool {
        path.is_file() && access(path, Access::EXEC_OK).is_ok()
    }

    /// The first program of this name in the directories of `path`, which has the syntax of `PATH`.
    fn on_path(&self, name: &str, path: &str) -> Option<PathBuf> {
        self.on_path_from(Path::new(""), name, path)
    }

    /// The same for a process in the directory `cwd`, to which relative directories of `path` belong.
    fn on_path_from(&self, cwd: &Path, name: &str, path: &str) -> Option<PathBuf> {
        let directories = std::env::split_paths(path).filter(|_| !path.is_empty());
        directories.map(|directory| cwd.join(directory).join(name)).find(|candidate| self.is_program(candidate))
    }

    /// The permissions of a file and of each directory above it, with links resolved.
    ///
    /// # Errors
    /// If it does not exist, or this user cannot search a directory above it.
    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>> {
        let of = |path: &Path| Ok(permissions(&path.metadata()?));
        path.canonicalize()?.ancestors().map(of).collect()
    }

    /// The user's home directory.
    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| home.is_absolute())
    }

    /// The directory that `variable` names by an absolute path.
    fn directory(&self, variable: &str) -> Option<PathBuf> {
        self.var(variable).map(PathBuf::from).filter(|directory| directory.is_absolute())
    }

    /// The directory that `variable` names by an absolute path, or else `default` in the home directory.
    fn directory_or(&self, variable: &str, default: &str) -> Option<PathBuf> {
        self.directory(variable).or_else(|| Some(self.home()?.join(default)))
    }

    /// The user's base directory for configuration. Source, also of the next two: XDG Base Directory Specification.
    fn config_home(&self) -> Option<PathBuf> {
        self.directory_or("XDG_CONFIG_HOME", ".config")
    }

    /// The user's base directory for state.
    fn state_home(&self) -> Option<PathBuf> {
        self.directory_or("XDG_STATE_HOME", ".local/state")
    }

    /// The user's base directory for what can be lost.
    fn cache_home(&self) -> Option<PathBuf> {
        self.directory_or("XDG_CACHE_HOME", ".cache")
    }

    /// The directory of relative paths.
    fn current_dir(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }

    /// The id of the user that mcpd runs as.
    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// The path of the machine's configuration, for all users.
    fn system_config(&self) -> PathBuf {
        PathBuf::from("/etc/mcpd/config.toml")
    }
}

/// The identity of a file, independent of its path: device and inode.
pub type FileId = (u64, u64);

/// A file that was read. `Debug` prints nothing of its text.
pub struct FileText {
    /// The whole text.
    pub text: String,
    /// Unique among existing files.
    pub id: FileId,
    /// Its owner and mode.
    pub permissions: Permissions,
}

impl fmt::Debug for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileText").field("permissions", &self.permissions).finish_non_exhaustive()
    }
}

/// The owner, group and mode of a file.
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
    /// Whether its group is most likely the owner's private group, as many systems create one for each user.
    #[must_use]
    pub fn has_private_group(&self) -> bool {
        self.owner == self.group
    }
}

/// The environment and the files of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Sources for Process {}

fn permissions(metadata: &Metadata) -> Permissions {
    Permissions { mode: metadata.mode() & 0o7777, owner: metadata.uid(), group: metadata.gid() }
}

/// Opens without blocking, because a FIFO would block the daemon until something writes to it. The type is checked after opening, so that the
/// file cannot be replaced in between.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// The environment variables and working directory of a daemon, and the files of this process. The default is this process's own.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    /// `None` for the variables of this process.
    variables: Option<BTreeMap<String, String>>,
    /// Its working directory.
    directory: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn new(variables: Option<BTreeMap<String, String>>, directory: Option<PathBuf>) -> Self {
        Self { variables, directory }
    }

    /// Whether it is the environment of a daemon.
    pub(crate) fn is_daemons(&self) -> bool {
        self.variables.is_some()
    }

    /// This environment with changed variables. `None` unsets a variable.
    pub(crate) fn with(&self, changes: BTreeMap<String, Option<String>>) -> Self {
        let mut variables: BTreeMap<_, _> = self.variables("").into_iter().collect();
        for (name, value) in changes {
            match value {
                Some(value) => drop(variables.insert(name, value)),
                None => drop(variables.remove(&name)),
            }
        }
        Self { variables: Some(variables), directory: self.directory.clone() }
    }
}

impl Sources for Environment {
    fn var(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => Process.var(name),
        }
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let Some(variables) = &self.variables else { return Process.variables(prefix) };
        let matching = variables.iter().filter(|(name, _)| name.starts_with(prefix));
        matching.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn home(&self) -> Option<PathBuf> {
        let own = self.variables.as_ref().and_then(|variables| variables.get("HOME")).map(PathBuf::from);
        own.filter(|home| home.is_absolute()).or_else(|| Process.home())
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.directory.clone().or_else(|| Process.current_dir())
    }
}
