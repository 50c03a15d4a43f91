//! The task's connections to daemons.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::FutureExt;
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;

use super::{DaemonLink, NoDaemon, Task};
use crate::shim::lines::Piece;
use crate::shim::reconnect::{ConnectResult, FirstConnection, ReconnectDelays, connect_after};
use crate::shim::relay::{RelayEvent, RelayState};

/// After a connection of at least this duration, reconnect attempts begin anew.
const STEADY_TIME: Duration = Duration::from_secs(1);

impl<F, S> Task<'_, F, S> {
    /// Ready if anything has changed.
    pub(super) fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            DaemonLink::Starting(first) => match ready!(first.poll_unpin(cx)) {
                Ok(FirstConnection { stream, sockets, profile_directory }) => {
                    self.sockets = Some(sockets);
                    self.relay.set_profile_directory(profile_directory);
                    self.connected(stream);
                }
                Err(NoDaemon { code, reason }) => {
                    self.link = DaemonLink::Closed(Some(code));
                    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    self.relay.end(format!("no mcpd serves{reason}"));
                }
            },
            DaemonLink::Reconnecting(connecting) => match ready!(connecting.poll_unpin(cx)) {
                ConnectResult::Connected(stream) => self.connected(stream),
                ConnectResult::NoProfile => self.reconnect(Some(RelayEvent::NoProfile)),
                ConnectResult::Untrusted(why) => self.reconnect(Some(RelayEvent::Untrusted(why))),
                ConnectResult::NoDaemon => self.reconnect(None),
            },
            DaemonLink::Connected(_) => return self.poll_daemon(cx),
            DaemonLink::Closed(_) => return Poll::Pending,
        }
        Poll::Ready(())
    }

    fn connected(&mut self, stream: UnixStream) {
        self.link = DaemonLink::Connected(stream);
        (self.is_write_closed, self.up_since) = (false, Instant::now());
        self.relay.connected();
    }

    /// Tries again after a delay. `event` is why the last attempt failed.
    fn reconnect(&mut self, event: Option<RelayEvent>) {
        let Some(sockets) = self.sockets.clone() else { return };
        self.relay.events.extend(event);
        let wait = self.delays.next(Instant::now(), fastrand::f64());
        self.link = DaemonLink::Reconnecting(connect_after(sockets, wait).boxed_local());
    }

    fn poll_daemon(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.write_to_daemon(cx);
        if !self.relay.may_read_daemon() {
            return Poll::Pending;
        }
        let DaemonLink::Connected(stream) = &mut self.link else { return Poll::Pending };
        let read = loop {
            // Polling fails only if the runtime stops.
            let Ok(()) = ready!(stream.poll_read_ready(cx)) else { break Ok(0) };
            match stream.try_read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read,
            }
        };
        match read {
            Ok(0) | Err(_) => self.lost(),
            Ok(read) => {
                let now = Instant::now();
                self.from_daemon.push(&self.chunk[..read]);
                while let Some(piece) = self.from_daemon.take_next() {
                    match piece {
                        Piece::Line(line) => self.relay.receive_from_daemon(line, now),
                        Piece::Part(_) => {}
                        Piece::End(_, ends) => self.relay.daemon_oversized_ended(&ends, now),
                    }
                }
                if matches!(self.relay.state, RelayState::Closed(_)) {
                    self.link = DaemonLink::Closed(None);
                }
            }
        }
        Poll::Ready(())
    }

    fn write_to_daemon(&mut self, cx: &mut Context<'_>) {
        let DaemonLink::Connected(stream) = &mut self.link else { return };
        let lines = &mut self.relay.to_daemon;
        while !self.is_write_closed && !lines.is_empty() {
            match lines.poll_write(cx, stream) {
                Poll::Ready(Ok(())) => {}
                // Its remaining output is still read.
                Poll::Ready(Err(_)) => self.is_write_closed = true,
                Poll::Pending => return,
            }
        }
        let is_last = self.input_ended && self.relay.state == RelayState::Connected;
        if is_last && !std::mem::replace(&mut self.is_write_closed, true) {
            // On a Unix socket it completes at once.
            let _ = Pin::new(stream).poll_shutdown(cx);
        }
    }

    fn lost(&mut self) {
        let now = Instant::now();
        // A daemon that refuses agents does so at each attempt.
        if now.saturating_duration_since(self.up_since) >= STEADY_TIME {
            self.delays = ReconnectDelays::since(now);
        }
        self.from_daemon.drop_incomplete();
        self.relay.lost(now);
        self.reconnect(None);
    }
}
