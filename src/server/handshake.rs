//! What precedes the first call: `initialize`, `server/discover`, and what a server says of itself in the result.
//!
//! Source: MCP 2026-07-28, `basic/transports/stdio` and `basic/transports/streamable-http`, "Backward Compatibility", and `server/discover`; MCP 2025-11-25,
//! `basic/lifecycle`. Knows one instance's streams; must not touch restarts, calls, processes.

mod finding;
mod info;
mod negotiation;
mod opening;

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use self::info::ServerInfo;
use self::negotiation::Negotiation;
pub(super) use self::opening::Opening;
use super::era_cache::EraSupport;
use super::instance::{Instance, PendingRequest};
use super::link::Closed;
use crate::era;
use crate::jsonrpc::{Malformed, Message};
use crate::printable::excerpt;
use crate::server::error::ServerError;
use crate::transport::{Arrival, Incoming};

/// Most characters shown of a server's own words.
const LONGEST: usize = 200;
/// The params of `initialize`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Introduction {
    protocol_version: &'static str,
    capabilities: Box<RawValue>,
    client_info: ClientInfo,
}

#[derive(Serialize)]
struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

/// Why there is no [`ServerInfo`].
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// There is no way to the server any more.
    Closed(Closed),
    /// The server answered, and cannot be used.
    Refused(ServerError),
}

/// A result or an error, both raw; or why there is neither.
type Outcome = Result<Result<Bytes, Bytes>, HandshakeError>;

/// What the server has answered.
enum Received {
    /// To `server/discover`, which it may know nothing of.
    Discovered(Outcome),
    /// Nothing to that, which may be because of it.
    DiscoverLost(HandshakeError),
    /// To `initialize`.
    Initialized(Outcome),
    /// No answer to `initialize`, for a reason that does not reveal the era.
    InitializeLost(HandshakeError),
}

/// A connection that has been opened.
pub(super) struct Opened {
    pub(super) info: ServerInfo,
    /// What was found out on the way.
    pub(super) learned: EraSupport,
}

/// Opens a connection.
pub(super) async fn handshake(instance: &mut Instance, opening: Opening) -> Result<Opened, HandshakeError> {
    Negotiation::new(opening).run(instance).await
}

/// Speaks in this version from now on.
fn settle(instance: &mut Instance, protocol: &'static str) {
    instance.wire.negotiated(protocol);
}

fn discover(instance: &mut Instance) {
    instance.wire.own_request("server/discover", era::own_params(), PendingRequest::Discover);
}

fn introduce(instance: &mut Instance) {
    let params = Introduction {
        protocol_version: era::NEWEST_LEGACY,
        capabilities: instance.capabilities(),
        client_info: ClientInfo { name: "mcpd", version: env!("CARGO_PKG_VERSION") },
    };
    instance.wire.request("initialize", &params, PendingRequest::Initialize);
}

/// One step of input and output; an answer to what was asked once it is there.
async fn next(instance: &mut Instance) -> Result<Option<Received>, HandshakeError> {
    let arrival = poll_fn(|cx| {
        while instance.wire.has_unwritten() {
            match instance.wire.poll_write(cx) {
                Poll::Ready(written) => written.map_err(HandshakeError::Closed)?,
                Poll::Pending => break,
            }
        }
        instance.wire.poll_next(cx).map_err(HandshakeError::Closed)
    });
    let incoming = match arrival.await? {
        Arrival::Incoming { incoming, .. } => incoming,
        Arrival::RequestFailed { request, error } if instance.is_introducing(request) => {
            let why = HandshakeError::Closed(Closed::Disconnected(error.disconnect()));
            return match instance.wire.take(request.to_string().as_bytes()) {
                Some(PendingRequest::Discover) if error.is_refusal() => Ok(Some(Received::Discovered(Err(why)))),
                Some(PendingRequest::Discover) if error.may_be_legacy() => Ok(Some(Received::DiscoverLost(why))),
                Some(PendingRequest::Initialize) if error.is_refusal() => Ok(Some(Received::Initialized(Err(why)))),
                Some(PendingRequest::Initialize) => Ok(Some(Received::InitializeLost(why))),
                Some(_) | None => Err(why),
            };
        }
        other => {
            instance.arrive(other);
            return Ok(None);
        }
    };
    match incoming {
        Incoming::Message { message: Message::Response { id, outcome }, .. } => Ok(match instance.wire.take(&id) {
            Some(PendingRequest::Initialize) => Some(Received::Initialized(Ok(outcome))),
            Some(PendingRequest::Discover) => Some(Received::Discovered(Ok(outcome))),
            Some(_) | None => {
                instance.stats().stray_responses.add_one();
                None
            }
        }),
        Incoming::Malformed(Malformed::BadResponse { id }) => {
            let invalid = |method| HandshakeError::Refused(ServerError::InvalidResponse { method });
            Ok(match instance.wire.take(&id) {
                Some(PendingRequest::Initialize) => Some(Received::Initialized(Err(invalid("initialize")))),
                Some(PendingRequest::Discover) => Some(Received::Discovered(Err(invalid("server/discover")))),
                Some(_) | None => None,
            })
        }
        other => {
            instance.take(other);
            Ok(None)
        }
    }
}

/// What a peer sent, as a message may quote it.
fn shortened(raw: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(raw), LONGEST)
}
