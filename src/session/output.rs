//! The lines to the agent.
//!
//! Responses are always sent. Notifications are queued while the agent is behind. A full queue drops the oldest notifications.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::notification_queue::{NotificationQueue, OutgoingNotification};
use super::transport::Transport;
use crate::account::{ALLOWANCE, Account};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::message_limit::MessageLimit;
use crate::server::Counter;
use crate::server::messages::call::CallKey;
use crate::transport::Outbox;

/// An agent with more unread bytes is behind.
const BEHIND: usize = 256 << 10;
/// Limit of unread bytes in buffer units. An agent over the limit is disconnected.
const MAX_UNREAD_MEMORY: usize = 4;

pub(super) struct Output {
    outbox: Outbox,
    delayed: NotificationQueue,
    /// Notifications that were dropped.
    dropped: Arc<Counter>,
    /// Counts the memory that this connection uses.
    account: Arc<Account>,
    /// Bytes of incomplete input at the last `publish_memory`.
    unreturned_bytes: usize,
    limit: MessageLimit,
}

/// The effect of a write.
#[derive(Debug, Default)]
pub(super) struct WriteProgress {
    /// The agent is no longer behind, so delayed notifications can be sent.
    pub(super) caught_up: bool,
    /// There may be room for list changes again.
    pub(super) made_room: bool,
}

impl Output {
    pub(super) fn new(limit: MessageLimit, dropped: Arc<Counter>, account: Arc<Account>) -> Self {
        let (outbox, delayed) = (Outbox::default(), NotificationQueue::default());
        Self { outbox, delayed, dropped, account, unreturned_bytes: 0, limit }
    }

    /// The limit of each message, in each direction.
    pub(super) fn limit(&self) -> &MessageLimit {
        &self.limit
    }

