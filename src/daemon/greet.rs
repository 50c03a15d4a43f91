//! Who comes in by which socket, and what becomes of them.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::net::unix::UCred;

use super::status::Connected;
use super::{Daemon, process};
use crate::calls::Caller;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::sockets::Listener;
use crate::{admin, server, session};

/// The next connection; never, if there is no listener any more.
pub(super) async fn accept(listener: Option<&Listener>) -> UnixStream {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

impl Daemon {
    pub(super) fn greet_agent(&mut self, stream: UnixStream) {
        let Some(peer) = own_peer(&stream) else { return };
        if self.sessions.len() >= self.max_sessions {
            tracing::warn!(pid = peer.pid(), "refused an agent: {} are connected", self.max_sessions);
            let message = format!("mcpd serves {} agents already", self.max_sessions);
            let data = Some(serde_json::json!({ "outcome": "not_sent" }));
            let error = ErrorObject { data, ..ErrorObject::new(-31003, message) };
            // Into an empty socket buffer: it does not wait.
            let _ = stream.try_write(&reply::error(None, &error));
            return;
        }
        self.next_session += 1;
        let facts = Arc::new(session::Facts::default());
        let (pid, uid) = (peer.pid(), peer.uid());
        let setup = session::Setup {
            number: self.next_session,
            caller: Caller { session: self.next_session, profile: "default", pid, uid, client: None },
            calls: self.calls.clone(),
            view: self.view.clone(),
            own_views: self.manager.own_views(),
            max_message: self.max_message,
            line_timeout: self.line_timeout,
            closing: self.closing.1.clone(),
            facts: Arc::clone(&facts),
            cwd: process::working_directory(pid),
        };
        let task = self.sessions.spawn(session::run(stream, setup));
        let connected = Connected { number: self.next_session, peer, since: Instant::now(), facts };
        self.connected.insert(task.id(), connected);
        self.agent_count.send_replace(self.connected.len());
    }

    pub(super) fn greet_operator(&mut self, stream: UnixStream) {
        let Some(peer) = own_peer(&stream) else { return };
        // All that this process starts are servers, whether they serve, come or go.
        let own = std::process::id();
        let is_own = |pid: i32| pid.cast_unsigned() == own;
        if !peer.pid().is_some_and(|pid| is_own(pid) || server::is_unrelated(pid, &[own])) {
            tracing::warn!(pid = peer.pid(), "refused an operator that may be a server");
            return;
        }
        self.questions.spawn(admin::serve(stream, self.operator.clone()));
    }
}

/// Who connected, if it is this daemon's own user; nobody else gets a byte read.
fn own_peer(stream: &UnixStream) -> Option<UCred> {
    let peer = stream.peer_cred().ok()?;
    let own = peer.uid() == rustix::process::geteuid().as_raw();
    if !own {
        tracing::warn!(uid = peer.uid(), pid = peer.pid(), "refused another user");
    }
    own.then_some(peer)
}
