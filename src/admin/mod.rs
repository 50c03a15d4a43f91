//! The operator's protocol on `admin.sock`: typed JSON-RPC, one message a line.
//!
//! Knows: [`report`], [`crate::calls`], framing. Must not touch: the daemon's internals; it is handed reports. Both sides say their
//! version, so that a mismatch is said rather than guessed around.
//!
//! | method | params beside `version` | result |
//! | --- | --- | --- |
//! | `status` | | [`report::Report`] |
//! | `log_level` | `filter`, if it is to be changed | the filter in force |
//! | `calls` | [`CallsWanted`] | a notification `call` for each entry, then [`CallsTold`]; then more of them, if followed |

mod channel;
mod client;
mod feed;
pub mod report;
mod serve;

use serde::{Deserialize, Serialize};

pub use self::client::{AskError, Calls, NextCall, calls, log_level, status};
pub(crate) use self::serve::{Access, Query, serve};
use crate::calls::report::CallReport;
use crate::jsonrpc::reply::ErrorObject;

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
    /// Those that end from now on as well, until the connection ends.
    pub follow: bool,
}

/// What there is to say about all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsTold {
    /// Entries that are not in the file: it could not be written, or too many calls ended at once.
    pub unwritten: u64,
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

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
enum Told {
    /// A call that has ended.
    Call(Box<CallReport>),
    /// So many calls ended while this connection was not read from.
    Missed(u64),
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
    LogLevel(String),
}

const STATUS: &str = "status";
const CALLS: &str = "calls";
const LOG_LEVEL: &str = "log_level";
/// Largest admin message, in bytes.
const MAX_MESSAGE: usize = 4 << 20;
