//! What the agent receives.
//!
//! Responses are always sent. Notifications are queued while the agent is behind. A full queue drops the oldest notifications.
//! Responses are never queued here.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::transport::{Address, Transport};
use crate::account::{ALLOWANCE, Account};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::message_limit::MessageLimit;
use crate::server::Counter;
use crate::server::messages::call::CallKey;

/// An agent with more unread bytes is behind.
const BEHIND: usize = 256 << 10;
/// Limit of unread bytes in buffer units. An agent over the limit is disconnected.
const MAX_UNREAD_MEMORY: usize = 4;

/// The transport, with the notifications that wait for it and the memory that it uses.
pub(super) struct Output<T> {
    transport: T,
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

impl<T: Transport> Output<T> {
    pub(super) fn new(transport: T, limit: MessageLimit, dropped: Arc<Counter>, account: Arc<Account>) -> Self {
        Self { transport, delayed: NotificationQueue::default(), dropped, account, unreturned_bytes: 0, limit }
    }

    /// The transport, to receive from.
    pub(super) fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The limit of each message, in each direction.
    pub(super) fn limit(&self) -> &MessageLimit {
        &self.limit
    }

    /// Writes as much as the agent accepts. Pending if it accepts nothing; ready, too, if there is nothing to write.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<WriteProgress>> {
        if self.is_empty() {
            return Poll::Ready(Ok(WriteProgress::default()));
        }
        let (was_behind, had_room) = (self.is_behind(), self.has_room());
        ready!(self.transport.poll_write(cx))?;
        Poll::Ready(Ok(WriteProgress { caught_up: was_behind && !self.is_behind(), made_room: !had_room }))
    }

    /// Whether everything was written.
    pub(super) fn is_empty(&self) -> bool {
        self.transport.unwritten_bytes() == 0
    }

    fn is_behind(&self) -> bool {
        self.transport.unwritten_bytes() > BEHIND
    }

    /// Whether so little output is unwritten that mcpd may read more messages of the agent.
    pub(super) fn has_room(&self) -> bool {
        self.transport.unwritten_bytes() <= self.limit.buffer_unit()
    }

    /// Whether the agent has left so much unread that it has to be disconnected.
    pub(super) fn is_stuck(&self) -> bool {
        self.transport.unwritten_bytes() > MAX_UNREAD_MEMORY * self.limit.buffer_unit()
    }

    /// Publishes the memory that the connection uses, including `collected` bytes of responses of servers that are not sent yet. Reads
    /// nothing for a while if the agent sends too fast.
    pub(super) fn publish_memory(&mut self, collected: usize) {
        let unreturned_bytes = self.transport.unreturned_bytes();
        self.account.hold(self.transport.unwritten_bytes() + unreturned_bytes + collected);
        let read = unreturned_bytes.saturating_sub(self.unreturned_bytes.max(ALLOWANCE));
        self.unreturned_bytes = unreturned_bytes;
        if read > 0 {
            self.pause(self.account.pause_in_line(read, Instant::now()));
        }
    }

