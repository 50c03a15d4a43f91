//! A request of the agent that mcpd answers itself, perhaps later. Pure.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::clock::Moment;
use crate::era::subscription::ListenFilter;
use crate::era::{self, Era};
use crate::list_kind::ListKind;

/// A request that mcpd answers from a view.
pub(super) enum OwnRequest {
    List {
        id: Bytes,
        kind: ListKind,
        era: Era,
        face: Option<Arc<str>>,
        received: Moment,
    },
    /// `initialize` or `server/discover`, until the server of a face has completed its handshake.
    Handshake {
        id: Bytes,
        protocol: &'static str,
        face: Option<Arc<str>>,
        until: Instant,
        received: Moment,
    },
    /// `subscriptions/listen`. It waits for the first lists, because its acknowledgement would omit resources that are not listed yet.
    Listen {
        id: Bytes,
        filter: ListenFilter,
        face: Option<Arc<str>>,
    },
}

impl OwnRequest {
    pub(super) fn id(&self) -> &Bytes {
        let (Self::List { id, .. } | Self::Handshake { id, .. } | Self::Listen { id, .. }) = self;
        id
    }

    /// Its method, and when it was received. `None` for `subscriptions/listen`, which lasts as long as the agent listens.
    pub(super) fn measured(&self) -> Option<(&'static str, Moment)> {
        match self {
            Self::List { kind, received, .. } => Some((kind.method(), *received)),
            Self::Handshake { protocol, received, .. } => {
                let method = if era::of(protocol) == Era::Legacy { "initialize" } else { "server/discover" };
                Some((method, *received))
            }
            Self::Listen { .. } => None,
        }
    }
}
