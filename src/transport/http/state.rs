//! States of a connection. The module doc has the diagram. Pure.

use bytes::Bytes;

use super::event_queue::Source;
use crate::jsonrpc::members::{members, text};

/// The state of a connection.
#[derive(Debug)]
pub(super) enum State {
    New,
    /// Only requests that detect the era were sent, and no `initialize`.
    Probing,
    /// The server has no HTTP sessions: each message is independent.
    Modern,
    /// `initialize` was sent. Its line is kept, since a server of 2024-11-05 gets it again at another URL.
    Opening {
        source: Source,
        line: Bytes,
    },
    /// `initialize` was answered. `initialized` is the number of the line that ends the handshake, once it is known. It
    /// waits for the stream.
    AwaitingStream {
        initialized: Option<u64>,
    },
    /// Only that line may be sent.
    Initializing {
        initialized: u64,
        source: Option<Source>,
    },
    Open,
    /// The server's stream has yet to name the URL for messages.
    AwaitingEndpoint {
        line: Bytes,
        request: Option<u64>,
    },
    /// All responses come on the server's stream.
    OpenSse,
}

impl State {
    /// Whether lines must wait.
    pub(super) fn must_wait(&self) -> bool {
        match self {
            Self::AwaitingStream { initialized } => initialized.is_some(),
            Self::Initializing { source, .. } => source.is_some(),
            Self::AwaitingEndpoint { .. } => true,
            Self::New | Self::Probing | Self::Modern | Self::Opening { .. } | Self::Open | Self::OpenSse => false,
        }
    }

    /// Notes the next message. Before there is an HTTP session, only `initialize` opens one.
    pub(super) fn note_sent(&mut self, line: &Bytes) {
        if matches!(self, Self::New | Self::Probing) {
            let method = members(line, ["method"]).ok().and_then(|[method]| text(&method?));
            *self = if method.is_some_and(|method| method[..] == *b"initialize") { Self::New } else { Self::Probing };
        }
    }

    /// Whether messages are sent in the modern era.
    pub(super) fn is_modern(&self) -> bool {
        matches!(self, Self::Probing | Self::Modern)
    }

    /// Whether this exchange opens the HTTP session.
    pub(super) fn is_opened_by(&self, exchange: Source) -> bool {
        matches!(self, Self::Opening { source, .. } if *source == exchange)
    }
}
