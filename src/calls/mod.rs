//! The history of calls: one entry for each call that ended, in bounded memory and, if configured, in a file.
//!
//! ```text
//! session ── CompletedCall ─► history ─┬─► queue ─► subscribers
//!                                      └─► queue ─► file thread ─► file, file.1
//! ```
//!
//! The end of a call wakes no task unless there is a subscriber or a file. These take entries in batches.
//!
//! Must not touch: sessions, servers, and messages except for the bytes that show how a call ended.

mod file;
mod filter;
mod history;
mod outcome;
pub mod report;
pub(crate) mod span;
pub(crate) mod text;
mod trace;

use std::sync::Arc;
use std::time::SystemTime;

pub use self::filter::{Filter, ToolFilter};
pub use self::history::{CallEvent, History, Subscription};
pub use self::outcome::CallOutcome;
pub use crate::clock::Moment;

/// The agent behind a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Number of its connection.
    pub session: u64,
    /// Profile of the socket that it connected to.
    pub profile: Arc<str>,
    /// Process id at connect time, if the kernel reported it.
    pub pid: Option<i32>,
    /// User id at connect time.
    pub uid: u32,
    /// `name version` of its `clientInfo`.
    pub client: Option<String>,
}

/// A call that has ended.
#[derive(Debug)]
pub struct CompletedCall {
    /// When it began.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// The agent that sent it.
    pub caller: Arc<Caller>,
    /// The server it was routed to, if any.
    pub server: Option<Arc<str>>,
    /// The server's own name for the tool. Without a server, the name that the agent sent, cut to a bounded length.
    pub tool: Arc<str>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Size of the request in bytes.
    pub request_bytes: usize,
    /// Size of the answer in bytes; 0 if there was none.
    pub reply_bytes: usize,
    /// Its raw arguments, cut to a bounded length, if the server has `log_arguments`.
    pub arguments: Option<Box<str>>,
}

/// An entry of the history.
#[derive(Debug)]
pub struct Entry {
    /// Time of day when the call began, by the clock when it ended.
    pub time: SystemTime,
    /// The call.
    pub record: CompletedCall,
}