    /// Receives nothing for this time.
    pub(super) fn pause(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.transport.pause(pause);
        }
    }

    /// Forgets everything that was not written.
    pub(super) fn clear(&mut self) {
        self.transport.drop_unwritten();
        self.account.hold(0);
    }

    /// Sends a whole line.
    pub(super) fn send(&mut self, to: Address<'_>, line: Bytes) {
        self.transport.send(to, [line]);
    }

    /// Sends a response line to the request `id`, in parts.
    pub(super) fn respond_in_parts(&mut self, id: &Bytes, parts: impl IntoIterator<Item = Bytes>) {
        self.transport.send(Address::Response(id), parts);
    }

    /// Sends a response line to the request `id`.
    pub(super) fn respond_line(&mut self, id: &Bytes, line: Bytes) {
        self.send(Address::Response(id), line);
    }

    /// Answers the request `id` with this raw result.
    pub(super) fn respond(&mut self, id: &Bytes, result: &[u8]) {
        self.respond_line(id, reply::result(id, result));
    }

    /// Answers a request, or a message without an id, with an error.
    pub(super) fn respond_error(&mut self, id: Option<&Bytes>, error: &ErrorObject) {
        self.send(id.map_or(Address::Session, Address::Response), reply::error(id.map(|id| &id[..]), error));
    }

    /// The same with an error of JSON-RPC.
    pub(super) fn refuse(&mut self, id: Option<&Bytes>, code: i32, message: impl Into<String>) {
        self.respond_error(id, &ErrorObject::new(code, message));
    }

    /// Sends a notification. While the agent is behind, it is delayed, and may be dropped. One over the limit is dropped, and so is one of
    /// a call that has no address.
    pub(super) fn notify<'a>(
        &mut self,
        notification: OutgoingNotification,
        address: impl FnOnce(CallKey) -> Option<Address<'a>>,
    ) {
        if !self.limit.permits(&notification.line) {
            self.dropped.add_one();
        } else if self.is_behind() {
            self.dropped.add(self.delayed.push(notification));
        } else if let Some(to) = notification.key.map_or(Some(Address::Session), address) {
            self.send(to, notification.line);
        }
    }

    /// Sends the delayed notifications that still have an address.
    pub(super) fn send_delayed<'a>(&mut self, address: impl Fn(CallKey) -> Option<Address<'a>>) {
        for OutgoingNotification { key, line } in self.delayed.take() {
            if let Some(to) = key.map_or(Some(Address::Session), &address) {
                self.send(to, line);
            }
        }
    }

    /// Called before the response of the call `key`. Sends all delayed notifications or, if there is no room, drops those of
    /// this call.
    pub(super) fn flush_or_drop_delayed<'a>(&mut self, key: CallKey, address: impl Fn(CallKey) -> Option<Address<'a>>) {
        if self.delayed.is_empty() {
            return;
        }
        if self.has_room() {
            self.send_delayed(address);
        } else {
            self.dropped.add(self.delayed.remove(key));
        }
    }
}

/// One more drops the oldest, which is counted.
const CAPACITY: usize = 256;
/// The oldest are dropped until the newest fits; a larger one is dropped itself.
const MAX_BYTES: usize = 256 << 10;

pub(super) struct OutgoingNotification {
    /// The call or subscription that it belongs to, if any.
    pub(super) key: Option<CallKey>,
    /// The whole line.
    pub(super) line: Bytes,
}

#[derive(Default)]
pub(super) struct NotificationQueue {
    /// Oldest first.
    waiting: VecDeque<OutgoingNotification>,
    bytes: usize,
}

