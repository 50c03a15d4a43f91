//! The pure rooms of mcpd that the fuzz targets enter, compiled from where they are.
//!
//! Not mcpd as a dependency: with the instruments of a fuzzer that takes minutes to build, most of them for crates that no
//! target reaches.

#![allow(dead_code, reason = "the rest of mcpd uses what the targets do not")]
#![allow(unfulfilled_lint_expectations, reason = "lints that mcpd turns on are not on here")]

#[path = "../../src"]
mod mcpd {
    pub mod catalog;
    pub mod client_info;
    pub mod clock;
    pub mod duration;
    pub mod era;
    pub mod jsonrpc;
    pub mod list_kind;
    pub mod log_level;
    pub mod naming;
    pub mod policy;
    pub mod printable;
    pub mod progress;
    pub mod task_state;
    pub mod token_estimate;

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
        pub mod listing;
        pub mod share;
        pub mod stats;

        /// What sessions and servers send each other.
        pub mod messages {
            pub mod call;
            pub mod server_notification;
            pub mod subscriptions;
            pub mod tasks;

            /// The handle of a server, which no target uses.
            pub mod handle {
                /// The handle.
                #[derive(Debug, Clone)]
                pub struct ServerHandle;
            }
        }

        pub use messages::subscriptions::Subscription;

        /// Limits of the queue of calls, which no target reaches.
        pub mod fair_queue {
            /// Queued calls of one session.
            pub const MAX_WAITING_PER_SESSION: usize = 1024;
        }

        /// The order to stop, which no target gives.
        pub mod stop_order {
            /// The level.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Stop {
                /// The daemon runs.
                Run,
            }

            /// The order.
            #[derive(Debug, Clone)]
            pub struct StopOrder;

            impl StopOrder {
                /// The current level.
                #[must_use]
                pub fn now(&self) -> Stop {
                    Stop::Run
                }
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
        pub mod routed_request;
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
            pub struct Parsed {
                /// Name and data of each event; nothing in the place of one that is too large.
                pub events: Vec<Option<(Bytes, Bytes)>>,
                pub last_id: Option<Bytes>,
                pub retry: Option<Duration>,
            }

            /// Reads a stream that comes in these pieces, of whose events none may have more than `max` bytes.
            #[must_use]
            pub fn parsed(pieces: &[&[u8]], max: usize) -> Parsed {
                let (mut stream, mut parsed) = (events::Events::new(max), Parsed::default());
                for piece in pieces {
                    stream.read(Bytes::copy_from_slice(piece));
                    assert!(stream.held() <= 2 * max, "{} bytes are held", stream.held());
                    parsed.events.extend(std::iter::from_fn(|| stream.pop()).map(|event| match event {
                        events::Event::Data { name, data } => Some((name, data)),
                        events::Event::TooLarge => None,
                    }));
                }
                (parsed.last_id, parsed.retry) = (stream.last_id().cloned(), stream.retry());
                parsed
            }
        }
    }
}

pub use mcpd::{
    calls, catalog, client_info, config, duration, era, jsonrpc, kind, level, moment, naming, net, policy, printable,
    progress, server, session, task_state, token_estimate, transport,
};
