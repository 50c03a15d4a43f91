//! What is said before the first call: which era the server speaks in, and what that one begins with.
//!
//! Source: MCP 2026-07-28, `basic/transports/stdio`, "Backward Compatibility", and `server/discover`; MCP 2025-11-25,
//! `basic/lifecycle`. Knows one instance's streams; must not touch restarts, calls, processes.

mod info;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

pub(super) use self::info::ServerInfo;
use super::instance::{Instance, Owner};
use super::link::Closed;
use crate::config::EraChoice;
use crate::era::{self, Era};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::Taken;
use crate::jsonrpc::{Malformed, Message, reply};
use crate::peer;
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

/// What the server has answered.
enum Heard {
    /// To `server/discover`: a result, or an error, or nothing that could be read (`None`).
    Discovered(Option<Result<Bytes, Bytes>>),
    /// To `initialize`.
    Introduced(Result<Bytes, Bytes>),
}

/// What an answer to `server/discover` means.
enum Finding {
    Modern(Box<ServerInfo>),
    Legacy,
    /// It is modern, and of no version that mcpd speaks.
    Neither(String),
}

/// Introduces mcpd to the server.
pub(super) async fn handshake(instance: &mut Instance, mut opening: Opening) -> Result<ServerInfo, HandshakeError> {
    let mut silent_at = (opening == Opening::Ask).then(|| Instant::now() + SILENCE);
    match opening {
        Opening::Initialize | Opening::Remember => introduce(instance),
        Opening::Ask | Opening::Discover => discover(instance),
    }
    let info = loop {
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
            Some(Heard::Introduced(Err(error))) if opening == Opening::Remember && is_modern(&error) => {
                opening = Opening::Discover;
                discover(instance);
            }
            Some(Heard::Introduced(outcome)) => {
                let refused = |error: Bytes| format!("refused `initialize`: {}", shortened(&error));
                let result = outcome.map_err(|error| HandshakeError::Refused(refused(error)))?;
                break ServerInfo::introduced(&result).map_err(HandshakeError::Refused)?;
            }
            Some(Heard::Discovered(outcome)) => match (finding(outcome), opening) {
                (Finding::Modern(info), _) => break *info,
                (Finding::Legacy, Opening::Discover) => {
                    let why = "does not speak MCP 2026-07-28, which `era = \"modern\"` asks for";
                    return Err(HandshakeError::Refused(why.to_owned()));
                }
                (Finding::Legacy, _) => {
                    if silent_at.take().is_some() {
                        introduce(instance);
                    }
                }
                (Finding::Neither(why), _) => return Err(HandshakeError::Refused(why)),
            },
        }
    };
    // Whichever of both it answers later is of no interest.
    instance.pending.remove_where(|owner| matches!(owner, Owner::Initialize | Owner::Discover));
    instance.protocol = Some(info.protocol);
    if instance.era() == Era::Legacy {
        let initialized = instance.send(reply::notification("notifications/initialized"));
        instance.link.introduce(info.protocol, initialized);
    }
    Ok(info)
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

/// An error that a modern server answers shows that it is one; any other, whatever its code, that it is not.
fn finding(outcome: Option<Result<Bytes, Bytes>>) -> Finding {
    match outcome {
        Some(Ok(result)) => {
            ServerInfo::discovered(&result).map_or(Finding::Legacy, |info| Finding::Modern(Box::new(info)))
        }
        Some(Err(error)) => match supported(&error) {
            Some(versions) if !versions.iter().any(|version| era::known(version).is_some()) => {
                let versions = shortened(versions.join(", ").as_bytes());
                Finding::Neither(format!("speaks protocol versions which mcpd does not: {versions}"))
            }
            _ => Finding::Legacy,
        },
        None => Finding::Legacy,
    }
}

/// Whether an error says that the version of the modern era is spoken.
fn is_modern(error: &Bytes) -> bool {
    supported(error).is_some_and(|versions| versions.iter().any(|version| version == era::MODERN))
}

/// The versions that an error names which says that the one of the request is not spoken.
fn supported(error: &Bytes) -> Option<Vec<String>> {
    let [code, data] = members(error, ["code", "data"]).ok()?;
    if code?[..] != *era::UNSUPPORTED_VERSION.to_string().as_bytes() {
        return None;
    }
    let [supported] = members(&data?, ["supported"]).ok()?;
    serde_json::from_slice(&supported?).ok()
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
            return Err(HandshakeError::Closed(Closed::Parted(lost.parting())));
        }
        other => {
            instance.arrive(other);
            return Ok(None);
        }
    };
    match incoming {
        Incoming::Message { message: Message::Response { id, outcome }, .. } => Ok(match instance.pending.take(&id) {
            Taken::Owner(Owner::Initialize) => Some(Heard::Introduced(outcome)),
            Taken::Owner(Owner::Discover) => Some(Heard::Discovered(Some(outcome))),
            Taken::Owner(_) | Taken::Stray => {
                instance.stats.stray_responses.add_one();
                None
            }
        }),
        Incoming::Malformed(Malformed::BadResponse { id }) => match instance.pending.take(&id) {
            Taken::Owner(Owner::Initialize) => {
                Err(HandshakeError::Refused("its answer to `initialize` is no valid response".to_owned()))
            }
            Taken::Owner(Owner::Discover) => Ok(Some(Heard::Discovered(None))),
            Taken::Owner(_) | Taken::Stray => Ok(None),
        },
        other => {
            instance.take(other);
            Ok(None)
        }
    }
}

/// A peer's words, fit for a status line.
fn shortened(raw: &[u8]) -> String {
    peer::printable(&String::from_utf8_lossy(raw), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_answers_to_the_question_decides_which_era_it_speaks_in() {
        let found = |answer: Result<&'static str, &'static str>| {
            let raw = |text: &'static str| Bytes::from_static(text.as_bytes());
            match finding(Some(answer.map(raw).map_err(raw))) {
                Finding::Modern(info) => info.protocol.to_owned(),
                Finding::Legacy => "legacy".to_owned(),
                Finding::Neither(why) => why,
            }
        };
        assert_eq!(found(Ok(r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#)), "2026-07-28");
        for legacy in [
            Ok("{}"),
            Err(r#"{"code":-32601,"message":"x"}"#),
            Err(r#"{"code":-32602,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#),
            Err("[]"),
        ] {
            assert_eq!(found(legacy), "legacy", "{legacy:?}");
        }
        let newer = Err(r#"{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}"#);
        assert!(found(newer).contains("2031-01-01"));
    }

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
