//! One agent connection.
//!
//! Lives here: what the agent sees ([`views`]), reading its messages ([`agent_message`], [`respond`], [`asked`]), answering what mcpd answers
//! itself ([`methods`]), handing calls to servers, and writing what comes back ([`delivery`]). Knows: [`crate::catalog`] (to
//! read), [`crate::server::ServerHandle`] (to call). Must not touch: processes, configuration, other sessions, what is
//! inside the manager.
//!
//! A session is one task that owns all its state. It never waits for a server, only for the turn of its task: calls go out
//! by a queue, answers come back by one.

mod account;
mod agent_message;
pub mod asked;
mod attachments;
pub mod backlog;
mod batches;
mod delivery;
mod events;
mod hangup;
mod in_flight;
mod leaving;
mod listens;
mod made_tasks;
mod methods;
mod news;
mod notices;
mod questions;
mod respond;
mod routing;
pub(crate) mod said_meta;
mod seal;
mod stated_tasks;
mod stateless;
mod subscriptions;
mod task_listens;
mod task_pages;
mod task_requests;
mod tasks;
mod views;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use self::agent_message::AgentMessage;
use self::attachments::Attachments;
use self::backlog::Backlog;
use self::batches::Batches;
use self::events::{AgentReader, Event, Rare, Wires, changed, closing};
use self::in_flight::{Calls, InFlight};
use self::listens::Listens;
use self::made_tasks::MadeTasks;
use self::notices::Notices;
use self::questions::Questions;
use self::routing::stopping;
pub use self::seal::Seal;
use self::subscriptions::Subscriptions;
use self::task_pages::TaskPages;
use self::tasks::Tasks;
use crate::calls::{Caller, Log, Outcome};
use crate::era::Era;
use crate::era::speaker::Speaker;
use crate::jsonrpc::reply::ErrorObject;
use crate::kind::PerKind;
use crate::level::Level;
use crate::manager::{OwnViews, View, ViewListener};
use crate::server::client_capabilities::ClientCapabilities;
use crate::server::messages::call::{Call, CallKey, ReplySender, ToAgent};
use crate::server::messages::cancellation::Cancellation;
use crate::server::{Agent, Counter, Interest, ServerHandle, StopOrder, User};
use crate::transport::Outbox;

/// An agent is not read from while more than one largest message waits for it, and is cut off when it has left so many
/// of them unread.
const UNREAD_MESSAGES: usize = 4;
/// An agent's unanswered calls may together have the bytes of so many largest messages; one more is refused with −31003.
const UNANSWERED_MESSAGES: usize = 4;
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
    /// How long its first lists wait for instances of its own of which nothing is known.
    pub first_list_wait: Duration,
    /// Who is connected; what it calls itself is not known yet.
    pub caller: Caller,
    /// Where its calls are noted.
    pub calls: Log,
    /// Given when the daemon begins to stop.
    pub stopping: StopOrder,
    /// Given when it has stopped its servers.
    pub closing: StopOrder,
    /// What `mcpd status` shows of it.
    pub facts: Arc<Facts>,
    /// Whose agent it is.
    pub user: Arc<User>,
    /// Where the agent works, if that is known.
    pub cwd: Option<Arc<str>>,
    /// What it leaves unread and unfinished.
    pub backlog: Arc<Backlog>,
    /// What binds the tasks of modern agents to their profile.
    pub seal: Arc<Seal>,
}

