//! Commands of sessions and the manager to the task of one server, and their queue.
//!
//! Commands of one sender arrive in the order in which they were sent, so a cancellation never overtakes its call. A sender that
//! cannot wait sends its command beyond the capacity, so these senders must be bounded otherwise.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc::error::{SendError, TryRecvError, TrySendError};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::agents::Agent;
use super::call::{Call, CallKey, Failure};
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

/// The sender of the queue. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CommandQueue {
    #[expect(
        clippy::disallowed_types,
        reason = "senders wait for the capacity, or are bounded: by agents, their calls in flight, and instances"
    )]
    commands: mpsc::UnboundedSender<Queued>,
    /// What is left of [`MAX_COMMANDS`].
    capacity: Arc<Semaphore>,
}

/// The receiver of the queue.
#[derive(Debug)]
pub(crate) struct CommandReceiver {
    commands: mpsc::UnboundedReceiver<Queued>,
    capacity: Arc<Semaphore>,
}

#[derive(Debug)]
struct Queued {
    command: Command,
    /// It is within the capacity.
    is_counted: bool,
}

impl CommandQueue {
    /// A queue with its receiver.
    pub(crate) fn new() -> (Self, CommandReceiver) {
        let (sender, commands) = mpsc::unbounded_channel();
        let capacity = Arc::new(Semaphore::new(MAX_COMMANDS));
        (Self { commands: sender, capacity: Arc::clone(&capacity) }, CommandReceiver { commands, capacity })
    }

    /// Returns the command if the queue is full or the task has ended.
    pub(crate) fn try_send(&self, command: Command) -> Result<(), TrySendError<Command>> {
        match self.capacity.try_acquire() {
            Ok(permit) => {
                permit.forget();
                self.put(command, true).map_err(|SendError(command)| TrySendError::Closed(command))
            }
            Err(_) if self.commands.is_closed() => Err(TrySendError::Closed(command)),
            Err(_) => Err(TrySendError::Full(command)),
        }
    }

    /// Sends the command now. For senders that cannot wait and whose commands are bounded otherwise.
    pub(crate) fn send_soon(&self, command: Command) {
        let sent = match self.try_send(command) {
            Err(TrySendError::Full(command)) => self.put(command, false),
            Err(TrySendError::Closed(command)) => Err(SendError(command)),
            Ok(()) => Ok(()),
        };
        // The task has ended. Only calls have an answer.
        if let Err(SendError(Command::Call(call))) = sent {
            call.refuse_without_instance(Failure::ShuttingDown);
        }
    }

    /// Waits for capacity.
    pub(crate) async fn send(&self, command: Command) -> Result<(), SendError<Command>> {
        match self.capacity.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return Err(SendError(command)),
        }
        self.put(command, true)
    }

    fn put(&self, command: Command, is_counted: bool) -> Result<(), SendError<Command>> {
        let sent = self.commands.send(Queued { command, is_counted });
        sent.map_err(|SendError(queued)| SendError(queued.command))
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.commands.same_channel(&other.commands)
    }
}

impl CommandReceiver {
    /// The next command; `None` once the queue is closed and empty, or has no sender.
    pub(crate) async fn recv(&mut self) -> Option<Command> {
        let queued = self.commands.recv().await;
        queued.map(|queued| self.taken(queued))
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Command>> {
        self.commands.poll_recv(cx).map(|queued| queued.map(|queued| self.taken(queued)))
    }

    pub(crate) fn try_recv(&mut self) -> Result<Command, TryRecvError> {
        let queued = self.commands.try_recv()?;
        Ok(self.taken(queued))
    }

    fn taken(&self, Queued { command, is_counted }: Queued) -> Command {
        if is_counted {
            self.capacity.add_permits(1);
        }
        command
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Refuses further commands. Those in the queue can still be received.
    pub(crate) fn close(&mut self) {
        self.capacity.close();
        self.commands.close();
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        self.capacity.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::messages::call::CallKey;

    fn cancel(serial: u64) -> Command {
        Command::Cancel { key: CallKey { session: 1, serial }, notification: None }
    }

    fn serial(command: Option<Command>) -> Option<u64> {
        match command? {
            Command::Cancel { key, .. } => Some(key.serial),
            _ => None,
        }
    }

    /// One sender fills the queue, partly by waiting and partly beyond the capacity, while another thread receives.
    #[tokio::test]
    async fn commands_of_one_sender_arrive_in_order() {
        const ALL: u64 = 20 * MAX_COMMANDS as u64;
        let (queue, mut commands) = CommandQueue::new();
        let receiver = std::thread::spawn(move || {
            let received: Vec<_> = std::iter::from_fn(|| {
                let queued = commands.commands.blocking_recv();
                serial(queued.map(|queued| commands.taken(queued)))
            })
            .collect();
            assert!(received.into_iter().eq(0..ALL));
        });
        for number in 0..ALL {
            match number / 64 % 3 {
                0 => queue.send(cancel(number)).await.expect("the task lives"),
                _ => queue.send_soon(cancel(number)),
            }
        }
        drop(queue);
        tokio::task::spawn_blocking(move || receiver.join()).await.expect("a thread").expect("in order");
    }

    #[tokio::test]
    async fn senders_that_can_wait_do_not_exceed_the_capacity() {
        let (queue, mut commands) = CommandQueue::new();
        for number in 0..=MAX_COMMANDS as u64 {
            queue.send_soon(cancel(number));
        }
        assert!(matches!(queue.try_send(cancel(7)), Err(TrySendError::Full(_))));
        let mut waiting = std::pin::pin!(queue.send(cancel(1 << 20)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        for number in 0..=MAX_COMMANDS as u64 {
            assert_eq!(serial(commands.recv().await), Some(number));
        }
        waiting.await.expect("the task lives");
        assert_eq!(serial(commands.recv().await), Some(1 << 20));
    }
}
