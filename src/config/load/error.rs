//! The errors of an invalid configuration.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::super::diagnostic::Diagnostic;
use super::super::tree::MAX_PROBLEMS;
use super::stamp::Stamp;
use crate::printable::{lines, one_line};

/// Maximum number of printed errors. One more is collected to detect that there are more.
const SHOWN: usize = MAX_PROBLEMS - 1;

/// All errors of a configuration: unreadable files, and errors in their text.
#[derive(Debug, Default)]
pub struct ConfigError {
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) stamps: Vec<Stamp>,
}

impl ConfigError {
    /// The errors with a location, in the order of files and lines.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The files that could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Path, &io::Error)> {
        self.unreadable.iter().map(|(path, error)| (path.as_path(), error))
    }

    /// The digests of the files. An unreadable file has no digest.
    #[must_use]
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// The first error on one line, with its location.
    #[must_use]
    pub fn first(&self) -> String {
        if let Some((path, error)) = self.unreadable.first() {
            return one_line(&format!("cannot read {}: {error}", path.display()));
        }
        self.diagnostics.first().map_or_else(String::new, |diagnostic| {
            let address = diagnostic.file.address(diagnostic.span.start);
            one_line(&format!("{address}: {}", diagnostic.message))
        })
    }

    /// All errors as they are printed, separated by blank lines, without a final newline.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let files = self
            .unreadable
            .iter()
            .map(|(path, error)| lines(&format!("error: cannot read {}: {error}", path.display())));
        let places = self.diagnostics.iter().take(SHOWN).map(|diagnostic| diagnostic.render(colour));
        let more = (self.diagnostics.len() > SHOWN).then(|| format!("error: only the first {SHOWN} errors are shown"));
        files.chain(places).chain(more).collect::<Vec<_>>().join("\n\n")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unreadable.is_empty() && self.diagnostics.is_empty()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigError {}
