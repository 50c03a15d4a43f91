//! The handle of one server: sends commands to its task and reads what the task has published.
//!
//! It never waits for the server itself, only for capacity in the task's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::agents::Agent;
use super::call::{Call, CallKey, Failure};
use super::command::{Command, CommandQueue};
use super::subscribers::{ResourceSubscriptionChange, SubscriptionChange};
use crate::config::{AgentDirectory, Sandbox};
use crate::era::Era;
use crate::server::lifecycle::State;
use crate::server::publish::ServerSnapshot;
use crate::server::server_request::Cancellation;
use crate::server::stats::{AnswerTimes, RefusedCalls, Stats, Totals};
use crate::server::stderr::Log;

/// The handle of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    pub(crate) commands: CommandQueue,
    pub(crate) published: watch::Receiver<ServerSnapshot>,
    pub(crate) stderr: Log,
    pub(crate) stats: Arc<Stats>,
    /// The number of requests that this program itself has sent.
    pub(crate) embedder_requests: AtomicU64,
    /// The instances, if there may be several.
    pub(crate) instances: Option<watch::Receiver<Arc<[ServerHandle]>>>,
    /// The label of an instance that is one of several.
    pub(crate) label: Option<Arc<str>>,
}

impl ServerHandle {
    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Notes that a call waits until the server has listed.
    pub(crate) fn note_waiting_call(&self) {
        self.0.stats.is_called.store(true, Ordering::Relaxed);
    }

    /// Sends a call, which gets exactly one answer. If the task's queue is full, returns the call for
    /// [`ServerHandle::call`].
    pub fn try_call(&self, call: Box<Call>) -> Option<Box<Call>> {
        match self.0.commands.try_send(Command::Call(call)) {
            Err(TrySendError::Full(Command::Call(call))) => return Some(call),
            Err(TrySendError::Closed(Command::Call(call))) => call.refuse_without_instance(Failure::ShuttingDown),
            Ok(()) | Err(_) => {}
        }
        None
    }

    /// Sends a call, and waits for capacity in the queue.
    pub async fn call(&self, call: Box<Call>) {
        if let Err(SendError(Command::Call(call))) = self.0.commands.send(Command::Call(call)).await {
            call.refuse_without_instance(Failure::ShuttingDown);
        }
    }

    /// Cancels a call, which gets no answer then.
    pub async fn cancel(&self, key: CallKey, words: Option<Cancellation>) {
        // A task that has ended has no calls.
        let _ = self.0.commands.send(Command::Cancel { key, notification: words.map(Box::new) }).await;
    }

    /// Cancels a call without waiting for capacity in the queue.
    pub(crate) fn cancel_soon(&self, key: CallKey, words: Option<Cancellation>) {
        self.send_soon(Command::Cancel { key, notification: words.map(Box::new) });
    }

    /// Sends a call without waiting for capacity in the queue.
    pub(crate) fn call_soon(&self, call: Box<Call>) {
        self.send_soon(Command::Call(call));
    }

    /// Drops a task of the agent, which never received it.
    pub(crate) fn drop_task(&self, session: u64, id: Bytes) {
        self.send_soon(Command::DropTask { session, id });
    }

    /// Checks the health of the instance. `Some(true)`: it has answered within `limit`. `Some(false)`: it has not, and has no calls
    /// in flight. `None`: it does not run, or has not answered while it has calls.
    pub(crate) async fn answers(&self, limit: Duration) -> Option<bool> {
        if !matches!(self.published().state, State::Ready { .. } | State::Unresponsive { .. }) {
            return None;
        }
        let (caller, answer) = oneshot::channel();
        let check = async {
            self.0.commands.send(Command::Check(caller)).await.ok()?;
            answer.await.ok()
        };
        match timeout(limit, check).await {
            Ok(answered) => answered.map(|()| true),
            Err(_) => (self.totals().in_flight == 0).then_some(false),
        }
    }

    /// Makes the instance fetch its lists again.
    pub(crate) fn relist(&self) {
        self.send_soon(Command::Relist);
    }

    /// Starts the next attempt of a server that is down.
    pub(crate) fn wake(&self) {
        self.send_soon(Command::Wake);
    }

    fn send_soon(&self, command: Command) {
        self.0.commands.send_soon(command);
    }

