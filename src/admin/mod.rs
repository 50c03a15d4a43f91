//! The operator protocol on `admin.sock`: typed JSON-RPC, one message per line, one request at a time.
//!
//! The daemon passes its channels in [`Access`]. Requests carry
//! the client's version, so that the error for an unknown method can name both versions.
//!
//! With `masked`, an answer has no secrets of the daemon in its strings. If it cannot know all secrets, it refuses.
//!
//! | method | params beside `version` | result |
//! | --- | --- | --- |
//! | `status` | | [`report::Report`] |
//! | `process` | | [`report::ProcessReport`] |
//! | `check` | | a notification `waiting`, then [`report::Report`] |
//! | `metrics` | | a notification `text` per part of the text, then the number of its bytes |
//! | `mask` | `text` | the same, for the text without secrets |
//! | `log_level` | `filter`, to change it | the filter in effect |
//! | `calls` | [`CallsRequest`] | a notification `call` per record, then [`CallsSummary`]; with `follow`, new records |
//! | `logs` | [`LogsRequest`] | a notification `line` per line, then [`LogsSummary`]; with `follow`, new lines |
//! | `tap` | [`TapRequest`] | [`TapSummary`], then notifications `message`, `message_part` and `missed` until the connection closes |
//! | `tools` | [`ToolsRequest`] | a notification `tool` per tool, then [`report::ToolsSummary`] |
//! | `changes` | `server`, for one only | notifications `waiting`, `change` and `definition`, then [`report::ChangesSummary`] |
//! | `approve` | `server`, [`ApprovedDefinition`]s | a notification `waiting`, then [`report::ApprovalReport`] |
//! | `restart` | `server` | a notification `waiting`, then [`report::ControlReport`] |
//! | `restart_daemon` | | a notification `waiting`, then `true`: no server is left, and the next program follows |
//! | `enable` | `server`; `tool`, to enable only one | as above |
//! | `disable` | `server`; `tool`, to disable only one; `stop`, to stop the server | as above |
//! | `tokens` | | `true`: the tokens of loopback addresses were read again |
//! | `reload` | `environment`, to change variables | a notification `waiting`, then [`report::ReloadReport`] |

mod call_feed;
mod changes;
mod client;
mod control;
mod cpu;
mod feeds;
mod metrics;
mod operator;
pub mod report;
mod serve;
mod tap;
mod tools;

use std::collections::BTreeMap;
use std::{fmt, io};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tokio::net::UnixStream;
use tokio_serde::formats::Json;
use tokio_util::codec::{Decoder, Encoder, Framed};

pub(crate) use self::call_feed::{CallFeedEvent, follow_calls};
pub use self::client::{
    AdminError, FeedItem, ServerAction, calls, check, control, log_level, logs, metrics, read_tokens, reload, status,
    tools,
};
pub(crate) use self::client::{
    MASKED_VARIABLE, TIMEOUT, TapItem, approve, changes, is_masked, mask, process, reload_environment, restart_daemon,
    tap,
};
pub(crate) use self::cpu::CpuMeter;
pub(crate) use self::operator::{Access, MAX_LONG_REQUESTS, Query, ReloadAnswer, ReloadRequest, Restarting};
pub(crate) use self::report::ProcessReport;
pub(crate) use self::serve::{Activity, serve};
use crate::calls::ToolFilter;
use crate::calls::report::CallReport;
use crate::jsonrpc::codec::{Line, NdJson};
use crate::jsonrpc::reply::ErrorObject;
use crate::masking::Masking;
use crate::pins::{Digest, PinnedKind};
use crate::tap::report::TapReport;

/// A request to the daemon.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    jsonrpc: String,
    id: u64,
    method: String,
    params: Params,
}

/// Parameters of all methods.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize)]
struct Params {
    /// Version of the client.
    version: String,
    /// Whether secrets in the answer are masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
    /// With `calls`.
    calls: Option<CallsRequest>,
    /// With `log_level`.
    filter: Option<String>,
    /// With `logs`.
    logs: Option<LogsRequest>,
    /// With `mask`.
    text: Option<String>,
    /// With `tap`.
    tap: Option<TapRequest>,
    /// With `tools`.
    tools: Option<ToolsRequest>,
    /// With `reload`.
    environment: Option<EnvironmentChanges>,
    /// With `restart`, `enable`, `disable`, `changes` and `approve`.
    server: Option<String>,
    /// With `disable`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stop: bool,
    /// With `enable` and `disable`.
    tool: Option<String>,
    /// With `approve`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    definitions: Vec<ApprovedDefinition>,
}

/// A definition to approve: one that the operator has seen. Its name is known from the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovedDefinition {
    pub(crate) kind: PinnedKind,
    pub(crate) digest: Digest,
}

/// Selects call records.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallsRequest {
    /// Maximum number of existing records.
    pub last: usize,
    /// Only this server.
    pub server: Option<String>,
    /// Only this tool.
    pub tool: Option<ToolFilter>,
    /// Also sends records of calls that end later, until the connection closes.
    pub follow: bool,
}

/// Follows the existing records of a `calls` request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsSummary {
    /// Records missing from the file, because it could not be written or too many calls ended at once.
    pub unwritten: u64,
}

/// Selects stderr lines of servers.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogsRequest {
    /// Maximum number of existing lines.
    pub last: usize,
    /// Only these servers; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Also sends lines that are written later, until the connection closes.
    pub follow: bool,
}

/// Follows the existing lines of a `logs` request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsSummary {}

