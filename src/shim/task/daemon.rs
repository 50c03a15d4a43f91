//! The task's side to daemons: the first, the one that is there, and the next.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::FutureExt;
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;

use super::{Link, Task, Unserved};
use crate::shim::conversation::{News, Stage};
use crate::shim::lines::Piece;
use crate::shim::link::{Found, Waits, look};

/// A daemon that was there for so long is looked for often when it goes.
const STEADY: Duration = Duration::from_secs(1);

impl<F, S> Task<'_, F, S> {
    /// Ready if anything has changed between the shim and daemons.
    pub(super) fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Link::First(first) => match ready!(first.poll_unpin(cx)) {
                Ok(stream) => self.connected(stream),
                Err(Unserved { code, reason }) => {
                    self.link = Link::Down(Some(code));
                    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    self.conversation.end(format!("no mcpd serves{reason}"));
                }
            },
            Link::Looking(looking) => match ready!(looking.poll_unpin(cx)) {
                Found::Daemon(stream) => self.connected(stream),
                Found::Other => self.look_again(true),
                Found::Nobody => self.look_again(false),
            },
            Link::Up(_) => return self.poll_daemon(cx),
            Link::Down(_) => return Poll::Pending,
        }
        Poll::Ready(())
    }

    fn connected(&mut self, stream: UnixStream) {
        self.link = Link::Up(stream);
        (self.is_deaf, self.up_since) = (false, Instant::now());
        self.conversation.connected();
    }

    fn look_again(&mut self, is_there_another: bool) {
        if is_there_another {
            self.conversation.news.push(News::NoProfile);
        }
        let wait = self.waits.next(Instant::now(), fastrand::f64());
        self.link = Link::Looking(look(self.places.clone(), wait).boxed_local());
    }

    fn poll_daemon(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.tell_daemon(cx);
        if !self.conversation.may_hear_daemon() {
            return Poll::Pending;
        }
        let Link::Up(stream) = &mut self.link else { return Poll::Pending };
        let read = loop {
            // Waiting for it fails only with the runtime.
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
                    if let Piece::Line(line) = piece {
                        self.conversation.daemon_says(line, now);
                    }
                }
                if matches!(self.conversation.stage, Stage::Over(_)) {
                    self.link = Link::Down(None);
                }
            }
        }
        Poll::Ready(())
    }

    fn tell_daemon(&mut self, cx: &mut Context<'_>) {
        let Link::Up(stream) = &mut self.link else { return };
        let lines = &mut self.conversation.to_daemon;
        while !self.is_deaf && !lines.is_empty() {
            match lines.poll_write(cx, stream) {
                Poll::Ready(Ok(())) => {}
                // What it still says is heard all the same.
                Poll::Ready(Err(_)) => self.is_deaf = true,
                Poll::Pending => return,
            }
        }
        let is_last = self.input_ended && self.conversation.stage == Stage::Live;
        if is_last && !std::mem::replace(&mut self.is_deaf, true) {
            // Of a Unix socket it is done at once.
            let _ = Pin::new(stream).poll_shutdown(cx);
        }
    }

    fn lost(&mut self) {
        let now = Instant::now();
        // One that turns agents away says so before it hangs up, to all of them each time.
        if now.saturating_duration_since(self.up_since) >= STEADY {
            self.waits = Waits::since(now);
        }
        self.from_daemon.drop_begun();
        self.conversation.lost(now);
        self.look_again(false);
    }
}
