//! The files of a user's units: what would change, and the change.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::units::{Author, Unit, author};

/// One file, and what is to become of it.
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) kind: Kind,
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
        Ok(Self { path, text: unit.text, kind })
    }

    /// Whether there is anything to write.
    pub(super) fn is_due(&self) -> bool {
        self.kind != Kind::Same
    }

    /// Puts the text there as a whole, or not at all.
    ///
    /// # Errors
    /// If that is impossible.
    pub(super) fn write(&self) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).create(directory).map_err(named)?;
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(named)?;
        file.write_all(self.text.as_bytes()).map_err(named)?;
        fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).map_err(named)?;
        file.persist(&self.path).map_err(|error| named(error.error))?;
        Ok(())
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
