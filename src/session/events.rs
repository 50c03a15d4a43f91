//! What a session waits for, and in which order it looks: its agent, its servers, what seldom happens.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use super::agent_message::AgentMessage;
use super::{Session, UNREAD_MESSAGES, hangup};
use crate::manager::View;
use crate::server::messages::call::ToAgent;
use crate::server::question::Withdrawal;
use crate::server::{Stop, StopOrder};
use crate::transport::MessageReader;

/// Messages taken in before anything else is done.
const BURST: usize = 64;

/// Reads what an agent sends.
pub(super) type AgentReader = MessageReader<OwnedReadHalf, AgentMessage>;

/// What seldom happens to a session.
pub(super) enum Rare {
    /// There is another view where the agent was shown one.
    Changed(watch::Receiver<Arc<View>>),
    /// From now on the agent is shown views of its own.
    Own(watch::Receiver<Arc<View>>),
    /// An instance of the agent has listed, which these show, or is waited for no more.
    Listed {
        view: Option<watch::Receiver<Arc<View>>>,
        /// What its server offers was known before.
        is_known: bool,
    },
    /// A name that a request waits for may be listed by now, or its server has failed to start.
    MayBeListed,
    /// A server does not want the answer any more to what the agent has under this id.
    Withdrawn(u64, Option<Withdrawal>),
    /// The agent's profile is there no more, or not for it.
    Leaving,
    /// An agent that is to leave has waited long enough for its answers.
    Overdue,
    /// The daemon has stopped its servers.
    Closing,
    /// All connections together hold too much, and this one is to be closed.
    CutOff,
    /// The agent, which had finished writing, has gone.
    HungUp,
}

/// What a session has to wait for something with.
pub(super) enum Event {
    /// A batch has come.
    Batch(Vec<AgentMessage>),
    /// There is [`Session::delayed`].
    Delayed,
    Rare(Rare),
    /// The agent has finished writing, or is to leave, and all is answered.
    Over,
}

/// What a session waits for.
pub(super) struct Wires<'a> {
    pub(super) reader: &'a mut AgentReader,
    pub(super) write: &'a mut OwnedWriteHalf,
    pub(super) answers: &'a mut mpsc::Receiver<ToAgent>,
    /// Polled only when woken: what is polled at each turn costs a tenth of a small call.
    pub(super) rare: FuturesUnordered<BoxFuture<'static, Rare>>,
    /// The agent has finished writing.
    half_closed: bool,
}

impl<'a> Wires<'a> {
    pub(super) fn new(
        reader: &'a mut AgentReader,
        write: &'a mut OwnedWriteHalf,
        answers: &'a mut mpsc::Receiver<ToAgent>,
    ) -> Self {
        Self { reader, write, answers, rare: FuturesUnordered::new(), half_closed: false }
    }

    fn half_close(&mut self) -> io::Result<()> {
        let socket = self.reader.get_ref().as_ref().as_fd().try_clone_to_owned()?;
        self.rare.push(hangup::watch(socket).map(|()| Rare::HungUp).boxed());
        self.half_closed = true;
        Ok(())
    }
}

/// Waits for the next view; one that nobody publishes any more never comes.
pub(super) async fn changed(mut view: watch::Receiver<Arc<View>>) -> Rare {
    if view.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    Rare::Changed(view)
}

/// Waits until the daemon has stopped its servers.
pub(super) async fn closing(mut order: StopOrder) -> Rare {
    order.at_least(Stop::Stop).await;
    Rare::Closing
}

impl Session {
    /// Writes, delivers and takes in until something has to be waited for, and accounts for what is left then.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>, wires: &mut Wires<'_>) -> Poll<io::Result<Event>> {
        let event = self.poll_all(cx, wires);
        self.setup.backlog.set(self.outbox.bytes() + self.batches.bytes() + wires.reader.unfinished());
        event
    }

    /// All in one function: a future for each source costs a small call more than what it waits for.
    fn poll_all(&mut self, cx: &mut Context<'_>, wires: &mut Wires<'_>) -> Poll<io::Result<Event>> {
        loop {
            let written = self.poll_write(cx, wires.write)?;
            if (wires.half_closed || self.refusal.is_some()) && !self.owes_answers() && self.outbox.is_empty() {
                if !self.listens.is_empty() {
                    self.end_listens();
                    continue;
                }
                return Poll::Ready(Ok(Event::Over));
            }
            wires.rare.extend(self.waits.drain(..));
            // What can be ready without end comes last.
            if let Poll::Ready(Some(event)) = wires.rare.poll_next_unpin(cx) {
                return Poll::Ready(Ok(Event::Rare(event)));
            } else if let Poll::Ready(Some(answer)) = wires.answers.poll_recv(cx) {
                self.deliver_all(answer, wires.answers)?;
            } else if !wires.half_closed
                && self.may_read_more()
                && let Poll::Ready(incoming) = wires.reader.poll_next(cx)?
            {
                let Some(incoming) = incoming else {
                    self.close_questions();
                    wires.half_close()?;
                    continue;
                };
                if let Some(event) = self.take_all(incoming, wires.reader) {
                    return Poll::Ready(Ok(event));
                }
            } else if written.is_pending() || self.outbox.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// Takes what was read in one go, so that it is also written in one; a flood is interrupted for other work.
    fn take_all(&mut self, first: AgentMessage, reader: &mut AgentReader) -> Option<Event> {
        let mut message = first;
        for taken in 1.. {
            match message {
                AgentMessage::Batch(members) if self.takes_batches() => return Some(Event::Batch(members)),
                single => self.take_one(single),
            }
            if self.delayed.is_some() {
                return Some(Event::Delayed);
            }
            if taken == BURST || !self.may_read_more() {
                break;
            }
            message = reader.buffered()?;
        }
        None
    }

    fn deliver_all(&mut self, first: ToAgent, answers: &mut mpsc::Receiver<ToAgent>) -> io::Result<()> {
        self.deliver(first);
        while let Ok(answer) = answers.try_recv() {
            self.deliver(answer);
        }
        if self.outbox.bytes() > UNREAD_MESSAGES * self.setup.max_message {
            return Err(io::Error::other("the agent does not read its answers"));
        }
        Ok(())
    }
}
