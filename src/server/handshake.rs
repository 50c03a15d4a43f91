//! What is said before the first call: `initialize` and `notifications/initialized`.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`. Knows one instance's streams; must not touch restarts, calls, processes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::instance::{Instance, Owner};
use super::link::Closed;
use super::tasks::TaskSupport;
use crate::era;
use crate::instructions;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::pending::Taken;
use crate::jsonrpc::{Malformed, Message, reply};
use crate::kind::{Kind, PerKind};
use crate::peer;
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

/// What a server said of itself.
#[derive(Debug, PartialEq)]
pub(super) struct ServerInfo {
    pub(super) protocol: &'static str,
    pub(super) software: Option<String>,
    /// In bounded length.
    pub(super) instructions: Option<Arc<str>>,
    /// What it lists; it is never asked for anything else.
    pub(super) offers: PerKind<bool>,
    /// Whether it can be asked from which level on it is to log.
    pub(super) logs: bool,
    /// Whether it makes tasks of calls, and what can be asked of them.
    pub(super) tasks: TaskSupport,
}

/// Why there is no [`ServerInfo`].
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// There is no way to the server any more.
    Closed(Closed),
    /// For a person, on one line.
    Refused(String),
}

/// Introduces mcpd to the server.
pub(super) async fn handshake(instance: &mut Instance) -> Result<ServerInfo, HandshakeError> {
    let params = Introduction {
        protocol_version: era::NEWEST_LEGACY,
        capabilities: instance.capabilities(),
        client_info: ClientInfo { name: "mcpd", version: env!("CARGO_PKG_VERSION") },
    };
    instance.request("initialize", &params, Owner::Initialize);
    let result = loop {
        if let Some(outcome) = next(instance).await? {
            let refused = |error: Bytes| format!("refused `initialize`: {}", shortened(&error));
            break outcome.map_err(|error| HandshakeError::Refused(refused(error)))?;
        }
    };
    let info = server_info(&result).map_err(HandshakeError::Refused)?;
    instance.protocol = Some(info.protocol);
    let initialized = instance.send(reply::notification("notifications/initialized"));
    instance.link.introduce(info.protocol, initialized);
    Ok(info)
}

/// One step of input and output; the answer to `initialize` once it is there.
async fn next(instance: &mut Instance) -> Result<Option<Result<Bytes, Bytes>>, HandshakeError> {
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
        Incoming::Message { message: Message::Response { id, outcome }, .. } => {
            let ours = matches!(instance.pending.take(&id), Taken::Owner(_));
            if !ours {
                instance.stats.stray_responses.add_one();
            }
            Ok(ours.then_some(outcome))
        }
        Incoming::Malformed(Malformed::BadResponse { id })
            if matches!(instance.pending.get_mut(&id), Some(Owner::Initialize)) =>
        {
            Err(HandshakeError::Refused("its answer to `initialize` is no valid response".to_owned()))
        }
        other => {
            instance.take(other);
            Ok(None)
        }
    }
}

fn server_info(result: &Bytes) -> Result<ServerInfo, String> {
    let malformed = || format!("malformed result of `initialize`: {}", shortened(result));
    let [version, capabilities, info] =
        members(result, ["protocolVersion", "capabilities", "serverInfo"]).map_err(|_| malformed())?;
    let version = version.as_ref().and_then(text).ok_or_else(malformed)?;
    let version = String::from_utf8_lossy(&version);
    let protocol =
        era::known(&version).ok_or_else(|| format!("speaks protocol version {version:?}, which mcpd does not"))?;
    let capabilities = capabilities.ok_or_else(malformed)?;
    let [tools, prompts, resources, logging, tasks] =
        members(&capabilities, ["tools", "prompts", "resources", "logging", "tasks"]).map_err(|_| malformed())?;
    let declared = |raw: &Option<Bytes>| raw.as_ref().is_some_and(|raw| raw[..] != b"null"[..]);
    let offers = PerKind::from_fn(|kind| match kind {
        Kind::Tools => declared(&tools),
        Kind::Prompts => declared(&prompts),
        Kind::Resources | Kind::Templates => declared(&resources),
    });
    let tasks = TaskSupport::read(tasks.as_ref().filter(|_| era::has(protocol, "tasks")));
    let software = info.and_then(|info| peer::software(&info, LONGEST));
    // Without them it serves as well.
    let instructions = members(result, ["instructions"]).ok().and_then(|[raw]| text(&raw?));
    let instructions = instructions.and_then(|text| instructions::kept(&String::from_utf8_lossy(&text)));
    let instructions = instructions.map(Arc::from);
    Ok(ServerInfo { protocol, software, instructions, offers, logs: declared(&logging), tasks })
}

/// A peer's words, fit for a status line.
fn shortened(raw: &[u8]) -> String {
    peer::printable(&String::from_utf8_lossy(raw), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &'static str, expected: Result<(&str, Option<&str>, bool), &str>) {
        let found = server_info(&Bytes::from_static(result.as_bytes()));
        match (found, expected) {
            (Ok(info), Ok(expected)) => {
                assert_eq!((info.protocol, info.software.as_deref(), info.offers[Kind::Tools]), expected, "{result}");
            }
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (found, _) => panic!("{result}: {found:?}"),
        }
    }

    #[test]
    fn reads_what_a_server_says_of_itself() {
        let full = r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"a\u001b","version":"1"},"x":1}"#;
        check(full, Ok(("2024-11-05", Some("a\u{fffd} 1"), true)));
        check(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#, Ok(("2025-11-25", None, false)));
    }

    #[test]
    fn refuses_what_it_cannot_speak() {
        check(r#"{"protocolVersion":"1999-01-01","capabilities":{}}"#, Err("1999-01-01"));
        check(r#"{"capabilities":{}}"#, Err("malformed"));
        check("[]", Err("malformed"));
        check(r#"{"protocolVersion":7,"capabilities":{}}"#, Err("malformed"));
    }
}
