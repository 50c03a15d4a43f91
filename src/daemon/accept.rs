//! New connections: who may connect by which socket, and the session or task that serves them.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::sync::oneshot;

use super::agent_sockets::{AgentSockets, is_own, may_connect};
use super::status::Connected;
use super::{Daemon, process};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::manager::Served;
use crate::server::User;
use crate::session::{Backlog, Orders, PeerIdentity, SessionStatus};
use crate::{server, session};

/// The next agent, and the index of its listener; pending if there are no listeners any more.
pub(super) async fn accept(sockets: Option<&AgentSockets>) -> (usize, UnixStream) {
    match sockets {
        Some(sockets) => sockets.accept().await,
        None => std::future::pending().await,
    }
}

impl Daemon {
    pub(super) fn accept_agent(&mut self, listener: usize, stream: UnixStream) {
        let Some(Served { profile, view }) = self.agents.as_ref().map(|sockets| sockets.get(listener).served.clone())
        else {
            return;
        };
        let Some(peer) = self.peer(&stream, |uid| may_connect(&profile, uid)) else { return };
        let (pid, uid) = (peer.pid(), peer.uid());
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: !is_own(uid) });
        if let Some(message) = self.is_full_for(&user) {
            if let Some(unlogged) = self.refusals.count() {
                tracing::warn!(pid, uid, profile = &*profile.name, unlogged, "refused an agent: {message}");
            }
            let error = ErrorObject::of_mcpd(ErrorCode::Overloaded, message, Delivery::NotSent);
            // Into an empty socket buffer: it does not wait.
            let _ = stream.try_write(&reply::error(None, &error));
            return;
        }
        self.next_session += 1;
        let status = Arc::new(SessionStatus::default());
        let backlog = Backlog::new(&self.budget);
        let identity = PeerIdentity { uid, pid, cwd: process::working_directory(pid) };
        let setup = session::Setup {
            number: self.next_session,
            identity: identity.clone(),
            user: Arc::clone(&user),
            calls: self.calls.clone(),
            view,
            own_views: self.manager.own_views(&profile.name),
            max_message: self.limits.max_message_bytes,
            line_timeout: self.limits.line_timeout,
            first_list_wait: self.limits.first_list_wait,
            stopping: self.stopping.1.clone(),
            closing: self.closing.1.clone(),
            status: Arc::clone(&status),
            backlog: Arc::clone(&backlog),
            task_token_key: Arc::clone(&self.task_token_key),
        };
        let ((leave, left), (cut_off, closed)) = (oneshot::channel(), oneshot::channel());
        let task = self.sessions.spawn(session::run(stream, setup, Orders { leave: left, cut_off: closed }));
        let (number, profile) = (self.next_session, Arc::clone(&profile.name));
        let (leave, cut_off, since) = (Some(leave), Some(cut_off), Instant::now());
        let connected = Connected { number, profile, peer: identity, since, status, user, backlog, leave, cut_off };
        self.connected.insert(task.id(), connected);
        self.agent_count.send_replace(self.connected.len());
    }

    pub(super) fn accept_operator(&mut self, stream: UnixStream) {
        let Some(peer) = self.peer(&stream, is_own) else { return };
        // All that this process starts are servers, whether they serve, come or go.
        let own = std::process::id();
        let is_itself = |pid: i32| pid.cast_unsigned() == own;
        if !peer.pid().is_some_and(|pid| is_itself(pid) || server::is_unrelated(pid, &[own])) {
            if let Some(unlogged) = self.refusals.count() {
                tracing::warn!(pid = peer.pid(), unlogged, "refused an operator that may be a server");
            }
            return;
        }
        self.operators.admit(stream, self.operator.clone());
    }

    /// The peer, if it may connect. Nothing is read from anybody else.
    fn peer(&mut self, stream: &UnixStream, may: impl Fn(u32) -> bool) -> Option<UCred> {
        let peer = stream.peer_cred().ok()?;
        let may = may(peer.uid());
        if let Some(unlogged) = (!may).then(|| self.refusals.count()).flatten() {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), unlogged, "refused another user");
        }
        may.then_some(peer)
    }
}
