//! A message as operators receive it, and as a line of `mcpd tap --json`. Pure data.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::matcher::Meaning;
use super::{Direction, Passed, Peer};
use crate::clock::WallClockAnchor;
use crate::masking::mask::Masked;

/// A message that passed. Its text follows in parts.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapReport {
    /// As in [`TapLine`], and so are the others.
    pub time: String,
    /// The other end.
    pub peer: PeerReport,
    /// `from` or `to`.
    pub direction: String,
    /// Of the whole message.
    pub bytes: usize,
    /// Raw JSON.
    pub id: Option<String>,
    /// Of a request or notification.
    pub method: Option<String>,
    /// The method of the request.
    pub answers: Option<String>,
    /// Since the request.
    pub took_ms: Option<f64>,
    /// It answers with an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Number of masked values.
    pub masked: usize,
    /// The text, or its beginning.
    pub text: String,
    /// Number of messages that follow with more text.
    pub parts: usize,
}

/// The other end of a connection.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PeerReport {
    /// Number of an agent's session, as in `mcpd status`.
    pub agent: Option<u64>,
    /// `name version` of the agent's `clientInfo`, once it is known.
    pub client: Option<String>,
    /// Configured name of a server.
    pub server: Option<String>,
    /// Number of the connection to the server. Connections to all servers are counted together.
    pub connection: Option<u64>,
    /// Process id, if there is a process and it is known.
    pub pid: Option<i64>,
}

/// One message, on one line. A line with only `missed` marks where messages were dropped, because they came faster than they were read.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TapLine<'a> {
    /// When it passed: RFC 3339, in UTC, with microseconds.
    pub time: Option<&'a str>,
    /// The other end: an agent or a server.
    pub peer: Option<&'a PeerReport>,
    /// `from` the peer, or `to` the peer.
    pub direction: Option<&'a str>,
    /// Size of the message, without its line end, before values were masked.
    pub bytes: Option<usize>,
    /// The id of a request or response: a number or text.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub id: Option<&'a RawValue>,
    /// The method of a request or notification.
    pub method: Option<&'a str>,
    /// The method of the request that this response answers, if the request was seen.
    pub answers: Option<&'a str>,
    /// Time between that request and the response, in milliseconds to the microsecond.
    pub took_ms: Option<f64>,
    /// Present and true if the response is an error.
    pub error: Option<bool>,
    /// Number of secrets that `…` replaces in the message.
    pub masked: Option<usize>,
    /// The message, byte for byte, except for masked values. A line break between tokens, which only HTTP permits, is written as a space.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
    pub message: Option<&'a RawValue>,
    /// The text that passed, if it is not JSON. For a message over the limit, only its beginning.
    pub text: Option<&'a str>,
    /// Number of messages that are missing here.
    pub missed: Option<u64>,
}

impl TapReport {
    pub(crate) fn new(passed: &Passed, meaning: Meaning, id: Option<String>, masked: Masked) -> Self {
        let (answers, took) = meaning.answers.unzip();
        Self {
            time: humantime::format_rfc3339_micros(WallClockAnchor::now().time_of(passed.moment)).to_string(),
            peer: passed.peer().into(),
            direction: match passed.direction {
                Direction::From => "from",
                Direction::To => "to",
            }
            .to_owned(),
            bytes: passed.size,
            id,
            method: meaning.method,
            answers,
            took_ms: took.map(|took| (took.as_secs_f64() * 1e6).round() / 1e3),
            is_error: meaning.is_error,
            masked: masked.count,
            text: masked.text,
            parts: 0,
        }
    }

    /// Whether it goes towards servers: from an agent, or to a server.
    pub(crate) fn is_towards_servers(&self) -> bool {
        self.peer.agent.is_some() == (self.direction == "from")
    }

    /// Its text as JSON.
    pub(crate) fn message(&self) -> Option<&RawValue> {
        serde_json::from_str(&self.text).ok()
    }
}

impl<'a> From<&'a TapReport> for TapLine<'a> {
    fn from(report: &'a TapReport) -> Self {
        let message = report.message();
        Self {
            time: Some(&report.time),
            peer: Some(&report.peer),
            direction: Some(&report.direction),
            bytes: Some(report.bytes),
            id: report.id.as_deref().and_then(|id| serde_json::from_str(id).ok()),
            method: report.method.as_deref(),
            answers: report.answers.as_deref(),
            took_ms: report.took_ms,
            error: report.is_error.then_some(true),
            masked: (report.masked > 0).then_some(report.masked),
            text: message.is_none().then_some(&report.text),
            message,
            missed: None,
        }
    }
}

impl From<&Peer> for PeerReport {
    fn from(peer: &Peer) -> Self {
        match peer {
            Peer::Agent { session, pid, client } => {
                Self { agent: Some(*session), client: client(), pid: pid.map(i64::from), ..Self::default() }
            }
            Peer::Server { name, connection, pid } => Self {
                server: Some(name.to_string()),
                connection: Some(*connection),
                pid: pid.map(i64::from),
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_message_as_it_stood() {
        let text = r#"{"jsonrpc":"2.0", "id": 1.0,"result":{"a":"\u0061","n":1e400}}"#;
        let peer = PeerReport { server: Some("s".to_owned()), connection: Some(2), ..PeerReport::default() };
        let report = TapReport {
            time: "t".to_owned(),
            peer,
            direction: "from".to_owned(),
            bytes: text.len(),
            id: Some("1.0".to_owned()),
            text: text.to_owned(),
            ..TapReport::default()
        };
        let line = serde_json::to_string(&TapLine::from(&report)).expect("JSON");
        let expected =
            r#"{"time":"t","peer":{"server":"s","connection":2},"direction":"from","bytes":62,"id":1.0,"message":"#;
        assert_eq!(line, format!("{expected}{text}}}"));
        assert!(!report.is_towards_servers());
    }

    #[test]
    fn what_is_no_json_is_a_text() {
        let report = TapReport { text: "panic: \"x".to_owned(), ..TapReport::default() };
        let line: serde_json::Value = serde_json::to_value(TapLine::from(&report)).expect("JSON");
        assert_eq!((line["text"].as_str(), line.get("message")), (Some("panic: \"x"), None));
    }
}
