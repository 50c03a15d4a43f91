//! Agents over HTTP/1.1: Streamable HTTP of both eras, on the agent sockets and on loopback addresses.
//!
//! A session does not know of HTTP. It runs over an [`HttpTransport`](transport::HttpTransport), which shares a [`Hub`](hub::Hub) with
//! the connections that serve the session: requests become posts to the hub, and each request or GET has a stream of messages there.
//!
//! ```text
//! first bytes ─┬─ a line ──────────────────────────► session over the connection itself
//!              └─ HTTP ─ Host, Origin, token, path ─┬─ modern ─► hub of its agent
//!                                                   └─ legacy ─► hub of its `Mcp-Session-Id`
//! ```
//!
//! - `protocol`: tells lines from HTTP
//! - `connection`: serves one connection with hyper
//! - `endpoint`: what becomes of each HTTP request
//! - `reply`: its response: an error with its status, a message, or an event stream
//! - `checks`: whether a request may be served, by its headers (pure)
//! - `hub`: what a session and its connections share: posts and streams
//! - `stream`: the messages of one stream, and what is kept to resume it
//! - `transport`: the session's end of a hub
//! - `body`: bodies of responses: one message, or an event stream
//! - `caller`: who sends a request
//! - `sessions`: the legacy sessions by their ids, and how the daemon opens sessions
//! - `agents`: the modern sessions by their agents
//! - `loopback`, `token`: listeners on loopback addresses, and the tokens that they need
//!
//! The daemon runs all these sessions. A legacy session outlives its connections until DELETE, or until it was not used for a while. A
//! modern one ends with the last connection that has used it. A client that leaves the stream of a modern request cancels the request.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, `basic/transports`, "Streamable HTTP"; MCP 2026-07-28, `basic/transports/streamable-http`.

mod agents;
mod body;
mod caller;
mod checks;
mod connection;
mod endpoint;
mod hub;
mod loopback;
mod protocol;
mod reply;
mod sessions;
mod stream;
pub(crate) mod token;
mod transport;

pub(crate) use self::connection::Connection;
pub(crate) use self::loopback::{LoopbackListener, LoopbackStream};
pub(crate) use self::protocol::{Protocol, first_protocol};
pub(crate) use self::sessions::{OpenSession, Sessions};

#[cfg(test)]
mod tests {
    use super::connection::{MAX_HEAD, MAX_HEADERS, SEND_TIMEOUT, STRANGER_TIMEOUT};
    use super::endpoint::MAX_DISCARDED;
    use super::hub::MAX_KEPT;
    use super::loopback::MAX_STRANGERS;
    use super::transport::IDLE_LIMIT;

    const PAGE: &str = include_str!("../../docs/internals/limits.md");

    #[test]
    fn page_has_every_limit_of_http() {
        let (send, stranger) = (SEND_TIMEOUT.as_secs(), STRANGER_TIMEOUT.as_secs());
        for row in [
            format!("| headers of a request | {} KiB together, {MAX_HEADERS} headers |", MAX_HEAD >> 10),
            format!("each pause within a body | {send} s; {stranger} s at a loopback address |"),
            format!("without the token | {MAX_STRANGERS} |"),
            format!("that no stream has taken | {} KiB |", MAX_KEPT >> 10),
            format!("body of a refused request, read and discarded | {} MiB |", MAX_DISCARDED >> 20),
            format!("for a legacy session | {} min |", IDLE_LIMIT.as_secs() / 60),
        ] {
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}
