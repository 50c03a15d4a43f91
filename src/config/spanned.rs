//! A value of the configuration, and what says it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Level, SourceFile};
use super::tree::Problem;

/// A value and the location that says it. Where nothing says one there is none, and the built-in default holds.
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
    /// A complaint about it.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.span.clone(), message)
    }

    /// An error, made of a [`Location::problem`].
    pub(super) fn error(&self, problem: Problem) -> Diagnostic {
        Diagnostic::new(Level::Error, &self.file, problem)
    }

    /// Without the column.
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

/// The value, or what holds where nothing is value.
pub(super) fn or_default<T: Clone>(value: Option<&Spanned<T>>, unset: T) -> T {
    value.map_or(unset, |value| value.value.clone())
}

/// The values alone.
pub(super) fn values<T: Clone>(all: &[Spanned<T>]) -> Vec<T> {
    all.iter().map(|spanned| spanned.value.clone()).collect()
}
