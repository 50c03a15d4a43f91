//! The pure rooms of mcpd that the fuzz targets enter, compiled from where they are.
//!
//! Not mcpd as a dependency: with the instruments of a fuzzer that takes minutes to build, most of them for crates that no
//! target reaches.

#![allow(dead_code, reason = "the rest of mcpd uses what the targets do not")]
#![allow(unfulfilled_lint_expectations, reason = "lints that mcpd turns on are not on here")]

#[path = "../../src"]
mod mcpd {
    pub mod catalog;
    pub mod duration;
    pub mod era;
    pub mod jsonrpc;
    pub mod kind;
    pub mod level;
    pub mod moment;
    pub mod naming;
    pub mod peer;
    pub mod policy;
    pub mod printable;
    pub mod progress;
    pub mod tokens;

    /// How a call ended, as an answer says it.
    pub mod calls {
        mod outcome;

        pub use outcome::Outcome;
    }

    /// How long a call may take.
    pub mod config {
        mod settings;
        mod timeouts;

        pub use settings::Settings;
        pub use timeouts::CallLimit;
    }

    /// Of what HTTP brings.
    pub mod net {
        /// Bodies of answers.
        pub mod body {
            /// Where bytes are kept is nothing that a target sees.
            #[must_use]
            pub fn by_itself(part: bytes::Bytes) -> bytes::Bytes {
                part
            }
        }
    }

    /// What of a server's room does no I/O.
    pub mod server {
        pub mod call;
        pub mod listing;
        mod stats;
        mod subscriptions;
        pub mod tasks;
        mod unasked;

        pub use stats::Counter;
        pub use subscriptions::Subscription;

        /// Limits of a server's calls, which no target reaches.
        pub const MAX_IN_FLIGHT: usize = 256;
        /// The same for those that wait.
        pub const MAX_WAITING_PER_SESSION: usize = 1024;

        /// The way to a server, of which no target has one.
        #[derive(Debug, Clone)]
        pub struct ServerHandle;

        /// How far the daemon is to be stopped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Stop {
            /// Not at all.
            Run,
        }

        /// The order to stop, which no target gives.
        #[derive(Debug, Clone)]
        pub struct StopOrder;

        impl StopOrder {
            /// What it says now.
            #[must_use]
            pub fn now(&self) -> Stop {
                Stop::Run
            }
        }

        /// What servers ask, of which no target has any.
        pub mod question {
            /// One such request.
            #[derive(Debug)]
            pub struct Question;
        }
    }

    /// What of a session's room does no I/O.
    pub mod session {
        pub mod asked;
    }

    /// What of the transports does no I/O.
    pub mod transport {
        /// Messages over HTTP.
        pub mod http {
            use std::time::Duration;

            use bytes::Bytes;

            mod events;

            /// What a stream of events has told.
            #[derive(Debug, Default, PartialEq, Eq)]
            pub struct Told {
                /// Name and data of each event; nothing in the place of one that is too large.
                pub events: Vec<Option<(Bytes, Bytes)>>,
                pub last_id: Option<Bytes>,
                pub retry: Option<Duration>,
            }

            /// Reads a stream that comes in these pieces, of whose events none may have more than `max` bytes.
            #[must_use]
            pub fn told(pieces: &[&[u8]], max: usize) -> Told {
                let (mut stream, mut told) = (events::Events::new(max), Told::default());
                for piece in pieces {
                    stream.read(Bytes::copy_from_slice(piece));
                    assert!(stream.held() <= 2 * max, "{} bytes are held", stream.held());
                    told.events.extend(std::iter::from_fn(|| stream.pop()).map(|event| match event {
                        events::Event::Data { name, data } => Some((name, data)),
                        events::Event::TooLarge => None,
                    }));
                }
                (told.last_id, told.retry) = (stream.last_id().cloned(), stream.retry());
                told
            }
        }
    }
}

pub use mcpd::{
    calls, catalog, config, duration, era, jsonrpc, kind, level, moment, naming, net, peer, policy, printable,
    progress, server, session, tokens, transport,
};
