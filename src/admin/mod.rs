//! The operator's protocol on `admin.sock`: typed JSON-RPC, one message a line.
//!
//! Knows: [`report`], framing. Must not touch: the daemon's internals; it is handed reports. Both sides say their
//! version, so that a mismatch is said rather than guessed around.

mod channel;
mod client;
pub mod report;
mod serve;

use serde::{Deserialize, Serialize};

pub use self::client::{AskError, status};
pub(crate) use self::serve::{Query, serve};
use crate::jsonrpc::reply::ErrorObject;

/// A question to the daemon.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    jsonrpc: String,
    id: u64,
    method: String,
    params: Params,
}

/// What every question carries.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Params {
    /// Version of the asking program.
    version: String,
}

/// The daemon's answer: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
struct Response {
    jsonrpc: String,
    /// Absent if the question could not be read.
    id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<report::Report>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

const STATUS: &str = "status";
/// Largest admin message, in bytes.
const MAX_MESSAGE: usize = 4 << 20;
