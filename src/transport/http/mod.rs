//! Messages over streamable HTTP, to one server that is reached by its URL, and over HTTP+SSE where that is all it has.
//!
//! Lives here: one [`Http`] for each instance, which takes the lines of an [`Outbox`](crate::transport::Outbox) and gives what
//! comes of them. Each line is a request of HTTP ([`exchange`]), what the server says by itself comes on a stream of its own ([`listener`]); they run within
//! whoever polls the [`Http`], and tell it by a bounded queue ([`report`]). Knows: [`crate::jsonrpc`], HTTP clients, logins. Must not
//! touch: MCP beyond its transport, sessions of agents, processes.
//!
//! ```text
//! New ─ a modern request ─► Probing ─ settled ─► Modern: each request by itself, no stream, no session
//!                              └── settled ─► New
//! New ─ initialize ─► Opening ─ answered ─► Opened ─ stream ─► Introducing ─ initialized accepted ─► Open
//!                        └── HTTP 400, 404, 405 ─► Seeking ─ endpoint ─► Open, all answers on the one stream
//! ```
//!
//! The stream is asked for before the server hears that the handshake is over: what it has to say then, such as that it has other
//! tools now, it says at once, and to nobody if there is no stream.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, `basic/transports`, "Streamable HTTP", "Backwards Compatibility"; MCP 2026-07-28,
//! `basic/transports/streamable-http`.

mod again;
mod body;
mod ends;
mod events;
mod exchange;
mod exchanges;
mod flow;
mod listener;
mod modern;
mod phase;
mod place;
mod report;
mod status;
mod token;
mod way;

pub(crate) use self::ends::{Lost, Parting};
pub(crate) use self::modern::Mirrors;
pub(crate) use self::status::{is_busy, unprocessed};
pub(crate) use self::way::Http;
