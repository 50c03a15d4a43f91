//! One agent connection.
//!
//! Lives here: what the agent sees ([`views`]), reading its messages ([`respond`], [`asked`]), answering what mcpd answers
//! itself ([`methods`]), handing calls to servers, and writing what comes back ([`delivery`]). Knows: [`crate::catalog`] (to
//! read), [`crate::server::ServerHandle`] (to call). Must not touch: processes, configuration, other sessions, what is
//! inside the manager.
//!
//! A session is one task that owns all its state. It never waits for a server, only for the turn of its task: calls go out
//! by a queue, answers come back by one.

mod account;
pub mod asked;
mod attachments;
mod batches;
mod delivery;
mod hangup;
mod in_flight;
mod methods;
mod news;
mod notices;
mod questions;
mod respond;
mod routing;
mod subscriptions;
mod task_pages;
mod task_requests;
mod tasks;
mod views;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::attachments::Attachments;
use self::batches::Batches;
use self::in_flight::{Calls, InFlight};
use self::notices::Notices;
use self::questions::Questions;
use self::subscriptions::Subscriptions;
use self::task_pages::TaskPages;
use self::tasks::Tasks;
use crate::calls::{Caller, Log, Outcome};
use crate::kind::PerKind;
use crate::level::Level;
use crate::manager::{OwnViews, View};
use crate::server::call::{Call, ReplySender, ToAgent};
use crate::server::question::Withdrawal;
use crate::server::role::Abilities;
use crate::server::{Agent, Counter, ServerHandle, Stop, StopOrder};
use crate::transport::{Incoming, MessageReader, Outbox};

/// An agent is not read from while more than one largest message waits for it, and is cut off when it has left so many
/// of them unread.
const UNREAD_MESSAGES: usize = 4;
/// An agent's unanswered calls may together have the bytes of so many largest messages; one more is refused with −31003.
const UNANSWERED_MESSAGES: usize = 4;
/// Messages taken in before anything else is done.
const BURST: usize = 64;
/// For the last answers to be taken when the daemon stops.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// What a session is started with.
#[derive(Debug)]
pub struct Setup {
    /// Number of the connection.
    pub number: u64,
    /// The profile's catalog and servers, until the agent sees others.
    pub view: watch::Receiver<Arc<View>>,
    /// Where those are that the agent sees if it has instances of its own.
    pub own_views: OwnViews,
    /// Message cap in bytes, each way.
    pub max_message: usize,
    /// How long it may be silent amid a line; then it is cut off.
    pub line_timeout: Duration,
    /// Who is connected; what it calls itself is not known yet.
    pub caller: Caller,
    /// Where its calls are noted.
    pub calls: Log,
    /// Given when the daemon has stopped its servers.
    pub closing: StopOrder,
    /// What `mcpd status` shows of it.
    pub facts: Arc<Facts>,
    /// Where the agent works, if that is known.
    pub cwd: Option<Arc<str>>,
}

/// One session as others see it.
#[derive(Debug, Default)]
pub struct Facts {
    /// Set once, by `initialize`.
    pub introduction: std::sync::OnceLock<Introduction>,
    /// Calls it has made.
    pub calls: Counter,
    /// Notifications that were not told to it because it did not read.
    pub dropped: Arc<Counter>,
    /// Answers of it to nothing that it was asked.
    pub stray_responses: Counter,
}

/// What an agent said of itself, and the version it is served in.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// `name version`, for display only.
    pub client: Option<String>,
    /// Negotiated.
    pub protocol: &'static str,
}

struct Session {
    setup: Setup,
    caller: Arc<Caller>,
    reply: ReplySender,
    outbox: Outbox,
    batches: Batches,
    calls: Calls,
    serial: u64,
    /// A call that found no room in the queue of its server.
    delayed: Option<(ServerHandle, Box<Call>)>,
    /// Notifications that wait until the agent has read more.
    notices: Notices,
    subscriptions: Subscriptions,
    questions: Questions,
    /// What it has declared that it can be asked to do.
    abilities: Arc<Abilities>,
    tasks: Tasks<ServerHandle>,
    pages: TaskPages,
    /// From which level on the agent wants log messages; until it says so, servers decide.
    level: Option<Level>,
    /// Requests that wait for the first lists, in order.
    deferred: Vec<routing::Deferred>,
    /// Version of each list the agent has, or was told to ask for again.
    told: PerKind<Option<u64>>,
    initialized: bool,
    attachments: Attachments,
    /// What is to be waited for from now on.
    waits: Vec<BoxFuture<'static, Rare>>,
}

/// What seldom happens to a session.
enum Rare {
    /// There is another view where the agent was shown one.
    Changed(watch::Receiver<Arc<View>>),
    /// From now on the agent is shown views of its own.
    Own(watch::Receiver<Arc<View>>),
    /// An instance of the agent has listed, which these show, or is waited for no more.
    Listed(Option<watch::Receiver<Arc<View>>>),
    /// A server does not want the answer any more to what the agent has under this id.
    Withdrawn(u64, Option<Withdrawal>),
    /// The daemon has stopped its servers.
    Closing,
}