/// One session as others see it.
#[derive(Debug, Default)]
pub struct Facts {
    /// Set once, by `initialize`.
    pub introduction: std::sync::OnceLock<Introduction>,
    /// Set once, by the first request of the modern era: who that was from may not be who others are from.
    pub stateless: std::sync::OnceLock<Introduction>,
    /// Calls it has made.
    pub calls: Counter,
    /// Notifications that were not told to it because it did not read.
    pub dropped: Arc<Counter>,
    /// Answers of it to nothing that it was asked.
    pub stray_responses: Counter,
    /// What it said of tasks that it has made for no server that is there.
    pub stray_notifications: Counter,
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
    /// What the queue of a server has to have room for.
    delayed: Option<Delayed>,
    /// Notifications that wait until the agent has read more.
    notices: Notices,
    subscriptions: Subscriptions,
    listens: Listens,
    questions: Questions,
    made_tasks: MadeTasks,
    /// What it has declared that it can be asked to do.
    abilities: Arc<ClientCapabilities>,
    /// The same and more, as servers of the modern era are told of it.
    speaker: Arc<Speaker>,
    /// What the profile shows, whatever this agent is shown: a request of the modern era is answered the same on every connection.
    profile_view: watch::Receiver<Arc<View>>,
    /// The view that the agent is shown, for servers' tasks.
    listener: Arc<ViewListener>,
    /// The same of `profile_view`.
    profile_listener: Arc<ViewListener>,
    tasks: Tasks<ServerHandle>,
    pages: TaskPages,
    /// From which level on the agent wants log messages; until it says so, servers decide.
    level: Option<Level>,
    /// Requests that wait for the first lists, in order.
    deferred: Vec<routing::Deferred>,
    /// It is looked again when a server has listed.
    awaits_lists: bool,
    /// Version of each list the agent has, or was told to ask for again.
    told: PerKind<Option<u64>>,
    initialized: bool,
    /// A request of the modern era has said who the agent is.
    is_met: bool,
    /// What each further request gets, once none is taken on any more.
    refusal: Option<ErrorObject>,
    attachments: Attachments,
    /// What is to be waited for from now on.
    waits: Vec<BoxFuture<'static, Rare>>,
}

/// What may have to wait for a server's task.
enum Delayed {
    Call(ServerHandle, Box<Call>),
    Cancel(ServerHandle, CallKey, Cancellation),
    /// Servers are to tell the agent of something from now on, or no more.
    Hear(Vec<(ServerHandle, Interest)>),
    /// The whole notification.
    RootsChanged(Bytes),
    /// Servers that know of the agent are to hear of it.
    LevelChanged,
}

/// What ends a session from outside.
#[derive(Debug)]
pub struct Ends {
    /// Its profile is not for the agent any more: it gets the answers that it waits for.
    pub leave: oneshot::Receiver<()>,
    /// All connections together hold too much: this one is closed at once.
    pub cut_off: oneshot::Receiver<()>,
}

/// Serves one agent until it leaves, is told to, is cut off, or the daemon stops.
pub async fn run(stream: UnixStream, setup: Setup, ends: Ends) {
    let (read, mut write) = stream.into_split();
    let mut reader = AgentReader::new(read, setup.max_message).line_timeout(setup.line_timeout);
    let profile_view = setup.view.clone();
    let (reply, mut answers) = ReplySender::channel(Arc::clone(&setup.facts.dropped), setup.stopping.clone());
    let listener = ViewListener::new(&setup.view);
    let mut session = Session {
        caller: Arc::new(setup.caller.clone()),
        profile_listener: Arc::clone(&listener),
        listener,
        setup,
        reply,
        outbox: Outbox::default(),
        batches: Batches::default(),
        calls: Calls::default(),
        serial: 0,
        delayed: None,
        notices: Notices::default(),
        subscriptions: Subscriptions::default(),
        listens: Listens::default(),
        questions: Questions::default(),
        made_tasks: MadeTasks::default(),
        abilities: Arc::default(),
        speaker: Arc::default(),
        profile_view,
        tasks: Tasks::default(),
        pages: TaskPages::default(),
        level: None,
        deferred: Vec::new(),
        awaits_lists: false,
        told: PerKind::default(),
        initialized: false,
        is_met: false,
        refusal: None,
        attachments: Attachments::default(),
        waits: Vec::new(),
    };
    let ended = session.serve(&mut reader, &mut write, &mut answers, ends).await;
    drop((reader, std::mem::take(&mut session.outbox), std::mem::take(&mut session.batches)));
    session.setup.backlog.set(0);
    match &ended {
        Err(error) if matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::TimedOut) => {
            tracing::warn!(session = session.setup.number, "disconnected: {error}");
        }
        _ => tracing::debug!(session = session.setup.number, "ended: {ended:?}"),
    }
    session.drop_deferred(|_| true);
    for (_, InFlight { key, server, account, .. }) in session.calls.drain() {
        session.tell(account, &server, Outcome::Cancelled, 0);
        server.cancel(key, None).await;
    }
}

