//! The way to one server, for whoever has something for it to do or looks at how it is.
//!
//! Never waits for the server: commands go into its task's queue, everything else is what was published last.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::agents::Agent;
use super::call::{Call, CallKey, Failure};
use super::cancellation::Cancellation;
use super::command::Command;
use super::command_queue::CommandQueue;
use super::subscriptions::Subscription;
use super::task_subscribers::Interest;
use crate::server::lifecycle::State;
use crate::server::publish::Published;
use crate::server::stats::{Stats, Totals};
use crate::server::stderr::Log;

/// The way to one server; cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle(pub(crate) Arc<Way>);

/// What a handle leads to.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) name: Arc<str>,
    pub(crate) commands: CommandQueue,
    pub(crate) published: watch::Receiver<Published>,
    pub(crate) stderr: Log,
    pub(crate) stats: Arc<Stats>,
    /// Requests that this program itself has made of it.
    pub(crate) own_requests: AtomicU64,
    /// Where there may be several: each, with what it is for.
    pub(crate) instances: Option<watch::Receiver<Arc<[ServerHandle]>>>,
    /// What an instance that is one of several is for.
    pub(crate) purpose: Option<Arc<str>>,
}

impl ServerHandle {
    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Has the server do `call`: exactly one answer follows, if only that the server is overloaded or stopped. What finds
    /// no room in its queue comes back, for [`ServerHandle::call`].
    pub fn try_call(&self, call: Box<Call>) -> Option<Box<Call>> {
        match self.0.commands.try_send(Command::Call(call)) {
            Err(TrySendError::Full(Command::Call(call))) => return Some(call),
            Err(TrySendError::Closed(Command::Call(call))) => call.refuse_without_instance(Failure::ShuttingDown),
            Ok(()) | Err(_) => {}
        }
        None
    }

    /// The same, waiting for the turn of the server's task if there has to be.
    pub async fn call(&self, call: Box<Call>) {
        if let Err(SendError(Command::Call(call))) = self.0.commands.send(Command::Call(call)).await {
            call.refuse_without_instance(Failure::ShuttingDown);
        }
    }

    /// Tells the server that nobody waits for this call any more. No answer follows.
    pub async fn cancel(&self, key: CallKey, words: Option<Cancellation>) {
        // A task that is gone has no calls.
        let _ = self.0.commands.send(Command::Cancel { key, words: words.map(Box::new) }).await;
    }

    /// The same, for whoever cannot wait.
    pub(crate) fn cancel_soon(&self, key: CallKey, words: Option<Cancellation>) {
        self.send_soon(Command::Cancel { key, words: words.map(Box::new) });
    }

    /// Has the server do `call`, for whoever cannot wait.
    pub(crate) fn call_soon(&self, call: Box<Call>) {
        self.send_soon(Command::Call(call));
    }

    /// Tells the instance that a task which it made for the agent is wanted by nobody.
    pub(crate) fn drop_task(&self, session: u64, id: Bytes) {
        self.send_soon(Command::DropTask { session, id });
    }

    /// Whether the instance answers within `limit` when it is asked how it is; `None` if none runs, or if it has calls to
    /// answer, with which it may be busy.
    pub(crate) async fn answers(&self, limit: Duration) -> Option<bool> {
        if !matches!(self.published().state, State::Ready { .. } | State::Unresponsive { .. }) {
            return None;
        }
        let (asker, answer) = oneshot::channel();
        let asked = async {
            self.0.commands.send(Command::Check(asker)).await.ok()?;
            answer.await.ok()
        };
        match timeout(limit, asked).await {
            Ok(answered) => answered.map(|()| true),
            Err(_) => (self.totals().in_flight == 0).then_some(false),
        }
    }

    /// Has the instance list anew what it offers.
    pub(crate) fn relist(&self) {
        self.send_soon(Command::Relist);
    }

    fn send_soon(&self, command: Command) {
        self.0.commands.send_soon(command);
    }

