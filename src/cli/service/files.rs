//! The files of a user's units: what would change, and the change.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::units::{Author, Unit, author};
use crate::cli::service_env::write_private;

/// One file, and what is to become of it.
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// `None`: it is removed.
    pub(super) text: Option<String>,
    pub(super) kind: Kind,
    /// Only the user may read it, and it is not shown.
    pub(super) is_private: bool,
}

/// A change that was made, and can be undone.
pub(super) struct Applied {
    path: PathBuf,
    /// The former file.
    backup: Option<PathBuf>,
    kind: Kind,
}

/// What a file is beside what it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is not there.
    New,
    /// It is as it shall be.
    Same,
    /// It is another one of ours.
    Renewed,
    /// A person has written or changed it.
    Foreign,
}

impl Change {
    /// What has to happen below `directory` for this unit to be there.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub(super) fn plan(directory: &Path, unit: Unit) -> io::Result<Self> {
        let path = directory.join(unit.name);
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == unit.text => Kind::Same,
            Ok(found) if author(&found) == Author::Ours => Kind::Renewed,
            Ok(_) => Kind::Foreign,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kind::New,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        Ok(Self { path, text: Some(unit.text), kind, is_private: false })
    }

    /// What has to happen for a file of mcpd's own to be there, which only the user may read.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub(super) fn private(path: PathBuf, text: String) -> io::Result<Self> {
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == text && is_owners_alone(&path)? => Kind::Same,
            Ok(_) => Kind::Renewed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kind::New,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        Ok(Self { path, text: Some(text), kind, is_private: true })
    }

    /// The removal of the file `name` below `directory`; `None` if it is not there.
    pub(super) fn removal(directory: &Path, name: &str) -> Option<Self> {
        let path = directory.join(name);
        let found = fs::read_to_string(&path).ok()?;
        let kind = if author(&found) == Author::Ours { Kind::Renewed } else { Kind::Foreign };
        Some(Self { path, text: None, kind, is_private: false })
    }

    /// Whether there is anything to do.
    pub(super) fn is_due(&self) -> bool {
        self.kind != Kind::Same
    }

    /// Makes the change as a whole, or not at all. The former file gets another name first.
    ///
    /// # Errors
    /// If that is impossible.
    pub(super) fn apply(&self) -> io::Result<Applied> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        let backup = if self.kind == Kind::New { None } else { Some(back_up(&self.path).map_err(named)?) };
        match &self.text {
            Some(text) => self.write(text).map_err(named)?,
            None => fs::remove_file(&self.path).map_err(named)?,
        }
        Ok(Applied { path: self.path.clone(), backup, kind: self.kind })
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

impl Applied {
    /// Lets the change stand. What a person had written or changed stays beside it: its path.
    pub(super) fn settle(self) -> Option<PathBuf> {
        let backup = self.backup?;
        if self.kind == Kind::Foreign {
            return Some(backup);
        }
        // A copy of our own text that is left harms nobody.
        let _ = fs::remove_file(backup);
        None
    }

    /// Puts the former file back, or removes a new one.
    ///
    /// # Errors
    /// If that is impossible.
    pub(super) fn undo(self) -> io::Result<()> {
        match self.backup {
            Some(backup) => fs::rename(backup, self.path),
            None => fs::remove_file(self.path),
        }
    }
}

fn is_owners_alone(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 == 0)
}

/// Gives the file a second name, `NAME.old` or the next that is free; systemd reads neither.
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

/// The files of ours that are there, with who has written them now.
pub(super) fn ours(directory: &Path) -> Vec<(PathBuf, Author)> {
    let paths = super::units::NAMES.map(|name| directory.join(name));
    let known = paths.into_iter().filter_map(|path| {
        let author = author(&fs::read_to_string(&path).ok()?);
        Some((path, author))
    });
    known.filter(|(_, author)| *author != Author::Another).collect()
}
