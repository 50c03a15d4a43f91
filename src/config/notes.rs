//! What stands where in the files: all that advice may be about, with its place. The checked configuration has no places.

use std::ops::Range;
use std::sync::Arc;

use globset::Glob;

use super::diagnostic::{Diagnostic, Level, SourceFile};
use super::interpolate::Template;
use super::tree::Problem;
use crate::kind::Kind;

/// Most of one file; of what follows, no advice is given.
const MOST_NOTES: usize = 10_000;

/// Something in a file that advice may be about.
#[derive(Debug)]
pub(crate) struct Note {
    /// The table it stands in.
    pub(crate) owner: Owner,
    /// The file it stands in.
    pub(crate) file: Arc<SourceFile>,
    span: Range<usize>,
    /// What it is.
    pub(crate) what: What,
}

/// The table that something stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// `[defaults]`
    Defaults,
    /// `[servers.NAME]`, or what another client's file has in its place.
    Server(Arc<str>),
    /// `[profiles.NAME]`
    Profile(Arc<str>),
}

/// What advice may be about.
#[derive(Debug)]
pub(crate) enum What {
    /// A server's name.
    Name,
    /// A text that is filled in, and what it is for.
    Text(Use, Template),
    /// A pattern on the owner's own names of one kind, or on its URIs.
    Pattern(Kind, Glob),
    /// A pattern on servers' names, and one on what they offer.
    Scoped(Kind, Glob, Glob),
}

/// What a text of a server is for.
#[derive(Debug)]
pub(crate) enum Use {
    Command,
    /// One of its arguments, as it is spelled.
    Arg(String),
    /// The value of this variable or header.
    Value(String),
    /// A directory or a URL.
    Place,
}

/// Those of one file, whose owner is the table that is being read.
#[derive(Debug)]
pub(super) struct Notes {
    owner: Owner,
    found: Vec<(Owner, Range<usize>, What)>,
}

impl Default for Notes {
    fn default() -> Self {
        Self { owner: Owner::Defaults, found: Vec::new() }
    }
}

impl Notes {
    /// What follows stands in this table.
    pub(super) fn of(&mut self, owner: Owner) {
        self.owner = owner;
    }

    pub(super) fn add(&mut self, span: &Range<usize>, what: What) {
        if self.found.len() < MOST_NOTES {
            self.found.push((self.owner.clone(), span.clone(), what));
        }
    }

    /// All of them, once it is known which file it is.
    pub(super) fn in_file(self, file: &Arc<SourceFile>) -> impl Iterator<Item = Note> {
        self.found.into_iter().map(|(owner, span, what)| Note { owner, file: Arc::clone(file), span, what })
    }
}

impl Note {
    /// A warning about it, with advice on what to write instead.
    pub(crate) fn warning(&self, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Level::Warning, &self.file, Problem::new(self.span.clone(), message).help(help))
    }
}
