//! What is said before the first call: which era the server speaks in, and what that one begins with.
//!
//! Source: MCP 2026-07-28, `basic/transports/stdio` and `basic/transports/streamable-http`, "Backward Compatibility", and `server/discover`; MCP 2025-11-25,
//! `basic/lifecycle`. Knows one instance's streams; must not touch restarts, calls, processes.

mod finding;
mod info;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use self::finding::{Finding, finding, is_modern};
pub(super) use self::info::{ServerInfo, Tells};
use super::instance::{Instance, Owner};
use super::link::Closed;
use crate::config::EraChoice;
use crate::era::{self, Era};
use crate::jsonrpc::pending::Taken;
use crate::jsonrpc::{Malformed, Message, reply};
use crate::printable::excerpt;
use crate::transport::{Arrival, Incoming};

/// Most characters shown of a server's own words.
const LONGEST: usize = 200;
/// How long a server may leave unanswered which era it speaks in before it is sent `initialize` as well. One that is only slow
/// loses nothing by that: what it answers first counts.
const SILENCE: Duration = Duration::from_secs(2);

/// How a server is addressed that has said nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// It is asked which era it speaks in, and sent `initialize` if it does not answer that.
    Ask,
    /// It is sent `initialize`, and asked if it refuses that as a modern server does, for it may be another than it was.
    Remember,
    /// It is sent `initialize`.
    Initialize,
    /// It is asked, and never sent `initialize`.
    Discover,
}

impl Opening {
    /// The one that the configuration wants, or what was found leaves.
    pub(super) fn of(choice: EraChoice, found: Option<Era>) -> Self {
        match (choice, found) {
            (EraChoice::Legacy, _) => Self::Initialize,
            (EraChoice::Auto, Some(Era::Legacy)) => Self::Remember,
            (EraChoice::Auto, None | Some(Era::Modern)) => Self::Ask,
            (EraChoice::Modern, _) => Self::Discover,
        }
    }
}

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
    /// For a person, on one line.
    Refused(String),
}

/// A result or an error, both raw; or why there is neither.
type Outcome = Result<Result<Bytes, Bytes>, HandshakeError>;

/// What the server has answered.
enum Heard {
    /// To `server/discover`, which it may know nothing of.
    Discovered(Outcome),
    /// Nothing to that, which may be because of it.
    Lost(HandshakeError),
    /// To `initialize`.
    Introduced(Outcome),
}

/// Introduces mcpd to the server.
pub(super) async fn handshake(instance: &mut Instance, mut opening: Opening) -> Result<ServerInfo, HandshakeError> {
    let mut silent_at = (opening == Opening::Ask).then(|| Instant::now() + SILENCE);
    let (mut refusal, mut has_asked_again, mut is_guessed) = (None, false, false);
    match opening {
        Opening::Initialize | Opening::Remember => introduce(instance),
        Opening::Ask | Opening::Discover => discover(instance),
    }
    let mut info = loop {
        let heard = match silent_at {
            Some(at) => timeout_at(at, next(instance)).await,
            None => Ok(next(instance).await),
        };
        let Ok(heard) = heard else {
            silent_at = None;
            instance.stats.silent_starts.add_one();
            introduce(instance);
            continue;
        };
        match heard? {
            None => {}
            Some(Heard::Introduced(Ok(Err(error)))) if opening == Opening::Remember && is_modern(&error) => {
                opening = Opening::Discover;
                discover(instance);
            }
            Some(Heard::Introduced(Ok(Ok(result)))) => {
                break ServerInfo::introduced(&result).map_err(HandshakeError::Refused)?;
            }
            // A modern one that is only slow has not said so yet.
            Some(Heard::Introduced(outcome)) if instance.is_asked_alone() => refusal = Some(refused(outcome)),
            Some(Heard::Introduced(outcome)) => return Err(refused(outcome)),
            Some(Heard::Discovered(Err(why)) | Heard::Lost(why)) if opening == Opening::Discover => return Err(why),
            Some(Heard::Lost(_)) => {
                is_guessed = true;
                if silent_at.take().is_some() {
                    introduce(instance);
                }
            }
            Some(Heard::Discovered(outcome)) => match outcome.map_or(Finding::Legacy, finding) {
                Finding::Modern(info) => break *info,
                Finding::Again if !has_asked_again => {
                    has_asked_again = true;
                    discover(instance);
                }
                Finding::Legacy | Finding::Again if opening == Opening::Discover => {
                    let why = "does not speak MCP 2026-07-28, which `era = \"modern\"` asks for";
                    return Err(HandshakeError::Refused(why.to_owned()));
                }
                Finding::Legacy | Finding::Again => match refusal {
                    Some(why) => return Err(why),
                    None if silent_at.take().is_some() => introduce(instance),
                    None => {}
                },
                Finding::Neither(why) => return Err(HandshakeError::Refused(why)),
            },
        }
    };
    info.is_guessed = is_guessed && era::of(info.protocol) == Era::Legacy;
    settle(instance, info.protocol);
    Ok(info)
}

