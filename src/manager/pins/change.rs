//! Definitions that are not approved, and the outcome of an approval.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::clock::TimeOfDay;
use crate::config::{ChangeRule, ServerConfig};
use crate::pin_files::PinFileError;
use crate::pins::{Digest, PinnedKind, Withheld};

/// The definitions of one server that are not approved.
#[derive(Debug, Clone)]
pub(crate) struct ServerChanges {
    pub(crate) server: Arc<str>,
    pub(crate) rule: ChangeRule,
    /// Why the pin file cannot be used, or what was trusted could not be written to it.
    pub(crate) problem: Option<PinFileProblem>,
    pub(crate) changes: Vec<DefinitionChange>,
    /// Further changes.
    pub(crate) left_out: usize,
}

/// A pin file that cannot be used or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {error}", file.display())]
pub(crate) struct PinFileProblem {
    pub(crate) file: PathBuf,
    pub(crate) error: PinFileError,
}

impl ServerChanges {
    /// Nothing is compared.
    pub(super) fn none(config: &ServerConfig) -> Self {
        let (server, rule) = (Arc::clone(&config.name), config.settings.changes);
        Self { server, rule, problem: None, changes: Vec::new(), left_out: 0 }
    }
}

/// A definition that is not approved.
#[derive(Debug, Clone)]
pub(crate) struct DefinitionChange {
    pub(crate) kind: PinnedKind,
    /// The server's own name of it, or its URI template. Empty for instructions.
    pub(crate) key: Arc<str>,
    pub(crate) digest: Digest,
    /// No definition of `key` is approved.
    pub(crate) is_new: bool,
    /// Why agents do not get it, unless they do.
    pub(crate) withheld: Option<Withheld>,
    /// When mcpd first saw it.
    pub(crate) since: TimeOfDay,
    /// The approved definitions in canonical form, the last one at the end.
    pub(crate) approved: Vec<Box<RawValue>>,
    /// The definition as the server sent it.
    pub(crate) current: Bytes,
}

/// A definition as an approval names it.
pub(crate) type ApprovedDefinition = (PinnedKind, String, Digest);

/// What became of an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Approved {
    /// The number of approved definitions.
    pub(crate) done: usize,
    /// What the server defines in another way by now, or no longer.
    pub(crate) changed_again: Vec<ApprovedDefinition>,
}

/// Why nothing was approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApproveError {
    #[error("there is no server `{server}`")]
    UnknownServer { server: String },
    #[error("the definitions of server `{server}` are not compared, because of `changes = \"follow\"`")]
    Follows { server: String },
    #[error("mcpd has no directory for pin files: neither `XDG_STATE_HOME` nor `HOME` is set")]
    NoDirectory,
    #[error(transparent)]
    File(#[from] PinFileProblem),
    #[error("the manager of all servers is closed")]
    Closed,
}
