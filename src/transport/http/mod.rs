//! Messages over Streamable HTTP to one server at a URL, and over HTTP+SSE to a server of 2024-11-05.
//!
//! Each instance has one [`HttpConnection`]. It takes lines from an [`Outbox`](crate::transport::Outbox) and
//! returns what arrives. Each line is one HTTP request ([`exchange`]); messages that the server sends by itself arrive
//! on a stream of their own ([`sse_get`]). They run inside the poll of the [`HttpConnection`], and send events to it by
//! a bounded queue ([`event_queue`]).
//!
//! ```text
//! New ─ a modern request ─► Probing ─ discovered ─► Modern: each request by itself, no stream, no HTTP session
//!                              └── initialize ─► New
//! New ─ initialize ─► Opening ─ response ─► AwaitingStream ─ stream ─► Initializing ─ accepted ─► Open
//!                        └── HTTP 400, 404, 405 ─► AwaitingEndpoint ─ endpoint ─► OpenSse: one stream for all
//! ```
//!
//! The stream is requested before `notifications/initialized` is sent. A server may send notifications at once after
//! that, such as `list_changed`, and would send them to nobody without a stream.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, `basic/transports`, "Streamable HTTP", "Backwards Compatibility"; MCP 2026-07-28,
//! `basic/transports/streamable-http`.

mod body;
mod connection;
mod endpoint;
mod errors;
mod event_queue;
mod exchange;
mod modern;
mod renewal;
mod sse_get;
mod sse_parser;

pub(crate) use self::body::one_line;
pub(crate) use self::connection::HttpConnection;
pub(crate) use self::errors::{Disconnect, RequestError, is_busy, unknown_coding, unprocessed};
pub(crate) use self::modern::{HeaderParams, check_headers};
pub(crate) use self::renewal::ReadAgain;
