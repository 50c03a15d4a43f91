//! The connection to one agent, and who is behind it.
//!
//! A session is generic over its [`Transport`]. [`LineTransport`] is newline-delimited JSON over a Unix socket: one stream in each
//! direction. A transport with several streams finds the stream of a message by its [`Address`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{Shutdown, shutdown};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::agent_message::AgentMessage;
use crate::jsonrpc::normalise::Sender;
use crate::tap::{Direction, TapPoint};
use crate::test_variable::test_variable;
use crate::transport::{MessageReader, Outbox};

/// How often a half-closed connection is polled for a hang-up. Tokio reports no event of a socket after end-of-file.
const HANGUP_POLL: Duration = Duration::from_millis(100);

/// How long an agent may pause within a line. A client writes a line at once, so only a stuck one pauses, and the part that it has
/// sent takes memory. Between lines there is no limit.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);

/// Who connected, as the operating system knows it.
#[derive(Debug, Clone)]
pub(crate) struct PeerIdentity {
    pub(crate) uid: u32,
    /// At connect time, if the kernel knows it.
    pub(crate) pid: Option<i32>,
    /// The working directory, if it can be read.
    pub(crate) cwd: Option<Arc<str>>,
}

/// What a message to the agent belongs to. Ids are raw, and are those of requests of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address<'a> {
    /// The response to this request, which ends the request. A request that the agent cancels gets none.
    Response(&'a Bytes),
    /// A notification about this unanswered request. A `subscriptions/listen` stays unanswered until it ends.
    DuringCall(&'a Bytes),
    /// Any other message.
    Session,
}

/// Messages from an agent, and messages to it.
///
/// A transport with several streams refuses a request whose id is that of an unanswered one. On one stream, the session does.
pub(crate) trait Transport {
    /// The next message; `None` once the agent has finished sending.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<AgentMessage>>>;

    /// The next message, if it has been read already.
    fn next_buffered(&mut self) -> Option<AgentMessage>;

    /// Bytes that were read and not returned as messages.
    fn unreturned_bytes(&self) -> usize;

    /// Receives nothing for this time.
    fn pause(&mut self, pause: Duration);

    /// Queues a message for the agent. Its parts are one line together, which ends with a newline.
    fn send(&mut self, to: Address<'_>, message: impl IntoIterator<Item = Bytes>);

    /// Bytes of queued messages that are not written.
    fn unwritten_bytes(&self) -> usize;

    /// Writes as much of the queued messages as the agent accepts now. Pending if it accepts nothing.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Drops the queued messages.
    fn drop_unwritten(&mut self);

    /// Stops receiving. Messages that have arrived can still be read; then the stream ends.
    fn stop_receiving(&mut self) -> io::Result<()>;

    /// Completes when an agent that has finished sending closes the connection.
    fn closed(&self) -> io::Result<BoxFuture<'static, ()>>;
}

/// Newline-delimited JSON over a Unix socket.
pub(crate) struct LineTransport {
    reader: MessageReader<OwnedReadHalf, AgentMessage>,
    writer: OwnedWriteHalf,
    outbox: Outbox,
    tap: TapPoint,
}

impl LineTransport {
    pub(crate) fn new(stream: UnixStream, max_message: usize, tap: TapPoint) -> Self {
        let (read, writer) = stream.into_split();
        let line_timeout = test_variable("MCPD_TEST_LINE_TIMEOUT_MS").map_or(LINE_TIMEOUT, Duration::from_millis);
        let mut reader = MessageReader::new(read, Sender::Agent, max_message).line_timeout(line_timeout);
        reader.set_tap(tap.clone());
        Self { reader, writer, outbox: Outbox::default(), tap }
    }

    fn socket(&self) -> &UnixStream {
        self.writer.as_ref()
    }
}

impl Transport for LineTransport {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<AgentMessage>>> {
        self.reader.poll_next(cx)
    }

    fn next_buffered(&mut self) -> Option<AgentMessage> {
        self.reader.next_buffered()
    }

    fn unreturned_bytes(&self) -> usize {
        self.reader.unreturned_bytes()
    }

    fn pause(&mut self, pause: Duration) {
        self.reader.pause(pause);
    }

    fn send(&mut self, _: Address<'_>, message: impl IntoIterator<Item = Bytes>) {
        let mut noted = self.tap.is_open().then(Vec::new);
        for part in message {
            noted.iter_mut().for_each(|noted| noted.push(part.clone()));
            self.outbox.push(part);
        }
        noted.iter().for_each(|noted| self.tap.note_parts(Direction::To, noted));
    }

    fn unwritten_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outbox.poll_write(cx, &mut self.writer)
    }

    fn drop_unwritten(&mut self) {
        self.outbox = Outbox::default();
    }

    fn stop_receiving(&mut self) -> io::Result<()> {
        self.reader.resume();
        Ok(shutdown(self.socket(), Shutdown::Read)?)
    }

    fn closed(&self) -> io::Result<BoxFuture<'static, ()>> {
        Ok(hangup(self.socket().as_fd().try_clone_to_owned()?).boxed())
    }
}

async fn hangup(socket: OwnedFd) {
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::empty())];
        // A signal interrupts even a poll that does not wait.
        let polled = retry_on_intr(|| poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })));
        if polled.is_err() || fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        tokio::time::sleep(HANGUP_POLL).await;
    }
}
