//! What was there before `mcpd setup`, so that `--undo` can give it back. The record is in the state directory, readable by this user only.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::daemon::DaemonOutcome;
use crate::cli::{FAILED, fail};
use crate::config;
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::import::{Content, SecretFile};
use crate::config::interpolate::{Process, Sources};
use crate::disk::replace_private;
use crate::sockets::RuntimeDir;

/// Raised when the format changes.
const VERSION: u32 = 1;
/// Bytes of a record.
const MAX_RECORD: u64 = 16 << 20;

/// Why the record cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("there is no place for state or configuration: HOME is not set")]
    NoDirectory,
    #[error("the record of `mcpd setup` cannot be read: {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the record of `mcpd setup` cannot be written: {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] WriteError),
}

/// mcpd's places as they are now.
pub(super) struct Before {
    config: PathBuf,
    text: Option<String>,
    secrets: BTreeSet<PathBuf>,
    /// Directories of mcpd's state that do not exist.
    absent_state: Vec<PathBuf>,
    /// Other directories that do not exist, and that setup may make, the outermost one first.
    absent: Vec<PathBuf>,
}

/// What setup has changed.
#[derive(Serialize, Deserialize)]
struct Changes {
    version: u32,
    config: PathBuf,
    /// The configuration before; `None` if there was none.
    config_before: Option<String>,
    /// The configuration that setup wrote; `None` if it wrote none.
    config_after: Option<String>,
    /// Files with secrets that setup wrote.
    secrets: Vec<PathBuf>,
    daemon: Option<DaemonOutcome>,
    /// Directories of mcpd's state that did not exist. They are removed with what is in them.
    state_directories: Vec<PathBuf>,
    /// Other directories that did not exist, the outermost one first. They are removed if they are empty.
    directories: Vec<PathBuf>,
}

/// The record, and where it is.
pub(super) struct Record {
    path: PathBuf,
    before: Before,
    changes: Changes,
}

impl Before {
    pub(super) fn look(directory: &RuntimeDir) -> Result<Self, RecordError> {
        let config = config::default_path(&Process).ok_or(RecordError::NoDirectory)?;
        let text = match fs::read_to_string(&config) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(RecordError::Read { path: config, source }),
        };
        let below = |home: Option<PathBuf>| home.map(|home| home.join("mcpd"));
        let state = [below(Process.state_home()), below(Process.cache_home())];
        let state = state.into_iter().flatten().chain([directory.path().to_owned()]);
        // All directories of a user may be one.
        let absent_state: Vec<_> = state.filter(|path| !path.exists() && !config.starts_with(path)).collect();
        let units = Process.config_home().map(|home| home.join("systemd/user/mcpd.service.d"));
        let inner = absent_state.iter().chain([&config]).chain(&units);
        let absent: BTreeSet<_> =
            inner.flat_map(|path| path.ancestors().skip(1)).filter(|path| !path.exists()).collect();
        let absent = absent.into_iter().map(Path::to_owned).collect();
        let secrets = files_in(&config.with_file_name("secrets"));
        Ok(Self { config, text, secrets, absent_state, absent })
    }
}

impl Record {
    /// The record of an earlier setup, or a new one, which is not written yet.
    pub(super) fn open(sources: &dyn Sources, before: Before) -> Result<Self, RecordError> {
        let path = path(sources)?;
        let changes = match read(&path)? {
            Some(mut earlier) => {
                // What the user has written since is not given up.
                if earlier.config_after != before.text {
                    earlier.config_before.clone_from(&before.text);
                }
                earlier
            }
            None => Changes {
                version: VERSION,
                config: before.config.clone(),
                config_before: before.text.clone(),
                config_after: None,
                secrets: Vec::new(),
                daemon: None,
                state_directories: before.absent_state.clone(),
                directories: before.absent.clone(),
            },
        };
        Ok(Self { path, before, changes })
    }

    /// Remembers an import that is about to be written: the text of the configuration, and the files with secrets. An error is printed.
    pub(super) fn imports(&mut self, text: &str, secrets: &[SecretFile]) -> Result<(), ExitCode> {
        self.changes.config_after = Some(text.to_owned());
        let known = secrets.iter().filter(|secret| matches!(secret.content, Content::Known(_)));
        let new = known.map(|secret| secret.path.clone()).filter(|path| !self.before.secrets.contains(path));
        self.changes.secrets.extend(new);
        self.write().map_err(|error| fail(FAILED, error))
    }

    /// Remembers what becomes of the daemon. An error is printed.
    pub(super) fn served(&mut self, outcome: DaemonOutcome) -> Result<(), ExitCode> {
        self.changes.daemon = Some(outcome);
        self.write().map_err(|error| fail(FAILED, error))
    }

    pub(super) fn write(&self) -> Result<(), RecordError> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let written = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let bytes = written.and_then(|()| Ok(serde_json::to_vec_pretty(&self.changes)?));
        bytes.and_then(|bytes| replace_private(&self.path, &bytes)).map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> RecordError {
        RecordError::Write { path: self.path.clone(), source }
    }
}

impl Record {
    /// The record of an earlier setup.
    pub(super) fn earlier(sources: &dyn Sources) -> Result<Option<Earlier>, RecordError> {
        let path = path(sources)?;
        Ok(read(&path)?.map(|changes| Earlier { path, changes }))
    }
}

