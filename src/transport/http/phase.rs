//! How far the way to a server is open. Pure; the picture is above the room.

use bytes::Bytes;

use super::report::Source;

/// How far the way is open.
#[derive(Debug)]
pub(super) enum Phase {
    New,
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
            Self::New | Self::Opening { .. } | Self::Open | Self::OpenOld => false,
        }
    }

    /// Whether it is this exchange that opens the way.
    pub(super) fn is_opened_by(&self, exchange: Source) -> bool {
        matches!(self, Self::Opening { source, .. } if *source == exchange)
    }
}