    /// Waits until what it publishes fulfils `condition`; `false` if its task ended first.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&Published) -> bool) -> bool {
        self.0.published.clone().wait_for(condition).await.is_ok()
    }

    /// What it publishes, as one who looks for the first time.
    pub(crate) fn watch(&self) -> watch::Receiver<Published> {
        self.0.published.clone()
    }

    /// Waits until its task has ended: then no process of it is left.
    pub(crate) async fn ended(&self) {
        self.wait_for(|_| false).await;
    }

    /// Whether its task has ended: then no process of it is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.published.has_changed().is_err()
    }

    /// What it published last.
    pub fn published(&self) -> watch::Ref<'_, Published> {
        self.0.published.borrow()
    }

    /// Counters over all its instances, those that are gone included.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let of_instances =
            self.0.instances.iter().flat_map(|all| all.borrow().to_vec()).map(|one| one.0.stats.totals());
        of_instances.fold(self.0.stats.totals(), Totals::plus)
    }

    /// How often an instance of it was started within the last hour because the one before had ended by itself, or had not started.
    #[must_use]
    pub fn restarts_within_an_hour(&self) -> u64 {
        self.0.stats.recovered.count(Instant::now())
    }

    /// Each of its instances, where there may be several; those that are being ended are the last. None of a server that has only
    /// one, which is the handle's own.
    #[must_use]
    pub fn instances(&self) -> Option<Arc<[Self]>> {
        Some(Arc::clone(&self.0.instances.as_ref()?.borrow()))
    }

    /// What an instance that is one of several is for.
    #[must_use]
    pub fn purpose(&self) -> Option<&Arc<str>> {
        self.0.purpose.as_ref()
    }

    /// The guards of all its instances.
    #[must_use]
    pub fn guards(&self) -> Vec<u32> {
        let instances = self.instances().unwrap_or_default();
        instances.iter().chain([self]).filter_map(|one| one.published().guard_pid).collect()
    }

    /// Says that an agent is there; with the attachment it goes. The future ends when the tools of the instance that was
    /// started for it are published, or will not be.
    pub fn attach(&self, agent: Agent, cwd: Option<Arc<str>>) -> (Attachment, impl Future<Output = ()> + use<>) {
        let (unlisted, listed) = oneshot::channel();
        let session = agent.session;
        self.send_soon(Command::Attach { agent: Box::new(agent), cwd, unlisted });
        (Attachment { server: self.clone(), session }, listed.map(drop))
    }

    /// Says to an instance that has just been started that an agent is there.
    pub(crate) fn introduce_soon(&self, agent: Agent) {
        let (unlisted, _) = oneshot::channel();
        self.send_soon(Command::Attach { agent: Box::new(agent), cwd: None, unlisted });
    }

    /// Says that an agent is there, or wants something else than before, waiting for the turn of the server's task if there
    /// has to be: an agent may change its mind without end.
    pub(crate) async fn introduce(&self, agent: Agent) {
        let (unlisted, _) = oneshot::channel();
        // A task that is gone has nothing to tell anybody.
        let _ = self.0.commands.send(Command::Attach { agent: Box::new(agent), cwd: None, unlisted }).await;
    }

    /// Has an agent go on with a subscription that it had before another task stood in this one's place.
    pub(crate) fn hear_soon(&self, agent: Agent, subscription: Subscription) {
        self.send_soon(Command::Hear { agent: Box::new(agent), interest: Box::new(Interest::Resource(subscription)) });
    }

    /// Has an agent hear of something from now on, or no more, waiting for the turn of the server's task if there has to be.
    pub(crate) async fn hear(&self, agent: Agent, interest: Box<Interest>) {
        // A task that is gone tells nobody anything.
        let _ = self.0.commands.send(Command::Hear { agent: Box::new(agent), interest }).await;
    }

    /// Says that it has gone.
    pub(crate) fn take_leave(&self, session: u64) {
        self.send_soon(Command::Detach { session });
    }

    /// Says that the roots of an agent have changed.
    pub(crate) async fn roots_changed(&self, session: u64, line: Bytes) {
        // A task that is gone has no instance.
        let _ = self.0.commands.send(Command::RootsChanged { session, line }).await;
    }

    /// Whether `other` leads to this very server, and not to one that had its name before.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.commands.is_same(&other.0.commands)
    }

    /// What it writes to stderr, over all its instances.
    #[must_use]
    pub fn stderr(&self) -> &Log {
        &self.0.stderr
    }
}

/// That an agent is there. Dropping it says that it has gone.
#[derive(Debug)]
pub struct Attachment {
    server: ServerHandle,
    session: u64,
}

impl Attachment {
    /// Says that the agent wants something else than before, waiting for the turn of the server's task if there has to be.
    pub async fn change(&self, agent: Agent) {
        self.server.introduce(agent).await;
    }

    /// Says that the roots of the agent have changed, waiting for the turn of the server's task if there has to be.
    pub async fn roots_changed(&self, line: Bytes) {
        self.server.roots_changed(self.session, line).await;
    }

    /// Whether it is with this very server, and not with one that had its name before.
    #[must_use]
    pub fn is_with(&self, server: &ServerHandle) -> bool {
        self.server.is_same(server)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.server.take_leave(self.session);
    }
}
