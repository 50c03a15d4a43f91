//! Who called what: one entry for each call that ended, kept in a bounded ring and, if configured, in a file.
//!
//! Lives here: what is known of a call that has ended ([`Record`], [`Outcome`]), its [`span`], the way to the task that
//! keeps the entries ([`ring`], [`keeper`]), the file ([`file`]), and the entry as programs read it ([`report`]).
//! Must not touch: sessions, servers, messages but for the few bytes that say how a call ended.
//!
//! ```text
//! session ── Record ─► ring (full: the oldest makes room) ─► keeper: history ─► questions, followers
//!                                                               └─► queue ─► a thread of its own ─► file, file.1
//! ```
//!
//! Nobody is woken at the end of a call unless somebody follows or a file is configured; then the keeper takes entries in
//! batches.

mod file;
mod filter;
mod follower;
mod keeper;
mod outcome;
pub mod report;
mod ring;
pub(crate) mod span;
pub(crate) mod text;
mod trace;

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};

pub use self::filter::{Filter, ToolFilter};
pub use self::follower::Followed;
pub use self::keeper::{Told, start};
pub use self::outcome::Outcome;
pub use self::ring::Log;
pub use crate::clock::Moment;

/// Questions that wait for the keeper; one more waits with whoever asks.
const QUESTION_PLACES: usize = 16;

/// The agent behind a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Number of its connection.
    pub session: u64,
    /// Profile of the socket it came by.
    pub profile: Arc<str>,
    /// Process id at connect time, if the kernel told it.
    pub pid: Option<i32>,
    /// User id at connect time.
    pub uid: u32,
    /// `name version` it introduced itself with.
    pub client: Option<String>,
}

/// A call that has ended.
#[derive(Debug)]
pub struct Record {
    /// When it began.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// Who asked.
    pub caller: Arc<Caller>,
    /// The server it was routed to, if it was to any.
    pub server: Option<Arc<str>>,
    /// The server's own name for the tool; without a server what the agent asked for, cut to a bounded length.
    pub tool: Arc<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Size of the request in bytes.
    pub request_bytes: usize,
    /// Size of the answer in bytes; 0 if there was none.
    pub reply_bytes: usize,
    /// Its arguments, raw and cut to a bounded length, if its server is configured so.
    pub arguments: Option<Box<str>>,
}

/// A record that is kept.
#[derive(Debug)]
pub struct Entry {
    /// Time of day when the call began, by the clock as it was set when the entry was taken from the ring.
    pub time: SystemTime,
    /// What is known of the call.
    pub record: Record,
}

/// The way to ask the keeper; cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader(mpsc::Sender<Question>);

#[derive(Debug)]
struct Question {
    last: usize,
    filter: Filter,
    follow: bool,
    answer: oneshot::Sender<Told>,
}

impl Reader {
    /// The last entries that `filter` admits, oldest first, at most `last`; with `follow` also the way to those that come
    /// after them. `None` if the daemon is being stopped.
    pub async fn ask(&self, last: usize, filter: Filter, follow: bool) -> Option<Told> {
        let (answer, told) = oneshot::channel();
        self.0.send(Question { last, filter, follow, answer }).await.ok()?;
        told.await.ok()
    }
}
