//! Agents over HTTP, and what every session is started with.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::{oneshot, watch};
use tokio::task::Id;

use super::Daemon;
use super::agent_sockets::{AgentSockets, may_connect};
use super::new_agent::{NewAgent, send_once};
use super::status::ConnectedAgent;
use crate::config::Profile;
use crate::http_listener::{Connection, LoopbackStream, OpenSession, Protocol, http_refusal};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::ErrorObject;
use crate::manager::{ServedProfile, View};
use crate::message_limit::MessageLimit;
use crate::server::User;
use crate::session::{self, NamedUris, PeerIdentity, SessionOrders, SessionSetup, SessionStatus};

impl Daemon {
    pub(super) fn prepare_session(
        &self,
        agent: NewAgent,
        profile: Arc<Profile>,
        view: watch::Receiver<Arc<View>>,
        named_uris: Arc<NamedUris>,
        protocol: Arc<OnceLock<Protocol>>,
    ) -> (SessionSetup, SessionOrders, ConnectedAgent) {
        let NewAgent { number, user, identity, own_server, account } = agent;
        let status = Arc::new(SessionStatus::default());
        let setup = SessionSetup {
            number,
            identity: identity.clone(),
            guest_roots: user.is_guest.then(|| Arc::clone(&profile.workspace_roots)),
            user,
            history: self.calls.clone(),
            view,
            named_uris,
            own_server,
            agent_views: self.manager.agent_views(&profile.name),
            message_limit: MessageLimit::new(
                format_args!("profiles.{}", profile.name),
                profile.quotas.max_message,
                self.limits.max_message_bytes,
            ),
            first_list_wait: self.limits.first_list_wait,
            stopping: self.stopping.receiver.clone(),
            closing: self.closing.subscribe(),
            status: Arc::clone(&status),
            warnings: Arc::clone(&self.warnings),
            account,
            task_token_key: Arc::clone(&self.task_token_key),
        };
        let ((leave, left), (cut_off, closed)) = (oneshot::channel(), oneshot::channel());
        let orders = SessionOrders { profile_removed: left, cut_off: closed };
        let profile = Arc::clone(&profile.name);
        let (leave, cut_off, since) = (Some(leave), Some(cut_off), Instant::now());
        let connected = ConnectedAgent { number, profile, peer: identity, since, status, protocol, leave, cut_off };
        (setup, orders, connected)
    }

    pub(super) fn add_connected(&mut self, task: Id, connected: ConnectedAgent) {
        self.connected.insert(task, connected);
        self.count_agents();
    }

    pub(super) fn count_agents(&self) {
        self.agent_count.send_replace(self.connected.values().filter(|agent| agent.is_shown()).count());
    }

    /// Serves a connection to the loopback address of a profile.
    pub(super) fn accept_loopback(&mut self, profile: &str, connection: LoopbackStream) {
        let LoopbackStream { stream, stranger } = connection;
        let mut all = self.agents.iter().flat_map(AgentSockets::all);
        let Some(listener) = all.find(|one| *one.served.profile.name == *profile) else { return };
        let (ServedProfile { profile, view }, named_uris) = (listener.served.clone(), Arc::clone(&listener.named_uris));
        let uid = rustix::process::geteuid().as_raw();
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: false });
        let number = self.next_session + 1;
        let account = match self.accounts.connect(number, &user, Instant::now()) {
            Ok(account) => account,
            Err(over) => {
                if self.warnings.admits("refused an agent", format_args!("at {profile}", profile = profile.name)) {
                    tracing::warn!(profile = &*profile.name, "refused an agent: {over}");
                }
                return send_once(&stream, &http_refusal(&over.to_object(Delivery::NotSent)));
            }
        };
        self.next_session = number;
        let identity = PeerIdentity { uid, pid: None, cwd: None };
        let agent = NewAgent { number, user, identity, own_server: None, account };
        let origins = Arc::clone(&profile.http_origins);
        let protocol = Arc::new(OnceLock::from(Protocol::Loopback));
        let (setup, orders, connected) = self.prepare_session(agent, profile, view, named_uris, protocol);
        let (sessions, stranger) = (self.http_sessions.clone(), Some(stranger));
        let connection = Connection { sessions, setup, orders, origins, stranger };
        let task = self.sessions.spawn(connection.serve(stream));
        self.add_connected(task.id(), connected);
    }

    /// Runs a session of a legacy agent over HTTP.
    pub(super) fn open_session(&mut self, request: OpenSession) {
        let OpenSession { user, identity, own_server, protocol, transport, answer } = request;
        let served = self.agents.iter().flat_map(AgentSockets::all);
        let served = served.map(|one| (&one.served, &one.named_uris));
        let served = served.filter(|(served, _)| may_connect(&served.profile, user.uid));
        let Some((ServedProfile { profile, view }, named_uris)) =
            served.into_iter().find(|(served, _)| served.profile.name == user.profile)
        else {
            let why = "mcpd is being stopped, or the profile of this connection was removed";
            let error = ErrorObject::of_mcpd(ErrorCode::ShuttingDown, why, Delivery::NotSent);
            // The connection may be gone.
            return drop(answer.send(Err(error)));
        };
        let (profile, view, named_uris) = (Arc::clone(profile), view.clone(), Arc::clone(named_uris));
        let number = self.next_session + 1;
        let account = match self.accounts.connect(number, &user, Instant::now()) {
            Ok(account) => account,
            Err(over) => return drop(answer.send(Err(over.to_object(Delivery::NotSent)))),
        };
        self.next_session = number;
        let agent = NewAgent { number, user, identity, own_server, account };
        let protocol = Arc::new(OnceLock::from(protocol));
        let (setup, orders, connected) = self.prepare_session(agent, profile, view, named_uris, protocol);
        let task = self.sessions.spawn(session::run(transport, setup, orders));
        self.add_connected(task.id(), connected);
        drop(answer.send(Ok(())));
    }
}
