//! A planned change of one client's file, with its record. Writing it leaves either all or nothing of it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::edit::{LinkError, NewLink, linked, unlinked, without_pointers};
use super::editor::{EditorCommand, EditorError};
use super::record::{Digest, LinkRecord, Links, RecordError, Scope, Served};
use crate::config::clients::Client;
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::interpolate::Sources;
use crate::known_clients::MAX_FILE;

const WRITE_BITS: u32 = 0o222;

/// Why a client's file is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Link { path: PathBuf, source: LinkError },
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Editor(#[from] EditorError),
}

/// A change of one file, which was planned and is not written yet.
pub(crate) struct FileChange {
    pub(crate) client: &'static Client,
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
    file: ConfigFile,
    /// The new text; `None` if the file goes.
    text: Option<String>,
    former: Option<LinkRecord>,
    /// The record of this change; `None` if it undoes a link.
    record: Option<LinkRecord>,
    /// Servers that the client does not start any more.
    pub(crate) taken_over: Vec<String>,
    names: Vec<String>,
}

impl FileChange {
    /// Links the file at `path`.
    ///
    /// # Errors
    /// If the file or its record cannot be read, or the file cannot be edited.
    pub(crate) fn link(
        links: &Links,
        link: NewLink<'_>,
        (scope, path): (Scope, &Path),
        served: &Served,
        sources: &dyn Sources,
    ) -> Result<Self, ChangeError> {
        let client = link.client;
        let file = open(path)?;
        let former = links.get(client.word, file.path())?;
        let current = file.exists().then(|| file.text());
        let at = |source| ChangeError::Link { path: path.to_owned(), source };
        let edited = linked(path, file.text(), link, former.as_ref(), sources).map_err(at)?;
        let mut record = LinkRecord::new(client.word, scope, path, file.path(), served.clone());
        record.before = match &former {
            Some(former) => unlinked(client, current, former, sources).map_err(at)?,
            None => current.map(str::to_owned),
        };
        record.directories = match &former {
            Some(former) => former.directories.clone(),
            None => missing_directories(file.path()),
        };
        record.states = [Digest::of(current), Digest::of(Some(&edited.text))];
        (record.inserted, record.removed) = (edited.inserted, edited.removed);
        let names = record.names().into_iter().map(str::to_owned).collect();
        let (text, taken_over) = (Some(edited.text), edited.taken_over);
        let path = path.to_owned();
        Ok(Self { client, scope, path, file, text, former, record: Some(record), taken_over, names })
    }

    /// Undoes a link.
    ///
    /// # Errors
    /// If the file cannot be read or edited.
    pub(crate) fn unlink(
        client: &'static Client,
        record: LinkRecord,
        sources: &dyn Sources,
    ) -> Result<Self, ChangeError> {
        let path = record.file.clone();
        let file = open(&path)?;
        let text = unlinked(client, file.exists().then(|| file.text()), &record, sources);
        let text = text.map_err(|source| ChangeError::Link { path: path.clone(), source })?;
        let names = record.names().into_iter().map(str::to_owned).collect();
        let (scope, former, taken_over) = (record.scope, Some(record), Vec::new());
        Ok(Self { client, scope, path, file, text, former, record: None, taken_over, names })
    }

    /// Removes the entries that run `mcpd connect` from a file without a record.
    ///
    /// # Errors
    /// If the file cannot be read or edited.
    pub(crate) fn remove_pointers(
        client: &'static Client,
        path: &Path,
        sources: &dyn Sources,
    ) -> Result<Self, ChangeError> {
        let file = open(path)?;
        let found = without_pointers(client, path, file.text(), sources);
        let (text, names) = found.map_err(|source| ChangeError::Link { path: path.to_owned(), source })?;
        let text = file.exists().then_some(text);
        let (scope, path, taken_over) = (Scope::User, path.to_owned(), Vec::new());
        Ok(Self { client, scope, path, file, text, former: None, record: None, taken_over, names })
    }

    /// The names of mcpd's entries that are written or removed.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The text now and afterwards; empty for a missing file.
    pub(crate) fn texts(&self) -> (&str, &str) {
        (self.file.text(), self.text.as_deref().unwrap_or_default())
    }

    /// Whether the file changes.
    pub(crate) fn is_due(&self) -> bool {
        self.text.as_deref() != self.file.exists().then(|| self.file.text())
    }

    /// Whether there is nothing to do but to forget the link.
    pub(crate) fn is_forgotten(&self) -> bool {
        !self.is_due() && self.record.is_none() && self.former.is_some()
    }

    /// Whether the file gets the bytes back that it had before the link.
    pub(crate) fn restores(&self) -> bool {
        self.record.is_none() && self.former.as_ref().is_some_and(|former| former.before == self.text)
    }

    /// Whether the file goes.
    pub(crate) fn deletes(&self) -> bool {
        self.text.is_none() && self.file.exists()
    }

    /// Whether its owner has to be asked in particular.
    pub(crate) fn is_read_only(&self) -> bool {
        fs::metadata(self.file.path()).is_ok_and(|found| found.permissions().mode() & WRITE_BITS == 0)
    }

    /// Writes the record, then the file: by `command` if the client has one for it and the file is not put back byte for byte.
    ///
    /// # Errors
    /// If something has changed since the change was planned, or cannot be written. The file and the record are as before then.
    pub(crate) fn write(self, links: &Links, command: Option<&EditorCommand>) -> Result<(), ChangeError> {
        let lock = links.lock()?;
        let restores = self.restores();
        let Self { client, path, file, text, former, mut record, .. } = self;
        let is_planned = match (&links.get(client.word, file.path())?, &former) {
            (Some(now), Some(former)) => now.is_same(former),
            (now, former) => now.is_none() && former.is_none(),
        };
        if !is_planned {
            return Err(WriteError::Changed(path).into());
        }
        if let Some(record) = &record {
            lock.write(record)?;
        }
        let target = file.path().to_owned();
        let written = match (&text, command.filter(|_| !restores)) {
            (Some(text), Some(command)) => command.carry_out(file, text).map_err(ChangeError::from),
            (Some(text), None) if !file.exists() || file.text() != text => file.write(text).map_err(Into::into),
            (None, _) if file.exists() => file.remove().map_err(Into::into),
            _ => Ok(()),
        };
        if let Err(error) = written {
            match (&former, &record) {
                (Some(former), _) => lock.write(former)?,
                (None, Some(record)) => {
                    remove_empty(&record.directories);
                    lock.remove(record)?;
                }
                (None, None) => {}
            }
            return Err(error);
        }
        match (&mut record, &former) {
            (Some(record), _) if command.is_some() => {
                let now = open(&target)?;
                record.states[1] = Digest::of(now.exists().then(|| now.text()));
                lock.write(record)?;
            }
            (None, Some(former)) => {
                lock.remove(former)?;
                remove_empty(&former.directories);
            }
            _ => {}
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<ConfigFile, ChangeError> {
    ConfigFile::open_up_to(path, MAX_FILE).map_err(|source| ChangeError::Read { path: path.to_owned(), source })
}

/// Removes those of the directories that are empty, the innermost one first.
fn remove_empty(directories: &[PathBuf]) {
    directories.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
}

/// The directories above `path` that do not exist, the outermost one first.
fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|directory| !directory.exists());
    let mut missing: Vec<_> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}
