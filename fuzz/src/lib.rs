//! The pure modules of mcpd that the fuzz targets use, compiled from their sources.
//!
//! mcpd is no dependency: with fuzzer instrumentation it takes minutes to build, mostly for crates that no target uses.

#![allow(dead_code, reason = "the rest of mcpd uses what the targets do not")]
#![allow(unfulfilled_lint_expectations, reason = "lints that mcpd turns on are not on here")]
#![allow(private_interfaces, reason = "the modules are more public here than in mcpd")]

#[path = "../../src"]
mod mcpd {
    pub mod catalog;
    pub mod clock;
    pub mod duration;
    pub mod durations;
    pub mod era;
    pub mod extensions;
    pub mod jsonrpc;
    pub mod list_kind;
    pub mod log_level;
    pub mod message_limit;
    pub mod methods;
    pub mod naming;
    pub mod pins;
    pub mod policy;
    pub mod printable;
    pub mod sha256;
    pub mod task_state;
    pub mod tool_overrides;
    pub mod validity;

    /// The outcome of a call, as a response reports it.
    pub mod calls {
        mod outcome;

        pub use outcome::CallOutcome;
    }

    /// Time limits of calls.
    pub mod config {
        mod keys;
        mod sandbox;
        mod serialize;
        mod settings;
        mod value_types;

        /// Stub: where a configuration gets values from, which no target reads.
        mod interpolate {
            use std::path::PathBuf;

            pub trait Sources {
                fn home(&self) -> Option<PathBuf>;
                fn directory(&self, variable: &str) -> Option<PathBuf>;
                fn config_home(&self) -> Option<PathBuf>;
                fn state_home(&self) -> Option<PathBuf>;
                fn cache_home(&self) -> Option<PathBuf>;
                fn user(&self) -> u32;
            }
        }

        /// Stub: values with their place in a file, which no target reads.
        mod diagnostic {
            /// A value without its place.
            #[derive(Debug, Clone)]
            pub struct Spanned<T> {
                pub value: T,
            }
        }

        pub use sandbox::Sandbox;
        pub use settings::{Malformed, Settings};
        pub use value_types::CallLimit;
    }

    /// HTTP parsing.
    pub mod net {
        /// Bodies of answers.
        pub mod body {
            /// Stub: targets do not observe where bytes are stored.
            #[must_use]
            pub fn detached(part: bytes::Bytes) -> bytes::Bytes {
                part
            }
        }
    }

    /// Stub: spans of calls, which no target exports.
    pub mod otlp {
        use bytes::Bytes;

        use super::calls::CallOutcome;
        use super::jsonrpc::splice::Change;

        /// A span.
        #[derive(Debug)]
        pub struct ClientSpan;

        impl ClientSpan {
            /// Changes nothing.
            pub fn begin(&mut self, _line: &Bytes) -> Option<Change> {
                None
            }

            /// Leaves nothing.
            pub fn end(self, _outcome: CallOutcome, _reply_bytes: usize) {}
        }
    }

    /// The pure parts of `server`.
    pub mod server {
        pub mod fairness;
        pub mod listing;
        pub mod refused_path;
        pub mod stats;

        /// Messages between sessions and servers.
        pub mod messages {
            pub mod call;
            pub mod server_notification;
            pub mod subscribers;
            pub mod tasks;

            /// Agents as servers see them, which no target subscribes.
            pub mod agents {
                /// An agent.
                #[derive(Debug, Clone)]
                pub struct Agent {
                    /// The number of its session.
                    pub session: u64,
                }
            }

            /// The handle of a server, which no target uses.
            pub mod handle {
                /// The handle.
                #[derive(Debug, Clone)]
                pub struct ServerHandle;
            }
        }

        pub use messages::subscribers::ResourceSubscriptionChange;

        /// Stub: errors of servers, of which the targets see only the one of a dropped call.
        pub mod error {
            /// Why a server is down.
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub enum ServerError {
                /// The operator has disabled it.
                Disabled,
                /// A fault of mcpd.
                Internal(String),
            }

            impl std::fmt::Display for ServerError {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    match self {
                        Self::Disabled => f.write_str("is disabled"),
                        Self::Internal(text) => f.write_str(text),
                    }
                }
            }
        }

        /// The order to stop, which no target gives.
        pub mod control {
            /// The level.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum StopLevel {
                /// The daemon runs.
                Run,
            }

            /// The order.
            #[derive(Debug, Clone)]
            pub struct StopReceiver;

            impl StopReceiver {
                /// The current level.
                #[must_use]
                pub fn now(&self) -> StopLevel {
                    StopLevel::Run
                }
            }
        }

        /// Server requests, which no target has.
        pub mod server_request {
            /// One such request.
            #[derive(Debug)]
            pub struct ForwardedRequest;
        }
    }

    /// The pure parts of `session`.
    pub mod session {
        pub mod received_call;
    }

    /// The pure parts of `transport`.
    pub mod transport {
        /// Messages over HTTP.
        pub mod http {
            use std::time::Duration;

            use bytes::Bytes;

            mod sse_parser;

            /// The events and fields parsed from a stream.
            #[derive(Debug, Default, PartialEq, Eq)]
            pub struct EventStreamResult {
                /// Name and data of each event; `None` for an oversized one.
                pub events: Vec<Option<(Bytes, Bytes)>>,
                pub last_id: Option<Bytes>,
                pub retry: Option<Duration>,
            }

            /// Parses a stream in these pieces, with at most `max` bytes per event.
            #[must_use]
            pub fn parse_events(pieces: &[&[u8]], max: usize) -> EventStreamResult {
                let (mut stream, mut result) = (sse_parser::SseParser::new(max), EventStreamResult::default());
                for piece in pieces {
                    stream.read(Bytes::copy_from_slice(piece));
                    assert!(stream.buffered() <= 2 * max, "{} bytes are buffered", stream.buffered());
                    result.events.extend(std::iter::from_fn(|| stream.pop()).map(|event| match event {
                        sse_parser::SseEvent::Data { name, data } => Some((name, data)),
                        sse_parser::SseEvent::TooLarge => None,
                    }));
                }
                (result.last_id, result.retry) = (stream.last_id().cloned(), stream.retry());
                result
            }
        }
    }
}

pub use mcpd::{
    calls, catalog, clock, config, duration, durations, era, extensions, jsonrpc, list_kind, log_level, message_limit,
    methods, naming, net, otlp, pins, policy, printable, server, session, sha256, task_state, tool_overrides,
    transport, validity,
};
