//! Messages to and from one peer: over byte streams, or over HTTP.
//!
//! Pipes of a server and sockets of agents use the same two types, [`MessageReader`] and [`Outbox`]. Servers at a URL
//! use [`http`].

pub mod http;
mod outbox;
mod reader;

pub use self::outbox::Outbox;
pub(crate) use self::reader::INLINE;
pub use self::reader::{Incoming, MessageReader};

/// An event from a server, over any transport.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A message.
    Incoming {
        /// The message.
        incoming: Incoming,
        /// The request whose own HTTP stream carried the message, if it was one.
        source_request: Option<u64>,
    },
    /// A request will get no response.
    RequestFailed {
        /// Its id.
        request: u64,
        /// Why.
        error: http::RequestError,
    },
    /// The server has responded as if it had forgotten the session.
    SessionInDoubt,
    /// More may be written now.
    MayWrite,
}

impl Arrival {
    /// Whether it proves that the server is running and responds.
    pub(crate) fn is_sign_of_life(&self) -> bool {
        match self {
            Self::Incoming { .. } => true,
            Self::RequestFailed { error, .. } => error.is_response(),
            Self::SessionInDoubt => true,
            Self::MayWrite => false,
        }
    }
}
