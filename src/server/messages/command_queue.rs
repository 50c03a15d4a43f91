//! The command queue of a server's task.
//!
//! Commands of one sender arrive in the order in which they were sent, so a cancellation never overtakes its call. A sender that
//! cannot wait for capacity puts its command into an overflow queue, which a separate task forwards. While the overflow queue is
//! not empty, no command passes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{Notify, mpsc};

use super::call::Failure;
use super::command::{Command, MAX_COMMANDS};

/// The sender of the queue. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CommandQueue {
    commands: mpsc::Sender<Command>,
    #[expect(
        clippy::disallowed_types,
        reason = "its senders are bounded: by agents, their calls in flight, and instances"
    )]
    overflow: mpsc::UnboundedSender<Command>,
    overflowing: Arc<Overflowing>,
}

/// The number of commands in the overflow queue.
#[derive(Debug, Default)]
struct Overflowing {
    count: AtomicUsize,
    none_left: Notify,
}

impl CommandQueue {
    /// A queue with its receiver.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let (overflow, overflowed) = mpsc::unbounded_channel();
        let overflowing = Arc::default();
        tokio::spawn(forward(overflowed, commands.clone(), Arc::clone(&overflowing)));
        (Self { commands, overflow, overflowing }, receiver)
    }

    /// Returns the command if the queue is full or the task has ended.
    pub(crate) fn try_send(&self, command: Command) -> Result<(), TrySendError<Command>> {
        if self.overflowing.is_any() { Err(TrySendError::Full(command)) } else { self.commands.try_send(command) }
    }

    /// Sends the command now or through the overflow queue. For senders that cannot wait and whose commands are bounded otherwise.
    pub(crate) fn send_soon(&self, command: Command) {
        match self.try_send(command) {
            Ok(()) => {}
            Err(TrySendError::Closed(command)) => refuse(command),
            Err(TrySendError::Full(command)) => {
                self.overflowing.count.fetch_add(1, Ordering::SeqCst);
                // The forwarding task runs as long as a sender exists.
                let _ = self.overflow.send(command);
            }
        }
    }

    /// Waits for capacity.
    pub(crate) async fn send(&self, command: Command) -> Result<(), SendError<Command>> {
        self.overflowing.wait_for_none().await;
        self.commands.send(command).await
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.commands.same_channel(&other.commands)
    }
}

impl Overflowing {
    fn is_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    async fn wait_for_none(&self) {
        while self.is_any() {
            let none_left = self.none_left.notified();
            if self.is_any() {
                none_left.await;
            }
        }
    }

    fn forwarded_one(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.none_left.notify_waiters();
        }
    }
}

/// Forwards the commands of the overflow queue until all senders are gone.
async fn forward(
    mut overflowed: mpsc::UnboundedReceiver<Command>,
    commands: mpsc::Sender<Command>,
    overflowing: Arc<Overflowing>,
) {
    while let Some(command) = overflowed.recv().await {
        if let Err(SendError(command)) = commands.send(command).await {
            refuse(command);
        }
        overflowing.forwarded_one();
    }
}

/// Answers a call, as the task has ended. Other commands have no answer.
fn refuse(command: Command) {
    if let Command::Call(call) = command {
        call.refuse_without_instance(Failure::ShuttingDown);
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

    /// One sender fills the queue, partly by waiting and partly through the overflow, while another thread receives.
    #[tokio::test]
    async fn commands_of_one_sender_arrive_in_order() {
        const ALL: u64 = 20 * MAX_COMMANDS as u64;
        let (queue, mut commands) = CommandQueue::new();
        let receiver = std::thread::spawn(move || {
            let received: Vec<_> = std::iter::from_fn(|| serial(commands.blocking_recv())).collect();
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
    async fn senders_that_can_wait_do_not_use_the_overflow() {
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
