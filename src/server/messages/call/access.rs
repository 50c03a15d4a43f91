//! Whether a call may still be written to its server.
//!
//! A session routes a call by what its listener exposes at that moment. The call may then wait: for its server to start, or for a
//! server that does not read. Policy and lists may change meanwhile, so the call is checked again before it is written.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::{Identity, Lists, identity};
use crate::era::Era;
use crate::jsonrpc::reply::ErrorObject;
use crate::list_kind::ListKind;
use crate::methods::TargetKind;

/// What a call needs its listener to expose.
#[derive(Debug)]
pub enum AccessTarget {
    /// A tool or prompt. For a request about a task, the tool that created the task.
    Named {
        /// Tools or prompts.
        kind: ListKind,
        /// The exposed name.
        exposed: Bytes,
        /// The server's own name.
        name: Arc<str>,
    },
    /// A resource or a resource template.
    Uri(Bytes),
    /// A skill, or a file of a skill, whether it is listed or not.
    Skill(Bytes),
    /// A method of an extension.
    Extension {
        /// The extension; `None` for a method that no declared extension has.
        id: Option<Arc<str>>,
        /// What the request names. All of it is needed.
        items: Vec<AccessTarget>,
    },
    /// A name that no tool or prompt has here, in a request of an extension.
    UnlistedName(Bytes),
    /// A URI that no list has, in a request of an extension, or because a result has named it.
    UnlistedUri(Bytes),
}

impl AccessTarget {
    /// Whether it is a method of this extension.
    #[must_use]
    pub fn is_of(&self, extension: &str) -> bool {
        matches!(self, Self::Extension { id: Some(id), .. } if **id == *extension)
    }

    /// The server's own name of a tool or prompt.
    #[must_use]
    pub fn own_name(&self) -> Option<&Arc<str>> {
        if let Self::Named { name, .. } = self { Some(name) } else { None }
    }

    /// Whether a server's list of `kind` decides about it.
    fn depends_on(&self, kind: ListKind) -> bool {
        match self {
            Self::Named { kind: own, .. } => *own == kind,
            Self::Uri(_) => kind != ListKind::Prompts,
            Self::UnlistedName(_) => matches!(kind, ListKind::Tools | ListKind::Prompts),
            Self::Skill(_) | Self::UnlistedUri(_) => false,
            Self::Extension { items, .. } => items.iter().any(|item| item.depends_on(kind)),
        }
    }
}

/// Whether a listener exposes a target. The strictest comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// The target may be called.
    Exposed,
    /// Policy would expose it, but the server does not list it now.
    NotListed,
    /// The target is unknown to the agents of the listener.
    Hidden,
}

/// What one listener exposes at any moment. A session implements it over the view of its profile.
pub trait ExposureView: Debug + Send + Sync {
    /// Changes whenever anything that is exposed changes.
    fn version(&self) -> u64;

    /// Whether `target` of `server` is exposed now to agents of `era`. `lists` are the server's present lists.
    fn exposure(&self, server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure;
}

/// The permission of one call to reach its server.
#[derive(Debug)]
pub struct Access {
    /// The listener that decides.
    pub view: Arc<dyn ExposureView>,
    /// The target of the request.
    pub target: AccessTarget,
    /// The kind of target, for the error.
    pub error_kind: TargetKind,
    /// The name, URI or id in the request.
    pub requested_name: Bytes,
    /// The era of the request.
    pub era: Era,
    /// The listener's version when the call was routed.
    pub version: u64,
    /// The server's lists when the call was routed.
    pub lists: Identity,
}

impl Access {
    /// Whether the call may be written to `server`, whose present lists are `lists`.
    pub(crate) fn exposure(&self, server: &str, lists: &Lists) -> Exposure {
        if self.view.version() == self.version && self.lists == identity(lists) {
            return Exposure::Exposed;
        }
        self.view.exposure(server, self.era, &self.target, Some(lists))
    }

    /// Whether the listener's policy now hides the target, regardless of the server's lists.
    pub(crate) fn is_hidden(&self, server: &str) -> bool {
        self.view.version() != self.version
            && self.view.exposure(server, self.era, &self.target, None) == Exposure::Hidden
    }

    /// The error for an unknown target.
    pub(crate) fn unknown(&self) -> ErrorObject {
        self.error_kind.unknown(&self.requested_name, self.era)
    }

    /// Whether the server's list of `kind` decides about the call.
    pub(crate) fn depends_on(&self, kind: ListKind) -> bool {
        self.target.depends_on(kind)
    }
}
