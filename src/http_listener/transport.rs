//! The session's end of a hub.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::{self, Sleep, sleep};

use super::hub::Hub;
use crate::session::{Address, AgentMessage, Transport};
use crate::tap::{Direction, TapPoint};
use crate::test_variable::test_variable;

/// A legacy session ends when its agent has neither sent anything nor read a stream for this time.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Messages of one session over HTTP.
pub(crate) struct HttpTransport {
    hub: Arc<Hub>,
    /// What was read at the last `poll_write`.
    seen: u64,
    pause: Option<Pin<Box<Sleep>>>,
    /// `None` if the session ends with its connections.
    idle: Option<Idle>,
    tap: TapPoint,
    _end: EndOnDrop,
}

/// Dropped with the session, as the registration of its id.
type Registration = Box<dyn Send + Sync>;

/// The session ends, and with it its id, if it has one.
struct EndOnDrop(Arc<Hub>, Option<Registration>);

#[derive(Debug)]
struct Idle {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

impl HttpTransport {
    /// Of a modern session, which ends with its connections.
    pub(super) fn of_agent(hub: Arc<Hub>) -> Self {
        Self::new(hub, None, None)
    }

    /// Of a legacy session.
    pub(super) fn of_session(hub: Arc<Hub>, registration: impl Send + Sync + 'static) -> Self {
        let limit = test_variable("MCPD_TEST_HTTP_IDLE_MS").map_or(IDLE_LIMIT, Duration::from_millis);
        let idle = Idle { limit, timer: Box::pin(sleep(limit)) };
        Self::new(hub, Some(Box::new(registration)), Some(idle))
    }

    fn new(hub: Arc<Hub>, registration: Option<Registration>, idle: Option<Idle>) -> Self {
        Self {
            _end: EndOnDrop(Arc::clone(&hub), registration),
            hub,
            seen: 0,
            pause: None,
            idle,
            tap: TapPoint::default(),
        }
    }

    /// The same, with messages noted at `tap`.
    pub(crate) fn tapped(self, tap: TapPoint) -> Self {
        Self { tap, ..self }
    }

    /// The message of a line, which is noted.
    fn received(&self, (message, line): (AgentMessage, Bytes)) -> AgentMessage {
        self.tap.note(Direction::From, &line);
        message
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// Closes a session that its agent has not used for long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(Idle { limit, timer }) = &mut self.idle else { return Poll::Pending };
        loop {
            ready!(timer.as_mut().poll(cx));
            let now = time::Instant::now();
            let until = self.hub.idle_since().map_or(now, time::Instant::from_std) + *limit;
            if until <= now {
                self.hub.close();
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

impl Transport for HttpTransport {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<AgentMessage>>> {
        ready!(self.poll_pause(cx));
        match self.hub.poll_post(cx) {
            Poll::Ready(received) => Poll::Ready(Ok(received.map(|received| self.received(received)))),
            Poll::Pending => self.poll_idle(cx).map(|()| Ok(None)),
        }
    }

    fn next_buffered(&mut self) -> Option<AgentMessage> {
        if self.pause.is_some() { None } else { Some(self.received(self.hub.next_post()?)) }
    }

    fn unreturned_bytes(&self) -> usize {
        self.hub.unreturned()
    }

    fn pause(&mut self, pause: Duration) {
        let until = time::Instant::now() + pause;
        match &mut self.pause {
            Some(current) if current.deadline() >= until => {}
            Some(current) => current.as_mut().reset(until),
            None => self.pause = Some(Box::pin(sleep(pause))),
        }
    }

    fn send(&mut self, to: Address<'_>, message: impl IntoIterator<Item = Bytes>) {
        let parts: Vec<_> = message.into_iter().collect();
        let noted = self.tap.is_open().then(|| parts.clone());
        if self.hub.send(to, parts) {
            noted.iter().for_each(|parts| self.tap.note_parts(Direction::To, parts));
        }
    }

    fn unwritten_bytes(&self) -> usize {
        self.hub.unwritten()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.hub.poll_written(&mut self.seen, cx).map(Ok)
    }

    fn drop_unwritten(&mut self) {
        self.hub.drop_unwritten();
    }

    fn stop_receiving(&mut self) -> io::Result<()> {
        self.pause = None;
        self.hub.stop_receiving();
        Ok(())
    }

    fn closed(&self) -> io::Result<BoxFuture<'static, ()>> {
        let hub = Arc::clone(&self.hub);
        Ok(async move { poll_fn(|cx| hub.poll_closed(cx)).await }.boxed())
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // Before its id is forgotten.
        drop(self.1.take());
        self.0.end();
    }
}