impl NotificationQueue {
    /// Returns how many were dropped.
    pub(super) fn push(&mut self, notification: OutgoingNotification) -> u64 {
        if notification.line.len() > MAX_BYTES {
            return 1;
        }
        let mut dropped = 0;
        while self.waiting.len() == CAPACITY || self.bytes + notification.line.len() > MAX_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.line.len();
            dropped += 1;
        }
        self.bytes += notification.line.len();
        self.waiting.push_back(notification);
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops the notifications of one call. Returns how many.
    pub(super) fn remove(&mut self, key: CallKey) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|notification| notification.key != Some(key));
        self.bytes = self.waiting.iter().map(|notification| notification.line.len()).sum();
        (before - self.waiting.len()) as u64
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = OutgoingNotification> + use<> {
        std::mem::take(self).waiting.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::future::{BoxFuture, FutureExt};
    use proptest::prelude::*;

    use super::super::agent_message::AgentMessage;
    use super::*;
    use crate::account::tests::unlimited;
    use crate::transport::Outbox;

    const MAX_MESSAGE: usize = 1 << 20;

    /// An agent that reads everything as soon as it is written, and sends nothing.
    #[derive(Default)]
    struct Reader {
        outbox: Outbox,
        read: Vec<u8>,
        /// What each message belongs to, by id; `None` for the session.
        addresses: Vec<Option<Bytes>>,
    }

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

        fn send(&mut self, to: Address<'_>, message: impl IntoIterator<Item = Bytes>) {
            self.addresses.push(match to {
                Address::Response(id) | Address::DuringCall(id) => Some(id.clone()),
                Address::Session => None,
            });
            for part in message {
                self.outbox.push(part);
            }
        }

        fn unwritten_bytes(&self) -> usize {
            self.outbox.bytes()
        }

        fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.outbox.poll_write(cx, &mut self.read)
        }

        fn drop_unwritten(&mut self) {
            self.outbox = Outbox::default();
        }

        fn stop_receiving(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn closed(&self) -> io::Result<BoxFuture<'static, ()>> {
            Ok(std::future::pending().boxed())
        }
    }

    fn output() -> Output<Reader> {
        let limit = MessageLimit::new("", None, MAX_MESSAGE);
        Output::new(Reader::default(), limit, Arc::default(), unlimited())
    }

    /// Writes everything. What the last write has changed, and what the agent has read.
    fn write(output: &mut Output<Reader>) -> (WriteProgress, String) {
        let mut written = WriteProgress::default();
        while !output.is_empty() {
            let polled = output.poll_write(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Ok(changed)) = polled else { panic!("{polled:?}") };
            written = changed;
        }
        (written, String::from_utf8(std::mem::take(&mut output.transport.read)).expect("text"))
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
        let id = Bytes::from("7");
        output.notify(notification(1), |_| Some(Address::DuringCall(&id)));
        output.notify(notification(2), |_| None);
        assert_eq!(write(&mut output).1, "1\n");
        output.respond_line(&id, line(BEHIND + 1));
        output.notify(notification(3), |_| Some(Address::Session));
        output.notify(notification(4), |_| Some(Address::Session));
        let (written, read) = write(&mut output);
        assert!(written.caught_up && !written.made_room && read.len() == BEHIND + 1);
        output.send_delayed(|key| (key.serial == 4).then_some(Address::DuringCall(&id)));
        output.notify(OutgoingNotification { key: None, line: line(2) }, |_| None);
        assert_eq!(write(&mut output).1, "4\nx\n");
        let call = Some(id.clone());
        assert_eq!(output.transport.addresses, [call.clone(), call.clone(), call, None]);
    }

    #[test]
    fn delayed_notifications_precede_the_response_of_their_call_or_are_dropped() {
        let (mut output, id) = (output(), Bytes::from("7"));
        let current = |_| Some(Address::Session);
        output.respond_line(&id, line(BEHIND + 1));
        output.notify(notification(1), current);
        output.flush_or_drop_delayed(key(1), current);
        assert!(write(&mut output).1.ends_with("\n1\n"));
        output.respond_line(&id, line(MAX_MESSAGE + 1));
        output.notify(notification(2), current);
        output.notify(notification(3), current);
        output.flush_or_drop_delayed(key(2), current);
        assert_eq!(output.dropped.get(), 1);
        assert!(write(&mut output).0.made_room);
        output.send_delayed(current);
        assert_eq!(write(&mut output).1, "3\n");
    }

    fn sized(serial: u64, size: usize) -> OutgoingNotification {
        OutgoingNotification { key: Some(CallKey { session: 1, serial }), line: vec![b'x'; size].into() }
    }

    #[test]
    fn only_notifications_of_the_call_are_removed() {
        let mut queue = NotificationQueue::default();
        for serial in [1, 2, 1, 3] {
            queue.push(sized(serial, 10));
        }
        let ended = CallKey { session: 1, serial: 1 };
        assert_eq!((queue.remove(ended), queue.remove(ended), queue.bytes), (2, 0, 20));
        let left: Vec<_> = queue.take().filter_map(|notification| notification.key).map(|key| key.serial).collect();
        assert!(left == [2, 3] && queue.is_empty());
    }

    proptest! {
        #[test]
        fn newest_notifications_stay_in_order_and_dropped_ones_are_counted(
            sizes in prop::collection::vec(prop_oneof![9 => 0..9usize, 1 => 0..MAX_BYTES + 9], 0..1000),
        ) {
            let (mut queue, mut dropped) = (NotificationQueue::default(), 0);
            for (serial, size) in (0..).zip(&sizes) {
                dropped += queue.push(sized(serial, *size));
                prop_assert!(queue.waiting.len() <= CAPACITY && queue.bytes <= MAX_BYTES);
            }
            let queued: Vec<_> = queue.take().filter_map(|notification| notification.key).map(|key| key.serial as usize).collect();
            prop_assert_eq!(queued.len() as u64 + dropped, sizes.len() as u64);
            let fitting: Vec<_> = (0..sizes.len()).filter(|serial| sizes[*serial] <= MAX_BYTES).collect();
            prop_assert_eq!(&queued[..], &fitting[fitting.len() - queued.len()..]);
            prop_assert_eq!(queue.bytes, 0);
        }
    }
}
