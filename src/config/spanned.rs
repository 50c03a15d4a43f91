//! Values of the configuration with their locations.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Level, SourceFile};
use super::tree::Problem;

/// A value and its location. An unset key has none and uses the built-in default.
#[derive(Debug, Clone)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) location: Location,
}

/// A part of a file, or a variable.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) file: Arc<SourceFile>,
    pub(super) span: Range<usize>,
}

impl Location {
    /// A problem at this location.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.span.clone(), message)
    }

    /// An error at this location, from a [`Location::problem`].
    pub(super) fn error(&self, problem: Problem) -> Diagnostic {
        Diagnostic::new(Level::Error, &self.file, problem)
    }

    /// The location without the column.
    pub(super) fn line(&self) -> String {
        self.file.line_address(self.span.start)
    }
}

/// `FILE:LINE:COLUMN`, or the name of a variable.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file.address(self.span.start))
    }
}

/// The value, or `unset` if there is none.
pub(super) fn or_default<T: Clone>(value: Option<&Spanned<T>>, unset: T) -> T {
    value.map_or(unset, |value| value.value.clone())
}

/// The values without their locations.
pub(super) fn values<T: Clone>(all: &[Spanned<T>]) -> Vec<T> {
    all.iter().map(|spanned| spanned.value.clone()).collect()
}
