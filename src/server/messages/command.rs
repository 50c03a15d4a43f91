//! What sessions and the manager send to the task of one server.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::agents::Agent;
use super::call::{Call, CallKey};
use super::cancellation::Cancellation;
use super::task_subscribers::Interest;

/// Commands waiting for a server's task. It empties the queue at every permit, whatever its server does; when it is full,
/// whoever brings one waits for that.
pub(crate) const MAX_COMMANDS: usize = 1024;

/// What a session asks of a server's task. Small: the queue of each server has room for 32 from its first moment.
#[derive(Debug)]
pub enum Command {
    /// An agent is there, and may have calls.
    Attach {
        /// Which one, and what it wants to be told.
        agent: Box<Agent>,
        /// Its working directory, if that is known.
        cwd: Option<Arc<str>>,
        /// Dropped when its tools are known, as far as they will be.
        unlisted: oneshot::Sender<Infallible>,
    },
    /// An agent is there no more.
    Detach {
        /// Number of its connection.
        session: u64,
    },
    /// An agent is to hear of something from now on, or no more, and waits for no answer to that.
    Hear {
        /// Which one.
        agent: Box<Agent>,
        /// Of what.
        interest: Box<Interest>,
    },
    /// The roots of an agent have changed.
    RootsChanged {
        /// Number of its connection.
        session: u64,
        /// The whole notification, without its newline.
        line: Bytes,
    },
    /// Have the server do this; exactly one answer follows, unless it is cancelled first.
    Call(Box<Call>),
    /// Ask the instance how it is: this is answered if it does, and dropped if there is none.
    Check(oneshot::Sender<()>),
    /// Lists of the server have changed, as another instance has found out.
    Relist,
    /// The agent never heard of a task that was made for it, and will not ask for it.
    DropTask {
        /// Number of its connection.
        session: u64,
        /// The task's id, as text.
        id: Bytes,
    },
    /// The agent wants no answer any more.
    Cancel {
        /// The call.
        key: CallKey,
        /// The agent's own words, if it did not just leave.
        words: Option<Box<Cancellation>>,
    },
}
