//! Messages from and to one peer: over byte streams, or over HTTP.
//!
//! Knows: [`crate::jsonrpc`] and tokio's I/O traits. Must not touch: MCP beyond its transports, processes, who is at the other end.
//! Pipes of a server and an agent's socket are served by the same two types; a server that is reached by its URL has a room
//! of its own, [`http`].

pub mod http;
mod incoming;
mod line_timeout;
mod outbox;
mod reader;
mod throttle;

pub use self::incoming::Incoming;
pub use self::outbox::Outbox;
pub use self::reader::MessageReader;

/// What comes from a server, whatever the way.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A message.
    Incoming {
        /// The message.
        incoming: Incoming,
        /// The request on whose own stream it came, if it came on one.
        within: Option<u64>,
    },
    /// A request will not be answered.
    Lost {
        /// Its id.
        request: u64,
        /// Why.
        lost: http::Lost,
    },
    /// Nothing, but more may be written now.
    Moved,
}

impl Arrival {
    /// Whether it says that the server is there and answers, whatever it answers.
    pub(crate) fn is_sign_of_life(&self) -> bool {
        match self {
            Self::Incoming { .. } => true,
            Self::Lost { lost, .. } => lost.is_answer(),
            Self::Moved => false,
        }
    }
}