/// Selects messages of agents and servers.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TapRequest {
    /// Only those of this server, or of the agent with this session number or client name.
    pub peer: Option<String>,
    /// Only those of this method, with the responses; `*` at its end stands for any text.
    pub method: Option<String>,
}

/// From now on, messages are sent as they pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapSummary {}

/// Selects tools.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolsRequest {
    /// The profile whose view decides what is hidden. Default: the default profile.
    pub profile: Option<String>,
    /// An exposed name or `SERVER/TOOL`. Only matching tools are sent, with their definitions. An exposed name that no agent
    /// sees matches the hidden tools that could be exposed under it.
    pub name: Option<String>,
}

/// A message from the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum DaemonMessage<T> {
    Notification(Notification),
    Response(Response<T>),
}

/// A notification.
#[derive(Debug, Serialize, Deserialize)]
struct Notification {
    jsonrpc: String,
    #[serde(flatten)]
    event: AdminEvent,
}

/// Content of a notification.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum AdminEvent {
    /// A call that has ended.
    Call(Box<CallReport>),
    /// Number of records or messages dropped because the client did not read.
    Missed(u64),
    /// A message of an agent or a server.
    Message(Box<TapReport>),
    /// More text of the last message.
    MessagePart(String),
    /// A line that a server wrote to stderr.
    Line(Box<report::LineReport>),
    /// A part of the text of `metrics` or `mask`.
    Text(String),
    /// A tool that a server lists.
    Tool(Box<report::ToolReport>),
    /// A definition that is not approved.
    Change(Box<report::ChangeReport>),
    /// A part of a definition of the last change. One message has not enough space for a large definition.
    Definition(report::DefinitionPart),
    /// Lines that were overwritten because the client did not read.
    LinesMissed {
        /// Configured name of the server.
        server: String,
        /// Number of lines.
        count: u64,
    },
    /// Maximum time until the response.
    Waiting {
        /// In milliseconds.
        at_most_ms: u64,
    },
}

/// The daemon's answer: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
struct Response<T> {
    jsonrpc: String,
    /// Absent if the request was unreadable.
    id: Option<u64>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    result: Option<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// A default without the bound `T: Default`.
fn none<T>() -> Option<T> {
    None
}

/// Results of all methods. A client expects the type of its method.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Status(Box<report::Report>),
    Process(report::ProcessReport),
    Calls(CallsSummary),
    Logs(LogsSummary),
    LogLevel(String),
    Server(report::ControlReport),
    Reload(report::ReloadReport),
    Tap(TapSummary),
    Tools(report::ToolsSummary),
    Changes(report::ChangesSummary),
    Approval(report::ApprovalReport),
    Tokens(bool),
    Restart(bool),
    /// The number of bytes of all parts.
    Text(usize),
}

const STATUS: &str = "status";
const PROCESS: &str = "process";
const CHECK: &str = "check";
const CALLS: &str = "calls";
const LOGS: &str = "logs";
const LOG_LEVEL: &str = "log_level";
const RESTART: &str = "restart";
const RESTART_DAEMON: &str = "restart_daemon";
const ENABLE: &str = "enable";
const DISABLE: &str = "disable";
const RELOAD: &str = "reload";
const TAP: &str = "tap";
const TOOLS: &str = "tools";
const TOKENS: &str = "tokens";
const CHANGES: &str = "changes";
const APPROVE: &str = "approve";
const METRICS: &str = "metrics";
const MASK: &str = "mask";
/// Largest admin message, in bytes.
const MAX_MESSAGE: usize = 4 << 20;

/// Receives `In` and sends `Out`.
type Channel<In, Out> = tokio_serde::Framed<Framed<UnixStream, LineCodec>, In, Out, Json<In, Out>>;

fn channel<In, Out>(stream: UnixStream) -> Channel<In, Out>
where
    In: for<'a> Deserialize<'a> + Unpin,
    Out: Serialize + Unpin,
{
    let lines = Framed::new(stream, LineCodec { lines: NdJson::new(MAX_MESSAGE), masking: None });
    tokio_serde::Framed::new(lines, Json::default())
}

/// [`NdJson`] with the item types that `tokio_serde` needs.
#[derive(Debug)]
struct LineCodec {
    lines: NdJson,
    /// Removes secrets from the messages that are sent.
    masking: Option<Masking>,
}

/// Members of a message that masking does not change: they come before these.
const CONTENT: [&str; 3] = ["\"params\":", "\"result\":", "\"error\":"];

impl Decoder for LineCodec {
    type Item = BytesMut;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<BytesMut>> {
        match self.lines.decode(buffer)? {
            Some(Line::Whole(line)) => Ok(Some(BytesMut::from(line))),
            Some(Line::Oversized(_)) => Err(io::Error::other("the message is too large")),
            None => Ok(None),
        }
    }
}

impl Encoder<Bytes> for LineCodec {
    type Error = io::Error;

    fn encode(&mut self, mut message: Bytes, buffer: &mut BytesMut) -> io::Result<()> {
        if let Some(masking) = &mut self.masking {
            let text = str::from_utf8(&message).map_err(io::Error::other)?;
            let content = CONTENT.iter().filter_map(|name| text.find(name)).min().unwrap_or_default();
            message = masking.current().map_err(io::Error::other)?.apply_to_strings(text, content).into();
        }
        buffer.reserve(message.len() + 1);
        buffer.put(message);
        buffer.put_u8(b'\n');
        Ok(())
    }
}

/// New values by variable name; `None` unsets the variable. `Debug` shows names only.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EnvironmentChanges(pub(crate) BTreeMap<String, Option<String>>);

impl fmt::Debug for EnvironmentChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
