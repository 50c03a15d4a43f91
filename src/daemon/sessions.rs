//! The sessions of connected agents.
//!
//! Each is charged to the account of its user. While connections together hold too much, some are closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use super::admission::{Admission, is_own, may_connect};
use super::agent_sockets::ProfileListener;
use crate::account::{Account, Accounts, Held, LimitUse};
use crate::admin::report::{AgentReport, QuotaReport};
use crate::calls::History;
use crate::config::{DaemonConfig, Profile};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::reply::ErrorObject;
use crate::logging::Limiter;
use crate::manager::report::millis;
use crate::manager::{Manager, ServedProfile};
use crate::message_limit::{MessageLimit, buffer_unit};
use crate::server::{StopChannel, StopReceiver, User};
use crate::session::{self, LineTransport, PeerIdentity, SessionOrders, SessionSetup, SessionStatus, TaskTokenKey};

/// Agents connected at once, or half as many as there may be open files if that is less; one more gets −31003 and its
/// connection is closed.
const MAX_SESSIONS: usize = 4096;
/// Time for sessions to write their last answers, which have a shorter limit of their own.
const LAST_SESSIONS: Duration = Duration::from_secs(1);

pub(super) struct Sessions {
    limits: DaemonConfig,
    history: History,
    task_token_key: Arc<TaskTokenKey>,
    warnings: Arc<Limiter>,
    stopping: StopReceiver,
    /// Raised when no server is left: sessions write their last answers and end.
    closing: watch::Sender<bool>,
    accounts: Arc<Accounts>,
    tasks: JoinSet<()>,
    connected: HashMap<Id, ConnectedAgent>,
    /// The number of `connected`, which the service manager's status line follows.
    count: watch::Sender<usize>,
    last_number: u64,
}

/// One connected agent.
struct ConnectedAgent {
    number: u64,
    profile: Arc<str>,
    peer: PeerIdentity,
    since: Instant,
    status: Arc<SessionStatus>,
    /// Ends the session after its calls; `None` once used.
    leave: Option<oneshot::Sender<()>>,
    /// Closes the connection at once; `None` once used.
    cut_off: Option<oneshot::Sender<ErrorObject>>,
}

/// An agent that may have a session.
struct Admitted {
    user: Arc<User>,
    pid: Option<i32>,
    /// The server that has started it, if one has.
    own_server: Option<Arc<str>>,
    account: Arc<Account>,
}

impl Sessions {
    /// `limits`: the `[daemon]` table.
    pub(super) fn new(
        limits: DaemonConfig,
        history: History,
        task_token_key: TaskTokenKey,
        warnings: Arc<Limiter>,
        stopping: &StopChannel,
    ) -> Self {
        let open_files = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let max_sessions = open_files.map_or(MAX_SESSIONS, |files| MAX_SESSIONS.min(files / 2));
        Self {
            accounts: Accounts::new(max_sessions, buffer_unit(limits.max_message_bytes)),
            limits,
            history,
            task_token_key: Arc::new(task_token_key),
            warnings,
            stopping: stopping.receiver.clone(),
            closing: watch::Sender::new(false),
            tasks: JoinSet::new(),
            connected: HashMap::new(),
            count: watch::Sender::new(0),
            last_number: 0,
        }
    }

    /// Watches the number of connected agents.
    pub(super) fn watch_count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// How many agents of a profile may connect at once.
    pub(super) fn burst(&self, profile: &Profile) -> usize {
        self.accounts.ledger().burst(profile)
    }

    /// Serves or refuses a new agent. After a burst, the listener accepts more slowly.
    pub(super) fn serve(&mut self, stream: UnixStream, at: &ProfileListener, admission: &Admission, manager: &Manager) {
        let admitted = self.admit(&stream, &at.served.profile, admission);
        let is_admitted = admitted.is_some();
        if let Some(admitted) = admitted {
            self.open(stream, at, admitted, manager);
        }
        let mut ledger = self.accounts.ledger();
        at.listener.pause(ledger.pause_after_connection(&at.served.profile, is_admitted, Instant::now()));
    }

