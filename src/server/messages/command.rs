//! Commands of sessions and the manager to the task of one server.

use std::convert::Infallible;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::agents::Agent;
use super::call::{Call, CallKey};
use super::subscribers::SubscriptionChange;
use crate::config::AgentDirectory;
use crate::era::Era;
use crate::server::server_request::Cancellation;

/// Commands in the queue of a server's task. The task empties it each time it runs, even if the server hangs. The sender of a further
/// command waits.
pub(crate) const MAX_COMMANDS: usize = 1024;

/// A command. Small, as each queue allocates 32 at once.
#[derive(Debug)]
pub enum Command {
    /// Attach an agent, or replace its data (log level, capabilities, user).
    Attach {
        /// The agent.
        agent: Box<Agent>,
        /// Where it works.
        directory: AgentDirectory,
        /// Dropped when its instance has listed, or will not list.
        listed_signal: oneshot::Sender<Infallible>,
    },
    /// Detach an agent.
    Detach {
        /// Number of its connection.
        session: u64,
    },
    /// Begin or end a subscription. No response is sent.
    Subscribe {
        /// The agent.
        agent: Box<Agent>,
        /// Its subscription.
        change: Box<SubscriptionChange>,
    },
    /// The roots of an agent have changed.
    RootsChanged {
        /// Number of its connection.
        session: u64,
        /// The whole notification, without its newline.
        line: Bytes,
    },
    /// Forward a notification of an extension.
    Notify {
        /// Number of the connection of the agent.
        session: u64,
        /// The era of the agent.
        era: Era,
        /// The whole notification, without its newline.
        line: Bytes,
    },
    /// Forward a call, which gets exactly one answer, unless it is cancelled first.
    Call(Box<Call>),
    /// Check the health of the instance. The sender is used when the instance answers, and dropped if no instance runs.
    Check(oneshot::Sender<()>),
    /// Fetch the lists again, as another instance has reported a change.
    Relist,
    /// Start the next attempt now, if the server waits for one and calls may start it: the name that an agent calls may be of this server.
    Wake,
    /// Drop a task whose agent never received it.
    DropTask {
        /// Number of its connection.
        session: u64,
        /// The task's id, as text.
        id: Bytes,
    },
    /// Cancel a call.
    Cancel {
        /// The call.
        key: CallKey,
        /// The agent's `notifications/cancelled`; `None` if the agent has disconnected.
        notification: Option<Box<Cancellation>>,
    },
}
