//! The handshake before the first call: `initialize` or `server/discover`, and the server's information in the result.
//!
//! It uses the connection of one instance, and knows neither restarts nor processes.
//!
//! Source: MCP 2026-07-28, `basic/transports/stdio` and `basic/transports/streamable-http`, "Backward Compatibility", and
//! `server/discover`; MCP 2025-11-25, `basic/lifecycle`.

mod info;
mod negotiation;

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

pub(super) use self::info::ServerInfo;
pub(super) use self::negotiation::HandshakePlan;
use self::negotiation::Negotiation;
use super::era_cache::EraSupport;
use super::error::ServerError;
use super::instance::{Instance, PendingRequest};
use super::link::LinkError;
use crate::era;
use crate::jsonrpc::{Message, MessageError};
use crate::printable::excerpt;
use crate::transport::{Arrival, Incoming};

/// Characters of a server's text that are quoted.
const MAX_EXCERPT_LEN: usize = 200;
/// The params of `initialize`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
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
    /// The connection has failed.
    Closed(LinkError),
    /// The server answered, and cannot be used.
    Refused(ServerError),
}

/// A raw result or error, or the reason why there is neither.
type HandshakeResponse = Result<Result<Bytes, Bytes>, HandshakeError>;

/// The fate of a request of the handshake.
enum HandshakeEvent {
    /// A response to `server/discover`.
    Discovered(HandshakeResponse),
    /// `server/discover` got no response, perhaps because the server does not know it.
    DiscoverLost(HandshakeError),
    /// A response to `initialize`.
    Initialized(HandshakeResponse),
    /// `initialize` got no response, for a reason that does not reveal the era.
    InitializeLost(HandshakeError),
}

/// What a successful handshake has found out.
pub(super) struct HandshakeResult {
    pub(super) info: ServerInfo,
    /// The eras that the handshake has found out.
    pub(super) learned: EraSupport,
}

/// Performs the handshake. `first_message` is notified of each message of the server.
pub(super) async fn handshake(
    instance: &mut Instance,
    plan: HandshakePlan,
    first_message: &Notify,
) -> Result<HandshakeResult, HandshakeError> {
    Negotiation::new(plan, first_message).run(instance).await
}

/// Uses this version from now on.
fn set_protocol(instance: &mut Instance, protocol: &'static str) {
    instance.wire.negotiated(protocol);
}

fn discover(instance: &mut Instance) {
    instance.wire.own_request("server/discover", era::own_params(), PendingRequest::Discover);
}

fn initialize(instance: &mut Instance, protocol_version: &'static str) {
    let params = InitializeParams {
        protocol_version,
        capabilities: instance.capabilities(),
        client_info: ClientInfo { name: "mcpd", version: env!("CARGO_PKG_VERSION") },
    };
    instance.wire.request("initialize", &params, PendingRequest::Initialize);
}

/// One step of input and output. Returns the fate of a handshake request once it is known.
async fn next(instance: &mut Instance, first_message: &Notify) -> Result<Option<HandshakeEvent>, HandshakeError> {
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
        Arrival::RequestFailed { request, error } if instance.is_handshake_request(request) => {
            let why = HandshakeError::Closed(LinkError::Disconnected(error.disconnect_at_first()));
            return match instance.wire.take(request.to_string().as_bytes()) {
                Some(PendingRequest::Discover) if error.is_refusal() => Ok(Some(HandshakeEvent::Discovered(Err(why)))),
                Some(PendingRequest::Discover) if error.may_be_legacy() => Ok(Some(HandshakeEvent::DiscoverLost(why))),
                Some(PendingRequest::Initialize) if error.is_refusal() => {
                    Ok(Some(HandshakeEvent::Initialized(Err(why))))
                }
                Some(PendingRequest::Initialize) => Ok(Some(HandshakeEvent::InitializeLost(why))),
                Some(_) | None => Err(why),
            };
        }
        other => {
            // During the handshake, nothing is published or delivered.
            drop(instance.arrive(other));
            return Ok(None);
        }
    };
    if matches!(incoming, Incoming::Message { .. }) {
        first_message.notify_one();
    }
    match incoming {
        Incoming::Message { message: Message::Response { id, response }, .. } => Ok(match instance.wire.take(&id) {
            Some(PendingRequest::Initialize) => Some(HandshakeEvent::Initialized(Ok(response))),
            Some(PendingRequest::Discover) => Some(HandshakeEvent::Discovered(Ok(response))),
            Some(_) | None => {
                instance.stats().stray_responses.add_one();
                instance.wire.receive_stray_response(&id, response.as_ref());
                None
            }
        }),
        Incoming::Malformed(MessageError::BadResponse { id }) => {
            let invalid = |method| HandshakeError::Refused(ServerError::InvalidResponse { method });
            Ok(match instance.wire.take(&id) {
                Some(PendingRequest::Initialize) => Some(HandshakeEvent::Initialized(Err(invalid("initialize")))),
                Some(PendingRequest::Discover) => Some(HandshakeEvent::Discovered(Err(invalid("server/discover")))),
                Some(_) | None => None,
            })
        }
        other => {
            drop(instance.handle_message(other));
            Ok(None)
        }
    }
}

/// Shortens a text of the server for a message.
fn shortened(raw: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(raw), MAX_EXCERPT_LEN)
}
