//! The task that moves the bytes: standard streams on one side, a socket on the other, which is looked after in [`daemon`].

mod daemon;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::net::UnixStream;
use tokio::time::{Interval, Sleep, interval, sleep_until};

use super::conversation::{Conversation, News, Stage};
use super::greeting::Own;
use super::held;
use super::lines::Lines;
use super::link::{Found, Places, Waits};
use super::streams::{Input, Output};

/// Read at once: a pipe's capacity.
const CHUNK: usize = 64 << 10;
/// Between two looks at whether an agent that says no more still reads: one that was killed does neither.
const LOOK: Duration = Duration::from_millis(500);

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

/// Why there is no daemon to begin with.
pub(crate) struct Unserved<F> {
    /// For whoever runs the shim.
    pub(crate) code: F,
    /// For the agent, if it is known.
    pub(crate) reason: Option<String>,
}

/// Finds out why no daemon runs, if that is known.
pub(crate) type Explain<'a> = Box<dyn Fn() -> LocalBoxFuture<'a, Option<String>> + 'a>;

/// Where things are with the daemon.
enum Link<'a, F> {
    /// It is reached, or started, for the first time.
    First(LocalBoxFuture<'a, Result<UnixStream, Unserved<F>>>),
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
    explain: Explain<'a>,
    /// An explanation that is under way.
    explaining: Option<LocalBoxFuture<'a, Option<String>>>,
    from_agent: Lines,
    from_daemon: Lines,
    chunk: Box<[u8]>,
    /// The agent says no more.
    input_ended: bool,
    /// Once it says no more.
    looks: Option<Interval>,
    /// The daemon takes no more.
    is_deaf: bool,
    /// Since when it is there.
    up_since: Instant,
    /// Until what is held has waited for too long, if anything is.
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// Serves the agent on standard input and output until it leaves. `first` reaches the first daemon; `say` is told the news;
/// `explain` is called when requests have waited for too long.
pub(crate) async fn run<'a, F>(
    first: impl Future<Output = Result<UnixStream, Unserved<F>>> + 'a,
    places: Places,
    own: Own,
    say: impl FnMut(News),
    explain: Explain<'a>,
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
        explain,
        explaining: None,
        from_agent: Lines::up_to(held::BYTES),
        // The daemon has a cap of its own.
        from_daemon: Lines::up_to(usize::MAX),
        chunk: vec![0; CHUNK].into(),
        input_ended: false,
        looks: None,
        is_deaf: false,
        up_since: Instant::now(),
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
                return if self.poll_gone(cx) { Poll::Ready(End::Left) } else { Poll::Pending };
            }
        }
    }

    /// Whether the agent neither says nor reads any more: then nobody wants what it has asked.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.input_ended {
            return false;
        }
        let looks = self.looks.get_or_insert_with(|| interval(LOOK));
        while looks.poll_tick(cx).is_ready() {
            if self.output.is_closed() {
                return true;
            }
        }
        false
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

    /// Ready if something that was held has waited for too long.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The first daemon is given the time that its start takes.
        let due = if matches!(self.link, Link::First(_)) { None } else { self.conversation.due() };
        let Some(due) = due else {
            (self.sleep, self.explaining) = (None, None);
            return Poll::Pending;
        };
        let fresh = || (due, Box::pin(sleep_until(due.into())));
        let (_, sleep) = match &mut self.sleep {
            Some(sleep) if sleep.0 == due => sleep,
            other => other.insert(fresh()),
        };
        if self.explaining.is_none() {
            ready!(sleep.poll_unpin(cx));
        }
        let why = match self.link {
            Link::Looking(_) => ready!(self.explaining.get_or_insert_with(&self.explain).poll_unpin(cx)),
            _ => None,
        };
        self.explaining = None;
        self.conversation.expire(Instant::now(), why.as_deref());
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