impl Facts {
    /// Who the agent is, as far as is known.
    #[must_use]
    pub fn agent(&self) -> Option<&Introduction> {
        self.introduction.get().or_else(|| self.stateless.get())
    }
}

impl Session {
    async fn serve(
        &mut self,
        reader: &mut AgentReader,
        write: &mut OwnedWriteHalf,
        answers: &mut mpsc::Receiver<ToAgent>,
        ends: Ends,
    ) -> io::Result<()> {
        let mut wires = Wires::new(reader, write, answers);
        wires.rare.push(changed(self.setup.view.clone()).boxed());
        wires.rare.push(closing(self.setup.closing.clone()).boxed());
        wires.rare.push(leaving::told(ends.leave).boxed());
        wires.rare.push(backlog::cut_off(ends.cut_off).boxed());
        loop {
            match poll_fn(|cx| self.poll_event(cx, &mut wires)).await? {
                Event::Delayed => self.send_delayed().await,
                Event::Batch(members) => self.take_batch(members).await,
                Event::Rare(Rare::Changed(view)) => self.changed(view).await,
                Event::Rare(Rare::Own(view)) => self.follow(view).await,
                Event::Rare(Rare::Listed { view, is_known }) => self.listed(view, is_known).await,
                Event::Rare(Rare::MayBeListed) => {
                    self.awaits_lists = false;
                    self.retry_deferred().await;
                }
                Event::Rare(Rare::Withdrawn(id, withdrawal)) => self.withdrawn(id, withdrawal),
                Event::Rare(Rare::Leaving) => self.leave(),
                Event::Rare(Rare::Overdue) => {
                    self.give_up_calls(wires.answers).await;
                    return self.say_goodbye(&mut wires).await;
                }
                Event::Rare(Rare::Closing) => return self.say_goodbye(&mut wires).await,
                Event::Rare(Rare::CutOff) => return Err(io::Error::other("unread data of all agents is over budget")),
                Event::Rare(Rare::HungUp) | Event::Over => return Ok(()),
            }
        }
    }

    /// Gives every call that is still unanswered to the agent, which may have no time left.
    async fn say_goodbye(&mut self, wires: &mut Wires<'_>) -> io::Result<()> {
        while let Ok(answer) = wires.answers.try_recv() {
            self.deliver(answer);
        }
        self.refuse_deferred(&stopping());
        let farewell = async {
            self.refuse_unread(wires.reader).await?;
            self.end_listens();
            self.give_up_batches();
            while !self.outbox.is_empty() {
                self.outbox.write_some(wires.write).await?;
            }
            Ok(())
        };
        timeout(LAST_ANSWERS, farewell).await.unwrap_or(Ok(()))
    }

    /// Refuses what the agent has sent and nobody has read: so it is known that no server has seen it.
    async fn refuse_unread(&mut self, reader: &mut AgentReader) -> io::Result<()> {
        self.refusal.get_or_insert_with(stopping);
        // The agent can send nothing more; what it has sent can be read, and then the end.
        rustix::net::shutdown(reader.get_ref().as_ref(), rustix::net::Shutdown::Read)?;
        while let Some(message) = reader.next().await? {
            match message {
                AgentMessage::Batch(members) if self.takes_batches() => self.take_batch(members).await,
                single => self.take_one(single),
            }
            self.delayed = None;
        }
        Ok(())
    }

    /// The agent, as servers have to know of it.
    fn agent(&self) -> Agent {
        let (to, abilities) = (self.reply.clone(), Arc::clone(&self.abilities));
        let era = if self.setup.facts.introduction.get().is_some() { Era::Legacy } else { Era::Modern };
        let user = Some(Arc::clone(&self.setup.user));
        Agent { session: self.setup.number, to, level: self.level, abilities, era, user }
    }
}
