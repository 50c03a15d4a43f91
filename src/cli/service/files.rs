//! Plans and applies changes to the files of the user's units.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::units::{Author, Unit, author};
use crate::cli::service_env::write_private;

/// A planned change of one file.
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// The new text; `None` to remove the file.
    pub(super) text: Option<String>,
    pub(super) kind: ChangeKind,
    /// Only the user may read the file, and its text is not printed.
    pub(super) is_private: bool,
}

/// A change that was applied and can be undone.
pub(super) struct UndoableChange {
    path: PathBuf,
    /// The former file.
    backup: Option<PathBuf>,
    kind: ChangeKind,
}

/// The present file compared with the planned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The file does not exist.
    New,
    Same,
    /// mcpd wrote the present file.
    Update,
    /// A person wrote or edited the present file.
    Foreign,
}

impl Change {
    /// Plans to write this unit below `directory`.
    ///
    /// # Errors
    /// If the present file cannot be read.
    pub(super) fn plan(directory: &Path, unit: Unit) -> io::Result<Self> {
        let path = directory.join(unit.name);
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == unit.text => ChangeKind::Same,
            Ok(found) if author(&found) == Author::Ours => ChangeKind::Update,
            Ok(_) => ChangeKind::Foreign,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ChangeKind::New,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        Ok(Self { path, text: Some(unit.text), kind, is_private: false })
    }

    /// Plans to write a private file of mcpd.
    ///
    /// # Errors
    /// If the present file cannot be read.
    pub(super) fn private(path: PathBuf, text: String) -> io::Result<Self> {
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == text && is_private_to_owner(&path)? => ChangeKind::Same,
            Ok(_) => ChangeKind::Update,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ChangeKind::New,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        Ok(Self { path, text: Some(text), kind, is_private: true })
    }

    /// Plans to remove the file `name` below `directory`; `None` if it does not exist.
    pub(super) fn removal(directory: &Path, name: &str) -> Option<Self> {
        let path = directory.join(name);
        let found = fs::read_to_string(&path).ok()?;
        let kind = if author(&found) == Author::Ours { ChangeKind::Update } else { ChangeKind::Foreign };
        Some(Self { path, text: None, kind, is_private: false })
    }

    /// Whether the file has to change.
    pub(super) fn is_due(&self) -> bool {
        self.kind != ChangeKind::Same
    }

    /// Applies the change atomically, after a backup of the former file.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub(super) fn apply(&self) -> io::Result<UndoableChange> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        let backup = if self.kind == ChangeKind::New { None } else { Some(back_up(&self.path).map_err(named)?) };
        match &self.text {
            Some(text) => self.write(text).map_err(named)?,
            None => fs::remove_file(&self.path).map_err(named)?,
        }
        Ok(UndoableChange { path: self.path.clone(), backup, kind: self.kind })
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if self.is_private {
            return write_private(&self.path, text);
        }
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl UndoableChange {
    /// Makes the change permanent. Returns the backup's path if a person wrote or edited the former file.
    pub(super) fn commit(self) -> Option<PathBuf> {
        let backup = self.backup?;
        if self.kind == ChangeKind::Foreign {
            return Some(backup);
        }
        // A remaining backup of mcpd's own text does no harm.
        let _ = fs::remove_file(backup);
        None
    }

    /// Restores the former file, or removes a new one.
    ///
    /// # Errors
    /// If the file cannot be restored or removed.
    pub(super) fn undo(self) -> io::Result<()> {
        match self.backup {
            Some(backup) => fs::rename(backup, self.path),
            None => fs::remove_file(self.path),
        }
    }
}

fn is_private_to_owner(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 == 0)
}

/// Links the file to `NAME.old`, or to the next free number. systemd reads neither.
fn back_up(path: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let suffix = if number == 0 { ".old".to_owned() } else { format!(".old.{number}") };
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::hard_link(path, &name) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The existing files that `mcpd service install` wrote, each with its author now.
pub(super) fn ours(directory: &Path) -> Vec<(PathBuf, Author)> {
    let paths = super::units::NAMES.map(|name| directory.join(name));
    let known = paths.into_iter().filter_map(|path| {
        let author = author(&fs::read_to_string(&path).ok()?);
        Some((path, author))
    });
    known.filter(|(_, author)| *author != Author::Another).collect()
}