    /// Writes as much as the agent accepts. Pending if it accepts nothing; ready, too, if there is nothing to write.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut impl Transport,
    ) -> Poll<io::Result<WriteProgress>> {
        if self.outbox.is_empty() {
            return Poll::Ready(Ok(WriteProgress::default()));
        }
        let (was_behind, had_room) = (self.is_behind(), self.has_room());
        ready!(transport.poll_write(cx, &mut self.outbox))?;
        Poll::Ready(Ok(WriteProgress { caught_up: was_behind && !self.is_behind(), made_room: !had_room }))
    }

    /// Whether everything was written.
    pub(super) fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    fn is_behind(&self) -> bool {
        self.outbox.bytes() > BEHIND
    }

    /// Whether so little output is unwritten that mcpd may read more messages of the agent.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.bytes() <= self.limit.buffer_unit()
    }

    /// Whether the agent has left so much unread that it has to be disconnected.
    pub(super) fn is_stuck(&self) -> bool {
        self.outbox.bytes() > MAX_UNREAD_MEMORY * self.limit.buffer_unit()
    }

    /// Publishes the memory that the connection uses, including `unreturned_bytes` bytes of its input and `collected` bytes of
    /// responses of servers that are not sent yet.
    /// Returns how long mcpd has to pause before it reads more.
    pub(super) fn publish_memory(&mut self, unreturned_bytes: usize, collected: usize) -> Duration {
        self.account.hold(self.outbox.bytes() + unreturned_bytes + collected);
        let read = unreturned_bytes.saturating_sub(self.unreturned_bytes.max(ALLOWANCE));
        self.unreturned_bytes = unreturned_bytes;
        if read == 0 { Duration::ZERO } else { self.account.pause_in_line(read, Instant::now()) }
    }

    /// Forgets everything that was not written.
    pub(super) fn clear(&mut self) {
        self.outbox = Outbox::default();
        self.account.hold(0);
    }

    /// Sends a whole line, in parts.
    pub(super) fn send(&mut self, parts: impl IntoIterator<Item = Bytes>) {
        for part in parts {
            self.outbox.push(part);
        }
    }

    /// Answers the request `id` with this raw result.
    pub(super) fn respond(&mut self, id: &Bytes, result: &[u8]) {
        self.send([reply::result(id, result)]);
    }

    /// Answers a request, or a message without an id, with an error.
    pub(super) fn respond_error(&mut self, id: Option<&Bytes>, error: &ErrorObject) {
        self.send([reply::error(id.map(|id| &id[..]), error)]);
    }

    /// The same with an error of JSON-RPC.
    pub(super) fn refuse(&mut self, id: Option<&Bytes>, code: i32, message: impl Into<String>) {
        self.respond_error(id, &ErrorObject::new(code, message));
    }

    /// Sends a notification. While the agent is behind, it is delayed, and may be dropped. One over the limit is dropped.
    pub(super) fn notify(&mut self, notification: OutgoingNotification, is_current: impl FnOnce(CallKey) -> bool) {
        if !self.limit.permits(&notification.line) {
            self.dropped.add_one();
        } else if self.is_behind() {
            self.dropped.add(self.delayed.push(notification));
        } else if notification.key.is_none_or(is_current) {
            self.outbox.push(notification.line);
        }
    }

    /// Sends the delayed notifications of which `is_current` is true.
    pub(super) fn send_delayed(&mut self, is_current: impl Fn(CallKey) -> bool) {
        for OutgoingNotification { key, line } in self.delayed.take() {
            if key.is_none_or(&is_current) {
                self.outbox.push(line);
            }
        }
    }

    /// Called before the response of the call `key`. Sends all delayed notifications or, if there is no room, drops those of
    /// this call.
    pub(super) fn flush_or_drop_delayed(&mut self, key: CallKey, is_current: impl Fn(CallKey) -> bool) {
        if self.delayed.is_empty() {
            return;
        }
        if self.has_room() {
            self.send_delayed(is_current);
        } else {
            self.dropped.add(self.delayed.remove(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::future::{BoxFuture, FutureExt};

    use super::super::agent_message::AgentMessage;
    use super::*;
    use crate::account::tests::unlimited;

    const MAX_MESSAGE: usize = 1 << 20;

    /// An agent that reads everything as soon as it is written, and sends nothing.
    #[derive(Default)]
    struct Reader(Vec<u8>);

    impl Transport for Reader {
        fn poll_message(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<AgentMessage>>> {
            Poll::Pending
        }

        fn next_buffered(&mut self) -> Option<AgentMessage> {
            None
        }

        fn unreturned_bytes(&self) -> usize {
            0
        }

        fn pause(&mut self, _: Duration) {}

        fn poll_write(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
            outbox.poll_write(cx, &mut self.0)
        }

        fn stop_receiving(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn closed(&self) -> io::Result<BoxFuture<'static, ()>> {
            Ok(std::future::pending().boxed())
        }
    }

    fn output() -> Output {
        Output::new(MessageLimit::new("", None, MAX_MESSAGE), Arc::default(), unlimited())
    }

    /// Writes everything. What the last write has changed, and what the agent has read.
    fn write(output: &mut Output) -> (WriteProgress, String) {
        let (mut reader, mut written) = (Reader::default(), WriteProgress::default());
        while !output.is_empty() {
            let polled = output.poll_write(&mut Context::from_waker(Waker::noop()), &mut reader);
            let Poll::Ready(Ok(changed)) = polled else { panic!("{polled:?}") };
            written = changed;
        }
        (written, String::from_utf8(reader.0).expect("text"))
    }

    fn notification(serial: u64) -> OutgoingNotification {
        OutgoingNotification { key: Some(key(serial)), line: Bytes::from(format!("{serial}\n")) }
    }

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn line(size: usize) -> Bytes {
        let mut line = vec![b'x'; size];
        line[size - 1] = b'\n';
        line.into()
    }

    #[test]
    fn notifications_wait_while_the_agent_is_behind() {
        let mut output = output();
        output.notify(notification(1), |_| true);
        output.notify(notification(2), |_| false);
        assert_eq!(write(&mut output).1, "1\n");
        output.send([line(BEHIND + 1)]);
        output.notify(notification(3), |_| true);
        output.notify(notification(4), |_| true);
        let (written, read) = write(&mut output);
        assert!(written.caught_up && !written.made_room && read.len() == BEHIND + 1);
        output.send_delayed(|key| key.serial == 4);
        assert_eq!(write(&mut output).1, "4\n");
    }

    #[test]
    fn delayed_notifications_precede_the_response_of_their_call_or_are_dropped() {
        let mut output = output();
        output.send([line(BEHIND + 1)]);
        output.notify(notification(1), |_| true);
        output.flush_or_drop_delayed(key(1), |_| true);
        assert!(write(&mut output).1.ends_with("\n1\n"));
        output.send([line(MAX_MESSAGE + 1)]);
        output.notify(notification(2), |_| true);
        output.notify(notification(3), |_| true);
        output.flush_or_drop_delayed(key(2), |_| true);
        assert_eq!(output.dropped.get(), 1);
        assert!(write(&mut output).0.made_room);
        output.send_delayed(|_| true);
        assert_eq!(write(&mut output).1, "3\n");
    }
}