    /// Waits until the published snapshot fulfils `condition`; `false` if the task ended first.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&ServerSnapshot) -> bool) -> bool {
        self.0.published.clone().wait_for(condition).await.is_ok()
    }

    /// A new receiver of the published snapshots.
    pub(crate) fn watch(&self) -> watch::Receiver<ServerSnapshot> {
        self.0.published.clone()
    }

    /// Waits until its task has ended and no process is left.
    pub(crate) async fn wait_ended(&self) {
        self.wait_for(|_| false).await;
    }

    /// Whether its task has ended and no process is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.published.has_changed().is_err()
    }

    /// The latest published snapshot.
    pub fn published(&self) -> watch::Ref<'_, ServerSnapshot> {
        self.0.published.borrow()
    }

    /// Counters of all instances, former ones included.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let of_instances =
            self.0.instances.iter().flat_map(|all| all.borrow().to_vec()).map(|one| one.0.stats.totals());
        of_instances.fold(self.0.stats.totals(), Totals::plus)
    }

    /// The times of answered calls of the embedding program. The daemon has none.
    #[must_use]
    pub fn answer_times(&self) -> Option<AnswerTimes> {
        Some(self.0.stats.answer_times.read()).filter(|times| times.count > 0)
    }

    /// Restarts within the last hour, after an instance had ended by itself or had not started.
    #[must_use]
    pub fn failure_restarts_within_an_hour(&self) -> u64 {
        self.0.stats.failure_restarts.count(Instant::now())
    }

    /// Calls that failed at files, since it has this sandbox.
    pub(crate) fn refused_calls(&self, sandbox: &Sandbox) -> Option<RefusedCalls> {
        self.0.stats.refused_calls.of(sandbox)
    }

    /// Its instances, if there may be several; stopping ones come last. `None` for a server with a single instance.
    #[must_use]
    pub fn instances(&self) -> Option<Arc<[Self]>> {
        Some(Arc::clone(&self.0.instances.as_ref()?.borrow()))
    }

    /// The label of an instance that is one of several.
    #[must_use]
    pub fn label(&self) -> Option<&Arc<str>> {
        self.0.label.as_ref()
    }

    /// Attaches an agent, until the attachment is dropped. The future ends when the instance that was started for the agent
    /// has listed, or will not list.
    pub fn attach(&self, agent: Agent, directory: AgentDirectory) -> (Attachment, impl Future<Output = ()> + use<>) {
        let (listed_signal, listed) = oneshot::channel();
        let session = agent.session;
        self.send_soon(Command::Attach { agent: Box::new(agent), directory, listed_signal });
        (Attachment { server: self.clone(), session }, listed.map(drop))
    }

    /// Attaches an agent to an instance that was just started.
    pub(crate) fn attach_agent_soon(&self, agent: Agent) {
        let (listed_signal, _) = oneshot::channel();
        let directory = AgentDirectory::Unknown;
        self.send_soon(Command::Attach { agent: Box::new(agent), directory, listed_signal });
    }

    /// Attaches an agent, or replaces its data. Waits for capacity in the queue, as an agent may do that endlessly.
    pub(crate) async fn attach_agent(&self, agent: Agent) {
        let (listed_signal, _) = oneshot::channel();
        let directory = AgentDirectory::Unknown;
        // A task that has ended sends no notifications.
        let _ = self.0.commands.send(Command::Attach { agent: Box::new(agent), directory, listed_signal }).await;
    }

    /// Begins or ends a subscription of an agent without waiting for capacity in the queue.
    pub(crate) fn subscribe_soon(&self, agent: Agent, subscription: ResourceSubscriptionChange) {
        self.send_soon(Command::Subscribe {
            agent: Box::new(agent),
            change: Box::new(SubscriptionChange::Resource(subscription)),
        });
    }

    /// Begins or ends a subscription. Waits for capacity in the queue.
    pub(crate) async fn subscribe(&self, agent: Agent, change: Box<SubscriptionChange>) {
        // A task that has ended sends no notifications.
        let _ = self.0.commands.send(Command::Subscribe { agent: Box::new(agent), change }).await;
    }

    /// Detaches an agent.
    pub(crate) fn detach(&self, session: u64) {
        self.send_soon(Command::Detach { session });
    }

    /// Reports that the roots of an agent have changed.
    pub(crate) async fn roots_changed(&self, session: u64, line: Bytes) {
        // A task that has ended has no instance.
        let _ = self.0.commands.send(Command::RootsChanged { session, line }).await;
    }

    /// Forwards a notification of an extension that an agent of this era has sent. Without an instance it is dropped.
    pub(crate) async fn notify(&self, session: u64, era: Era, line: Bytes) {
        // A task that has ended has no instance.
        let _ = self.0.commands.send(Command::Notify { session, era, line }).await;
    }

    /// Whether `other` is a handle of the same task, and not of a former server of that name.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.commands.is_same(&other.0.commands)
    }

    /// The stderr of all its instances.
    #[must_use]
    pub fn stderr(&self) -> &Log {
        &self.0.stderr
    }
}

/// An attached agent. Dropping it detaches the agent.
#[derive(Debug)]
pub struct Attachment {
    server: ServerHandle,
    session: u64,
}

impl Attachment {
    /// Replaces the agent's data, such as its log level. Waits for capacity in the queue.
    pub async fn change(&self, agent: Agent) {
        self.server.attach_agent(agent).await;
    }

    /// Reports that its roots have changed. Waits for capacity in the queue.
    pub async fn roots_changed(&self, line: Bytes) {
        self.server.roots_changed(self.session, line).await;
    }

    /// Whether it is attached to this task, and not to that of a former server of that name.
    #[must_use]
    pub fn is_with(&self, server: &ServerHandle) -> bool {
        self.server.is_same(server)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.server.detach(self.session);
    }
}