/// Why `initialize` has no result.
fn refused(outcome: Outcome) -> HandshakeError {
    let said = |raw: Bytes| HandshakeError::Refused(format!("refused `initialize`: {}", shortened(&raw)));
    outcome.map_or_else(|why| why, |answer| said(answer.unwrap_or_else(|error| error)))
}

/// Speaks in this version from now on.
fn settle(instance: &mut Instance, protocol: &'static str) {
    instance.protocol = Some(protocol);
    if instance.era() == Era::Legacy {
        let initialized = instance.send(reply::notification("notifications/initialized"));
        instance.link.introduce(protocol, initialized);
    } else {
        instance.link.discovered();
    }
    // Whichever of both it answers later is of no interest.
    for (id, _) in instance.pending.remove_where(|owner| matches!(owner, Owner::Initialize | Owner::Discover)) {
        instance.link.give_up(id);
    }
}

fn discover(instance: &mut Instance) {
    instance.ask("server/discover", era::own_params(), Owner::Discover);
}

fn introduce(instance: &mut Instance) {
    let params = Introduction {
        protocol_version: era::NEWEST_LEGACY,
        capabilities: instance.capabilities(),
        client_info: ClientInfo { name: "mcpd", version: env!("CARGO_PKG_VERSION") },
    };
    instance.request("initialize", &params, Owner::Initialize);
}

/// One step of input and output; an answer to what was asked once it is there.
async fn next(instance: &mut Instance) -> Result<Option<Heard>, HandshakeError> {
    let arrival = poll_fn(|cx| {
        while !instance.outbox.is_empty() {
            match instance.poll_write(cx) {
                Poll::Ready(written) => written.map_err(HandshakeError::Closed)?,
                Poll::Pending => break,
            }
        }
        instance.link.poll_next(cx).map_err(HandshakeError::Closed)
    });
    let incoming = match arrival.await? {
        Arrival::Incoming { incoming, .. } => incoming,
        Arrival::Lost { request, lost } if instance.is_introducing(request) => {
            let why = HandshakeError::Closed(Closed::Parted(lost.parting()));
            return match instance.pending.take(request.to_string().as_bytes()) {
                Taken::Owner(Owner::Discover) if lost.is_refusal() => Ok(Some(Heard::Discovered(Err(why)))),
                Taken::Owner(Owner::Discover) if lost.may_be_legacy() => Ok(Some(Heard::Lost(why))),
                Taken::Owner(Owner::Initialize) => Ok(Some(Heard::Introduced(Err(why)))),
                Taken::Owner(_) | Taken::Stray => Err(why),
            };
        }
        other => {
            instance.arrive(other);
            return Ok(None);
        }
    };
    match incoming {
        Incoming::Message { message: Message::Response { id, outcome }, .. } => Ok(match instance.pending.take(&id) {
            Taken::Owner(Owner::Initialize) => Some(Heard::Introduced(Ok(outcome))),
            Taken::Owner(Owner::Discover) => Some(Heard::Discovered(Ok(outcome))),
            Taken::Owner(_) | Taken::Stray => {
                instance.stats.stray_responses.add_one();
                None
            }
        }),
        Incoming::Malformed(Malformed::BadResponse { id }) => {
            let invalid = |method| HandshakeError::Refused(format!("its answer to `{method}` is no valid response"));
            Ok(match instance.pending.take(&id) {
                Taken::Owner(Owner::Initialize) => Some(Heard::Introduced(Err(invalid("initialize")))),
                Taken::Owner(Owner::Discover) => Some(Heard::Discovered(Err(invalid("server/discover")))),
                Taken::Owner(_) | Taken::Stray => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_decides_before_what_was_found() {
        use EraChoice::{Auto, Legacy, Modern};
        for (choice, found, expected) in [
            (Auto, None, Opening::Ask),
            (Auto, Some(Era::Modern), Opening::Ask),
            (Auto, Some(Era::Legacy), Opening::Remember),
            (Legacy, Some(Era::Modern), Opening::Initialize),
            (Modern, Some(Era::Legacy), Opening::Discover),
        ] {
            assert_eq!(Opening::of(choice, found), expected, "{choice:?} {found:?}");
        }
    }
}