/// Serves one agent until it leaves, is cut off, or the daemon stops.
pub async fn run(stream: UnixStream, setup: Setup) {
    let (read, mut write) = stream.into_split();
    let mut reader = MessageReader::new(read, setup.max_message).line_timeout(setup.line_timeout);
    let (reply, mut answers) = ReplySender::channel(Arc::clone(&setup.facts.dropped));
    let mut session = Session {
        caller: Arc::new(setup.caller.clone()),
        setup,
        reply,
        outbox: Outbox::default(),
        batches: Batches::default(),
        calls: Calls::default(),
        serial: 0,
        delayed: None,
        notices: Notices::default(),
        subscriptions: Subscriptions::default(),
        questions: Questions::default(),
        abilities: Arc::default(),
        tasks: Tasks::default(),
        pages: TaskPages::default(),
        level: None,
        deferred: Vec::new(),
        told: PerKind::default(),
        initialized: false,
        attachments: Attachments::default(),
        waits: Vec::new(),
    };
    let ended = session.serve(&mut reader, &mut write, &mut answers).await;
    tracing::debug!(session = session.setup.number, "ended: {ended:?}");
    session.drop_deferred(|_| true);
    for InFlight { key, server, account } in session.calls.drain() {
        session.tell(account, &server, Outcome::Cancelled, 0);
        server.cancel(key, None).await;
    }
}

impl Session {
    async fn serve(
        &mut self,
        reader: &mut MessageReader<OwnedReadHalf>,
        write: &mut OwnedWriteHalf,
        answers: &mut mpsc::Receiver<ToAgent>,
    ) -> io::Result<()> {
        // Polled only when woken: what is polled at each turn costs a tenth of a small call.
        let mut rare = FuturesUnordered::<BoxFuture<'static, Rare>>::new();
        rare.push(views::changed(self.setup.view.clone()).boxed());
        let mut closing = self.setup.closing.clone();
        rare.push(
            async move {
                closing.at_least(Stop::Stop).await;
                Rare::Closing
            }
            .boxed(),
        );
        let mut half_closed = None;
        loop {
            if let Some(written) = self.write(write).now_or_never() {
                written?;
            }
            if half_closed.is_some() && !self.owes_answers() && self.outbox.is_empty() {
                return Ok(());
            }
            rare.extend(self.waits.drain(..));
            let listening = half_closed.is_none() && self.may_read_more();
            tokio::select! {
                // What can be ready without end comes last.
                biased;
                Some(event) = rare.next() => match event {
                    Rare::Changed(view) => self.changed(view).await,
                    Rare::Own(view) => self.follow(view).await,
                    Rare::Listed(view) => self.listed(view).await,
                    Rare::Withdrawn(id, withdrawal) => self.withdrawn(id, withdrawal),
                    Rare::Closing => return self.say_goodbye(write, answers).await,
                },
                Some(answer) = answers.recv() => {
                    self.deliver(answer);
                    while let Ok(answer) = answers.try_recv() {
                        self.deliver(answer);
                    }
                    if self.outbox.bytes() > UNREAD_MESSAGES * self.setup.max_message {
                        return Err(io::Error::other("the agent does not read its answers"));
                    }
                }
                incoming = reader.next(), if listening => match incoming? {
                    Some(incoming) => self.take_all(incoming, reader).await,
                    None => {
                        self.close_questions();
                        half_closed = Some(reader.get_ref().as_ref().as_fd().try_clone_to_owned()?);
                    }
                },
                written = self.write(write), if !self.outbox.is_empty() => written?,
                () = hangup::watch(half_closed.as_ref()), if half_closed.is_some() => return Ok(()),
            }
        }
    }

    /// Takes what was read in one go, so that it is also written in one; a flood is interrupted for other work.
    async fn take_all(&mut self, first: Incoming, reader: &mut MessageReader<OwnedReadHalf>) {
        self.take(first).await;
        for _ in 1..BURST {
            let Some(next) = self.may_read_more().then(|| reader.buffered()).flatten() else { return };
            self.take(next).await;
        }
    }

    /// Gives every call that is still unanswered to the agent, which may have no time left.
    async fn say_goodbye(
        &mut self,
        write: &mut OwnedWriteHalf,
        answers: &mut mpsc::Receiver<ToAgent>,
    ) -> io::Result<()> {
        while let Ok(answer) = answers.try_recv() {
            self.deliver(answer);
        }
        self.refuse_deferred();
        self.give_up_batches();
        let flush = async {
            while !self.outbox.is_empty() {
                self.outbox.write_some(write).await?;
            }
            Ok(())
        };
        timeout(LAST_ANSWERS, flush).await.unwrap_or(Ok(()))
    }

    /// The agent, as servers have to know of it.
    fn agent(&self) -> Agent {
        let (to, abilities) = (self.reply.clone(), Arc::clone(&self.abilities));
        Agent { session: self.setup.number, to, level: self.level, abilities }
    }
}
