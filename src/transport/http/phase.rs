//! How far the way to a server is open. Pure; the picture is above the room.

use bytes::Bytes;

use super::report::Source;
use crate::jsonrpc::members::{members, text};

/// How far the way is open.
#[derive(Debug)]
pub(super) enum Phase {
    New,
    /// Nothing was sent yet that opens a session. What was sent is to find out whether the server has any.
    Probing,
    /// It has none: each message is one by itself.
    Modern,
    /// What was sent is kept: a server of 2024-11-05 gets it again elsewhere.
    Opening {
        source: Source,
        line: Bytes,
    },
    /// It is answered. The handshake ends with the line of a number, once that is known and the stream is there.
    Opened {
        initialized: Option<u64>,
    },
    /// Only that line may be sent now.
    Introducing {
        initialized: u64,
        source: Option<Source>,
    },
    Open,
    /// It is to say where messages go.
    Seeking {
        line: Bytes,
        request: Option<u64>,
    },
    /// All answers come on the listener's stream.
    OpenOld,
}

impl Phase {
    /// Whether lines wait.
    pub(super) fn holds_back(&self) -> bool {
        match self {
            Self::Opened { initialized } => initialized.is_some(),
            Self::Introducing { source, .. } => source.is_some(),
            Self::Seeking { .. } => true,
            Self::New | Self::Probing | Self::Modern | Self::Opening { .. } | Self::Open | Self::OpenOld => false,
        }
    }

    /// Takes note that this is the next message. Before there is a session, only one opens it.
    pub(super) fn sends(&mut self, line: &Bytes) {
        if matches!(self, Self::New | Self::Probing) {
            let method = members(line, ["method"]).ok().and_then(|[method]| text(&method?));
            *self = if method.is_some_and(|method| method[..] == *b"initialize") { Self::New } else { Self::Probing };
        }
    }

    /// Whether what is sent now is of the modern era.
    pub(super) fn is_modern(&self) -> bool {
        matches!(self, Self::Probing | Self::Modern)
    }

    /// Whether it is this exchange that opens the way.
    pub(super) fn is_opened_by(&self, exchange: Source) -> bool {
        matches!(self, Self::Opening { source, .. } if *source == exchange)
    }
}