/// The configuration at the time of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigState {
    /// Setup wrote nothing, or was interrupted before it did.
    AsBefore,
    /// As setup wrote it.
    AsWritten,
    /// The user has edited it since, or it cannot be read.
    Changed,
}

/// An earlier setup, which can be undone.
pub(super) struct Earlier {
    path: PathBuf,
    changes: Changes,
}

impl Earlier {
    pub(super) fn daemon(&self) -> Option<DaemonOutcome> {
        self.changes.daemon
    }

    /// What is given back, in words.
    pub(super) fn lines(&self) -> Vec<String> {
        let Changes { config, config_before, state_directories, daemon, .. } = &self.changes;
        let shown = config.display();
        let daemon = match daemon {
            Some(DaemonOutcome::Installed) => Some("remove the systemd units"),
            Some(DaemonOutcome::Started) => Some("stop the daemon"),
            _ => None,
        };
        let config = match (self.config_state(), config_before) {
            (ConfigState::Changed, _) => Some(format!("leave {shown}, which has changed since")),
            (ConfigState::AsWritten, None) => {
                Some(format!("remove {shown}, with the secrets that were moved out of the clients' files"))
            }
            (ConfigState::AsWritten, Some(_)) => {
                Some(format!("give {shown} back as it was, and remove the secrets that were moved"))
            }
            (ConfigState::AsBefore, _) => None,
        };
        let is_inner = |directory: &Path| {
            directory.ancestors().skip(1).any(|above| state_directories.iter().any(|state| state == above))
        };
        let state = state_directories.iter().filter(|directory| directory.exists() && !is_inner(directory));
        let state = state.map(|directory| format!("remove {}", directory.display()));
        daemon.map(str::to_owned).into_iter().chain(config).chain(state).collect()
    }

    fn config_state(&self) -> ConfigState {
        let Changes { config, config_before, config_after, .. } = &self.changes;
        let now = fs::read_to_string(config);
        let is_missing = now.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        match now.ok() {
            now if config_after.is_none() || now == *config_before && (now.is_some() || is_missing) => {
                ConfigState::AsBefore
            }
            now if now == *config_after => ConfigState::AsWritten,
            _ => ConfigState::Changed,
        }
    }

    /// Remembers that the daemon is given back.
    pub(super) fn forget_daemon(&mut self) -> Result<(), RecordError> {
        self.changes.daemon = None;
        let bytes = serde_json::to_vec_pretty(&self.changes).map_err(io::Error::from);
        bytes.and_then(|bytes| replace_private(&self.path, &bytes)).map_err(|source| self.error(source))
    }

    /// Gives configuration and state back. Returns what was done, in words.
    pub(super) fn give_back(self, runtime: &RuntimeDir) -> Result<Vec<String>, RecordError> {
        let mut done = Vec::new();
        let Changes { config, config_before, state_directories, directories, secrets, .. } = &self.changes;
        let state = self.config_state();
        match (state, config_before) {
            (ConfigState::AsWritten, Some(before)) => {
                let file = ConfigFile::open(config).map_err(|source| self.error(source))?;
                file.write(before)?;
                done.push(format!("{} is as it was", config.display()));
            }
            (ConfigState::AsWritten, None) => {
                fs::remove_file(config).map_err(|source| self.error(source))?;
                done.push(format!("removed {}", config.display()));
            }
            (ConfigState::Changed, _) => done.push(format!("left {}, which has changed since", config.display())),
            (ConfigState::AsBefore, _) => {}
        }
        // A changed configuration may refer to them.
        if state != ConfigState::Changed || !config.exists() {
            for secret in secrets.iter().filter(|secret| fs::remove_file(secret).is_ok()) {
                done.push(format!("removed {}", secret.display()));
            }
        }
        // This succeeds only for an empty directory.
        let _ = fs::remove_dir(config.with_file_name("secrets"));
        // The record goes last, so that an undo that is interrupted can be repeated.
        let (last, first): (Vec<_>, Vec<_>) = state_directories.iter().partition(|state| self.path.starts_with(state));
        for directory in first.into_iter().chain(last) {
            let is_served = directory == runtime.path() && runtime.is_served();
            if directory.exists() && !is_served {
                fs::remove_dir_all(directory)
                    .map_err(|source| RecordError::Write { path: directory.clone(), source })?;
                done.push(format!("removed {}", directory.display()));
            }
        }
        remove(&self.path)?;
        for directory in directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
        Ok(done)
    }

    fn error(&self, source: io::Error) -> RecordError {
        RecordError::Write { path: self.path.clone(), source }
    }
}

/// The path of the record: `$XDG_STATE_HOME/mcpd/setup.json`, else below `~/.local/state`.
fn path(sources: &dyn Sources) -> Result<PathBuf, RecordError> {
    Ok(sources.state_home().ok_or(RecordError::NoDirectory)?.join("mcpd/setup.json"))
}

fn read(path: &Path) -> Result<Option<Changes>, RecordError> {
    let failed = |source| RecordError::Read { path: path.to_owned(), source };
    let text = match Process.read(path, MAX_RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(failed)?,
    };
    // The parser's error text may contain a secret from the configuration.
    let unknown = || failed(io::Error::new(io::ErrorKind::InvalidData, "it was not written by this version of mcpd"));
    let changes: Changes = serde_json::from_str(&text).map_err(|_| unknown())?;
    if changes.version == VERSION { Ok(Some(changes)) } else { Err(unknown()) }
}

fn remove(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RecordError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn files_in(directory: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