    fn admit(&self, stream: &UnixStream, profile: &Profile, admission: &Admission) -> Option<Admitted> {
        let peer = admission.peer(stream, |uid| may_connect(profile, uid))?;
        let (pid, uid) = (peer.pid(), peer.uid());
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: !is_own(uid) });
        // Limits come first: their check costs least.
        let account = self.accounts.connect(self.last_number + 1, &user, Instant::now());
        let admitted = account.map_err(|over| over.to_object(Delivery::NotSent)).and_then(|account| {
            let own_server = admission.admit_agent(stream, pid, &user)?;
            Ok(Admitted { user: Arc::clone(&user), pid, own_server, account })
        });
        admitted.inspect_err(|error| admission.refuse_agent(stream, pid, &user, error)).ok()
    }

    fn open(&mut self, stream: UnixStream, at: &ProfileListener, admitted: Admitted, manager: &Manager) {
        let Admitted { user, pid, own_server, account } = admitted;
        let ServedProfile { profile, view } = at.served.clone();
        self.last_number += 1;
        let (number, status) = (self.last_number, Arc::new(SessionStatus::default()));
        let peer = PeerIdentity { uid: user.uid, pid, cwd: working_directory(pid) };
        let message_limit = MessageLimit::new(
            format_args!("profiles.{}", profile.name),
            profile.quotas.max_message,
            self.limits.max_message_bytes,
        );
        let setup = SessionSetup {
            number,
            identity: peer.clone(),
            guest_roots: user.is_guest.then(|| Arc::clone(&profile.workspace_roots)),
            user,
            history: self.history.clone(),
            view,
            named_uris: Arc::clone(&at.named_uris),
            own_server,
            agent_views: manager.agent_views(&profile.name),
            message_limit,
            first_list_wait: self.limits.first_list_wait,
            stopping: self.stopping.clone(),
            closing: self.closing.subscribe(),
            status: Arc::clone(&status),
            warnings: Arc::clone(&self.warnings),
            account,
            task_token_key: Arc::clone(&self.task_token_key),
        };
        let ((leave, left), (cut_off, closed)) = (oneshot::channel(), oneshot::channel());
        let transport = LineTransport::new(stream, setup.message_limit.bytes());
        let orders = SessionOrders { profile_removed: left, cut_off: closed };
        let task = self.tasks.spawn(session::run(transport, setup, orders));
        let (leave, cut_off, since) = (Some(leave), Some(cut_off), Instant::now());
        let profile = Arc::clone(&profile.name);
        self.connected.insert(task.id(), ConnectedAgent { number, profile, peer, since, status, leave, cut_off });
        self.count.send_replace(self.connected.len());
    }

    /// Applies these profiles to the agents. Disconnects those whose profile was removed or no longer allows them.
    pub(super) fn apply(&mut self, profiles: &[ServedProfile]) {
        let profiles = profiles.iter().map(|served| &served.profile);
        self.accounts.ledger().apply(profiles.clone(), may_connect);
        for agent in self.connected.values_mut() {
            let profile = profiles.clone().find(|profile| profile.name == agent.profile);
            if !profile.is_some_and(|profile| may_connect(profile, agent.peer.uid)) {
                // The session may have ended already.
                let _ = agent.leave.take().map(|leave| leave.send(()));
            }
        }
    }

    /// Handles the end of a session, or an exceeded limit of what connections hold. Cancel safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id() => {
                self.connected.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
                self.count.send_replace(self.connected.len());
            }
            () = self.accounts.exceeded() => self.relieve(),
        }
    }

    /// Closes connections until the others are within the limits of what they hold.
    fn relieve(&mut self) {
        let surplus = self.accounts.ledger().take_surplus(Instant::now());
        for (Held { number, bytes, .. }, reason) in surplus {
            let Some(agent) = self.connected.values_mut().find(|agent| agent.number == number) else { continue };
            let (pid, uid, error) = (agent.peer.pid, agent.peer.uid, reason.to_object(Delivery::Unknown));
            if self.warnings.admits("cut off an agent", format_args!("user {uid} at profile {}", agent.profile)) {
                tracing::warn!(session = number, pid, uid, bytes, "cut off an agent: {}", error.message);
            }
            // It may have ended already.
            let _ = agent.cut_off.take().map(|order| order.send(error));
        }
    }

    /// Lets all sessions write their last answers and end.
    pub(super) async fn close(&mut self) {
        self.closing.send_replace(true);
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(LAST_SESSIONS, all_ended).await.is_err() {
            tracing::warn!("some agents did not read their last answers in time");
        }
    }

    /// In the order in which they connected.
    pub(super) fn report(&self) -> Vec<AgentReport> {
        let mut agents: Vec<_> = self.connected.values().map(ConnectedAgent::report).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        agents
    }

    /// The number of agents at a profile.
    pub(super) fn count_at(&self, profile: &str) -> usize {
        self.connected.values().filter(|agent| *agent.profile == *profile).count()
    }

    /// The limits of all agents of a profile, and of those of each guest there.
    pub(super) fn quotas_at(&self, profile: &str) -> Vec<QuotaReport> {
        let quota = |(uid, LimitUse { name, limit, used, refused })| QuotaReport {
            key: name.to_owned(),
            uid,
            limit,
            used,
            refused,
        };
        self.accounts.ledger().report(profile).into_iter().map(quota).collect()
    }
}

impl ConnectedAgent {
    fn report(&self) -> AgentReport {
        let introduction = self.status.introduction();
        AgentReport {
            session: self.number,
            profile: self.profile.to_string(),
            pid: self.peer.pid,
            uid: self.peer.uid,
            client: introduction.and_then(|introduction| introduction.client.clone()),
            server: introduction.and_then(|introduction| introduction.face.as_deref()).map(str::to_owned),
            protocol: introduction.map(|introduction| introduction.protocol_version.to_owned()),
            connected_ms: millis(self.since.elapsed()),
            calls: self.status.calls.get(),
            dropped_notifications: self.status.dropped.get(),
            stray_responses: self.status.stray_responses.get(),
        }
    }
}

/// Where the process works, if that can be known; it may be anybody's by then.
fn working_directory(pid: Option<i32>) -> Option<Arc<str>> {
    let link = std::fs::read_link(format!("/proc/{}/cwd", pid?)).ok()?;
    link.to_str().filter(|path| path.starts_with('/')).map(Arc::from)
}
