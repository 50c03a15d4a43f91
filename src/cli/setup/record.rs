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
use crate::config::interpolate::{Process, Sources};
use crate::disk::replace_private;
use crate::sockets::RuntimeDir;

/// Raised when the format changes.
const VERSION: u32 = 1;

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
    /// mcpd's own directories that do not exist.
    absent: Vec<PathBuf>,
    /// Other directories that do not exist, and that setup may make, the outermost one first.
    absent_above: Vec<PathBuf>,
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
    /// mcpd's own directories that did not exist.
    own_directories: Vec<PathBuf>,
    /// Other directories that did not exist, the outermost one first.
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
        let own = [below(Process.config_home()), below(Process.state_home()), below(Process.cache_home())];
        let own = own.into_iter().flatten().chain([directory.path().to_owned()]);
        let absent: Vec<_> = own.filter(|directory| !directory.exists()).collect();
        let units = Process.config_home().map(|home| home.join("systemd/user/mcpd.service.d"));
        let above = absent.iter().chain(&units).flat_map(|path| path.ancestors().skip(1));
        let above: BTreeSet<_> = above.filter(|path| !path.exists()).map(Path::to_owned).collect();
        let secrets = files_in(&config.with_file_name("secrets"));
        Ok(Self { config, text, secrets, absent, absent_above: above.into_iter().collect() })
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
                own_directories: before.absent.clone(),
                directories: before.absent_above.clone(),
            },
        };
        Ok(Self { path, before, changes })
    }

    /// Remembers that servers have been imported.
    pub(super) fn imported(&mut self) -> Result<(), RecordError> {
        let read = fs::read_to_string(&self.before.config);
        self.changes.config_after = Some(read.map_err(|source| self.error(source))?);
        let now = files_in(&self.before.config.with_file_name("secrets"));
        self.changes.secrets.extend(now.difference(&self.before.secrets).cloned());
        self.write()
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
        let Changes { config, config_before, own_directories, daemon, .. } = &self.changes;
        let shown = config.display();
        let daemon = match daemon {
            Some(DaemonOutcome::Installed) => Some("remove the systemd units"),
            Some(DaemonOutcome::Started) => Some("stop the daemon"),
            _ => None,
        };
        let config = match (self.is_config_ours(), config_before) {
            (Some(false), _) => Some(format!("leave {shown}, which has changed since")),
            (Some(true), None) => {
                Some(format!("remove {shown}, with the secrets that were moved out of the clients' files"))
            }
            (Some(true), Some(_)) => {
                Some(format!("give {shown} back as it was, and remove the secrets that were moved"))
            }
            (None, _) => None,
        };
        let is_inner = |directory: &Path| {
            directory.ancestors().skip(1).any(|above| own_directories.iter().any(|own| own == above))
        };
        let state = own_directories
            .iter()
            .filter(|directory| is_state(directory) && directory.exists() && !is_inner(directory));
        let state = state.map(|directory| format!("remove {}", directory.display()));
        daemon.map(str::to_owned).into_iter().chain(config).chain(state).collect()
    }

    /// Whether the configuration is as setup wrote it; `None` if setup wrote none.
    fn is_config_ours(&self) -> Option<bool> {
        let Changes { config, config_after, .. } = &self.changes;
        let after = config_after.as_ref()?;
        Some(fs::read_to_string(config).is_ok_and(|now| now == *after))
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
        let Changes { config, config_before, own_directories, directories, secrets, .. } = &self.changes;
        match (self.is_config_ours(), config_before) {
            (Some(true), Some(before)) => {
                let file = ConfigFile::open(config).map_err(|source| self.error(source))?;
                file.write(before)?;
                done.push(format!("{} is as it was", config.display()));
            }
            (Some(true), None) => {
                fs::remove_file(config).map_err(|source| self.error(source))?;
                done.push(format!("removed {}", config.display()));
            }
            (Some(false), _) => done.push(format!("left {}, which has changed since", config.display())),
            (None, _) => {}
        }
        if self.is_config_ours() != Some(false) || !config.exists() {
            for secret in secrets.iter().filter(|secret| fs::remove_file(secret).is_ok()) {
                done.push(format!("removed {}", secret.display()));
            }
        }
        // These succeed only for empty directories.
        let _ = fs::remove_dir(config.with_file_name("secrets"));
        remove(&self.path)?;
        for directory in own_directories {
            let is_served = directory == runtime.path() && runtime.is_served();
            if is_state(directory) && directory.exists() && !is_served {
                fs::remove_dir_all(directory)
                    .map_err(|source| RecordError::Write { path: directory.clone(), source })?;
                done.push(format!("removed {}", directory.display()));
            }
            let _ = fs::remove_dir(directory);
        }
        for directory in directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
        Ok(done)
    }

    fn error(&self, source: io::Error) -> RecordError {
        RecordError::Write { path: self.path.clone(), source }
    }
}

/// Whether mcpd can make the directory again: it has state, and no configuration.
fn is_state(directory: &Path) -> bool {
    Process.config_home().is_none_or(|home| !directory.starts_with(home))
}

/// The path of the record: `$XDG_STATE_HOME/mcpd/setup.json`, else below `~/.local/state`.
fn path(sources: &dyn Sources) -> Result<PathBuf, RecordError> {
    Ok(sources.state_home().ok_or(RecordError::NoDirectory)?.join("mcpd/setup.json"))
}

fn read(path: &Path) -> Result<Option<Changes>, RecordError> {
    let failed = |source| RecordError::Read { path: path.to_owned(), source };
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(failed)?,
    };
    // The parser's error text may contain a secret from the configuration.
    let unknown = || failed(io::Error::new(io::ErrorKind::InvalidData, "it was not written by this version of mcpd"));
    let changes: Changes = serde_json::from_slice(&bytes).map_err(|_| unknown())?;
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
