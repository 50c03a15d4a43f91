//! The operator's protocol on `admin.sock`: typed JSON-RPC, one message a line, one question at a time.
//!
//! Knows: the manager, [`crate::calls`], framing. Must not touch: the daemon's internals; it is handed the ways to them
//! ([`Access`]). Both sides say their version, so that a mismatch is said rather than guessed around.
//!
//! | method | params beside `version` | result |
//! | --- | --- | --- |
//! | `status` | | [`report::Report`] |
//! | `check` | | a notification `waiting`, then [`report::Report`] |
//! | `log_level` | `filter`, if it is to be changed | the filter in force |
//! | `calls` | [`CallsWanted`] | a notification `call` for each entry, then [`CallsTold`]; then more of them, if followed |
//! | `logs` | [`LogsWanted`] | a notification `line` for each line, then [`LogsTold`]; then more of them, if followed |
//! | `tools` | [`ToolsWanted`] | a notification `tool` for each that a server lists, then [`report::ToolsTold`] |
//! | `restart` | `server` | a notification `waiting`, then [`report::ServerTold`] |
//! | `enable` | `server`, `tool`, if it is about one | as above |
//! | `disable` | the same; `stop`, if its process is to end | as above |
//! | `health` | `server`, `vouched` | as above |
//! | `reload` | `environment`, if variables are to be changed | a notification `waiting`, then [`report::ReloadReport`] |

mod channel;
mod check;
mod client;
mod environment;
mod feed;
mod lines;
mod logs;
mod operator;
mod orders;
pub mod report;
mod serve;
mod tools;

use serde::{Deserialize, Serialize};

pub(crate) use self::client::reload_environment;
pub use self::client::{AskError, Next, Order, calls, check, log_level, logs, order, reload, status, tools};
pub(crate) use self::environment::EnvironmentChanges;
pub(crate) use self::operator::{Access, MAX_LASTING, Query, ReloadAnswer, ReloadRequest};
pub(crate) use self::serve::{Activity, serve};
use crate::calls::ToolFilter;
use crate::calls::report::CallReport;
use crate::jsonrpc::reply::ErrorObject;
use crate::server::HealthOverride;

/// A question to the daemon.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    jsonrpc: String,
    id: u64,
    method: String,
    params: Params,
}

/// What questions carry.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Params {
    /// Version of the asking program.
    version: String,
    /// With `calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<CallsWanted>,
    /// With `log_level`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// With `logs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logs: Option<LogsWanted>,
    /// With `tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<ToolsWanted>,
    /// With `reload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    environment: Option<EnvironmentChanges>,
    /// With what is about one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// With `disable`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stop: bool,
    /// With `enable` and `disable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// With `health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vouched: Option<HealthOverride>,
}

/// Which calls are asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallsWanted {
    /// At most so many of those that have ended.
    pub last: usize,
    /// Only those of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Only those of this tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolFilter>,
    /// Those that end from now on as well, until the connection ends.
    pub follow: bool,
}

/// What there is to say about all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsTold {
    /// Entries that are not in the file: it could not be written, or too many calls ended at once.
    pub unwritten: u64,
}

/// Which lines of servers are asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogsWanted {
    /// At most so many of those that are kept.
    pub last: usize,
    /// Only those of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Those that are written from now on as well, until the connection ends.
    pub follow: bool,
}

/// That the lines that were kept are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsTold {}

/// Which tools are asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolsWanted {
    /// As agents of this profile see them, or do not; absent: of the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Only the tools that this name stands for, with their whole definitions: the exposed name, or `SERVER/TOOL`. If agents see
    /// no tool by the name, those that are hidden and would have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One line from the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum FromDaemon<T> {
    Event(Event),
    Response(Response<T>),
}

/// A notification.
#[derive(Debug, Serialize, Deserialize)]
struct Event {
    jsonrpc: String,
    #[serde(flatten)]
    event: Told,
}

/// What is told one by one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Told {
    /// A call that has ended.
    Call(Box<CallReport>),
    /// So many calls ended while this connection was not read from.
    Missed(u64),
    /// A line that a server has written.
    Line(Box<report::LineReport>),
    /// A tool that a server lists.
    Tool(Box<report::ToolReport>),
    /// So many lines made room while this connection was not read from.
    LinesMissed {
        /// Who wrote them.
        server: String,
        /// How many they are.
        count: u64,
    },
    /// The answer takes so long at most.
    Waiting {
        /// In milliseconds.
        at_most_ms: u64,
    },
}

/// The daemon's answer: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
struct Response<T> {
    jsonrpc: String,
    /// Absent if the question could not be read.
    id: Option<u64>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    result: Option<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// A default that asks nothing of `T`.
fn none<T>() -> Option<T> {
    None
}

/// Every result there is; who asks knows which one to expect.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Status(Box<report::Report>),
    Calls(CallsTold),
    Logs(LogsTold),
    LogLevel(String),
    Server(report::ServerTold),
    Reload(report::ReloadReport),
    Tools(report::ToolsTold),
}

const STATUS: &str = "status";
const CHECK: &str = "check";
const CALLS: &str = "calls";
const LOGS: &str = "logs";
const LOG_LEVEL: &str = "log_level";
const RESTART: &str = "restart";
const ENABLE: &str = "enable";
const DISABLE: &str = "disable";
const HEALTH: &str = "health";
const RELOAD: &str = "reload";
const TOOLS: &str = "tools";
/// Largest admin message, in bytes.
const MAX_MESSAGE: usize = 4 << 20;
