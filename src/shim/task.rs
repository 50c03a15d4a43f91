//! The task that moves the bytes: standard streams on one side, a socket on the other.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep_until};

use super::conversation::{Conversation, News, Stage};
use super::greeting::Own;
use super::held;
use super::lines::{Lines, Piece};
use super::link::{Found, Places, Waits, look};
use super::streams::{Input, Output};

/// Read at once: a pipe's capacity.
const CHUNK: usize = 64 << 10;

/// How it ended.
#[derive(Debug)]
pub(crate) enum End<F> {
    /// The agent has all it wanted, or reads no more.
    Left,
    /// There was no daemon to begin with: why.
    NotServed(F),
    /// The next daemon cannot go on with this agent: why.
    Over(String),
    /// A standard stream cannot be used.
    Failed(io::Error),
}

/// Where things are with the daemon.
enum Link<'a, F> {
    /// It is reached, or started, for the first time.
    First(LocalBoxFuture<'a, Result<UnixStream, F>>),
    Up(UnixStream),
    /// It was lost.
    Looking(LocalBoxFuture<'a, Found>),
    /// Nobody is looked for.
    Down(Option<F>),
}

struct Task<'a, F, S> {
    conversation: Conversation,
    input: Input,
    output: Output,
    link: Link<'a, F>,
    places: Places,
    waits: Waits,
    say: S,
    from_agent: Lines,
    from_daemon: Lines,
    chunk: Box<[u8]>,
    /// The agent says no more.
    input_ended: bool,
    /// The daemon takes no more.
    is_deaf: bool,
    /// It has said something.
    has_spoken: bool,
    /// Until what is held has waited for too long, if anything is.
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// Serves the agent on standard input and output until it leaves. `first` reaches the first daemon; `say` is told the news.
pub(crate) async fn run<F>(
    first: impl Future<Output = Result<UnixStream, F>>,
    places: Places,
    own: Own,
    say: impl FnMut(News),
) -> End<F> {
    let (input, output) = match (Input::open(), Output::open()) {
        (Ok(input), Ok(output)) => (input, output),
        (Err(error), _) | (_, Err(error)) => return End::Failed(error),
    };
    let mut task = Task {
        conversation: Conversation::new(own, fastrand::u64(..)),
        input,
        output,
        link: Link::First(first.boxed_local()),
        places,
        waits: Waits::since(Instant::now()),
        say,
        from_agent: Lines::up_to(held::BYTES),
        // The daemon has a cap of its own.
        from_daemon: Lines::up_to(usize::MAX),
        chunk: vec![0; CHUNK].into(),
        input_ended: false,
        is_deaf: false,
        has_spoken: false,
        sleep: None,
    };
    poll_fn(|cx| task.poll(cx)).await
}

impl<F, S: FnMut(News)> Task<'_, F, S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End<F>> {
        loop {
            for news in std::mem::take(&mut self.conversation.news) {
                // Who says no more expects the daemon to go.
                if news != News::Lost || !self.input_ended {
                    (self.say)(news);
                }
            }
            if let Err(error) = self.tell_agent(cx) {
                return Poll::Ready(ended_by(error));
            }
            if let Some(end) = self.ended() {
                return Poll::Ready(end);
            }
            // Each has its turn whatever the others do, and none waits for another.
            let (linked, heard) = (self.poll_link(cx), self.poll_agent(cx));
            if linked.is_pending() && heard.is_pending() && self.poll_due(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn tell_agent(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.conversation.to_agent.is_empty() {
            if self.conversation.to_agent.poll_write(cx, &mut self.output)?.is_pending() {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing is left to be done.
    fn ended(&mut self) -> Option<End<F>> {
        if !self.conversation.to_agent.is_empty() {
            return None;
        }
        match (&mut self.conversation.stage, &mut self.link) {
            (Stage::Over(_), Link::Down(refused @ Some(_))) => refused.take().map(End::NotServed),
            (Stage::Over(why), _) => Some(End::Over(std::mem::take(why))),
            // Whether there is a daemon to begin with is to be known.
            (_, Link::First(_)) => None,
            _ => (self.input_ended && self.conversation.owes_nothing()).then_some(End::Left),
        }
    }

    /// Ready if anything was read of the agent.
    fn poll_agent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.input_ended || !self.conversation.may_hear_agent() {
            return Poll::Pending;
        }
        match ready!(self.input.poll_read(cx, &mut self.chunk)) {
            // Half a line is no message. A terminal or a peer that has gone says no more, either.
            Ok(0) | Err(_) => self.input_ended = true,
            Ok(read) => {
                let now = Instant::now();
                self.from_agent.push(&self.chunk[..read]);
                while let Some(piece) = self.from_agent.take_next() {
                    self.conversation.agent_says(piece, now);
                }
            }
        }
        Poll::Ready(())
    }

    /// Ready if anything has changed between the shim and daemons.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Link::First(first) => match ready!(first.poll_unpin(cx)) {
                Ok(stream) => self.connected(stream),
                Err(refused) => {
                    self.link = Link::Down(Some(refused));
                    self.conversation.end("no mcpd serves".to_owned());
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
        (self.is_deaf, self.has_spoken) = (false, false);
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
                self.from_daemon.push(&self.chunk[..read]);
                while let Some(piece) = self.from_daemon.take_next() {
                    if let Piece::Line(line) = piece {
                        self.conversation.daemon_says(line);
                    }
                }
                self.has_spoken = true;
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
        if self.has_spoken {
            self.waits = Waits::since(now);
        }
        self.from_daemon.drop_begun();
        self.conversation.lost(now);
        self.look_again(false);
    }

    /// Ready if something that was held has waited for too long.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The first daemon is given the time that its start takes.
        let due = if matches!(self.link, Link::First(_)) { None } else { self.conversation.due() };
        let Some(due) = due else {
            self.sleep = None;
            return Poll::Pending;
        };
        let fresh = || (due, Box::pin(sleep_until(due.into())));
        let (_, sleep) = match &mut self.sleep {
            Some(sleep) if sleep.0 == due => sleep,
            other => other.insert(fresh()),
        };
        ready!(sleep.poll_unpin(cx));
        self.conversation.expire(Instant::now());
        Poll::Ready(())
    }
}

/// An agent that has closed our output has gone.
fn ended_by<F>(error: io::Error) -> End<F> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => End::Left,
        _ => End::Failed(error),
    }
}
