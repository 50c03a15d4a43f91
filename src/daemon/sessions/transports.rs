//! What each session runs over: the lines of an agent socket, or the HTTP connections that serve it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::sync::watch;

use super::{Admitted, Sessions};
use crate::account::Account;
use crate::config::Profile;
use crate::daemon::admission::{Admission, is_own, may_connect};
use crate::daemon::agent_sockets::{AgentConnection, AgentSockets, ProfileListener};
use crate::http_listener::{self, Connection, LoopbackStream, OpenSession, Protocol, first_protocol};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::ErrorObject;
use crate::manager::Manager;
use crate::server::User;
use crate::session::{self, LineTransport, PeerIdentity, SessionOrders, SessionSetup};

impl Sessions {
    /// Serves or refuses a new agent. After a burst, its agent socket accepts more slowly.
    pub(in crate::daemon) fn serve(
        &mut self,
        connection: AgentConnection,
        at: &ProfileListener,
        admission: &Admission,
        manager: &Manager,
    ) {
        let stream = match connection {
            AgentConnection::Socket(stream) => stream,
            AgentConnection::Loopback(connection) => return self.serve_loopback(connection, at, admission, manager),
        };
        let admitted = self.admit(&stream, &at.served.profile, admission);
        let is_admitted = matches!(admitted, Some(Ok(_)));
        match admitted {
            Some(Ok(admitted)) => {
                let (http, origins) = (self.http.clone(), at.http_origins.subscribe());
                let protocol = Arc::clone(&admitted.protocol);
                self.open(at, admitted, manager, |setup, orders| {
                    serve_by_first_byte(stream, Box::new((setup, orders)), protocol, http, origins)
                });
            }
            Some(Err(reason)) => self.refusals.refuse(stream, None, reason),
            None => {}
        }
        let mut ledger = self.accounts.ledger();
        at.listener.pause(ledger.pause_after_connection(&at.served.profile, is_admitted, Instant::now()));
    }

    /// `None` if nothing is sent to the peer.
    fn admit(
        &self,
        stream: &UnixStream,
        profile: &Profile,
        admission: &Admission,
    ) -> Option<Result<Admitted, ErrorObject>> {
        let peer = admission.peer(stream, |uid| may_connect(profile, uid))?;
        let (pid, uid) = (peer.pid(), peer.uid());
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: !is_own(uid) });
        // Limits come first: their check costs least.
        let admitted = self.charge(&user).and_then(|account| {
            let own_server = admission.admit_agent(stream, pid, &user)?;
            let peer = PeerIdentity { uid, pid, cwd: working_directory(pid) };
            let (user, protocol) = (Arc::clone(&user), Arc::default());
            Ok(Admitted { user, peer, own_server, account, protocol, is_http_session: false })
        });
        Some(admitted.inspect_err(|reason| admission.log_refused_agent(pid, &user, reason)))
    }

    /// Serves or refuses a connection to a loopback address. It acts for the user who runs mcpd.
    fn serve_loopback(
        &mut self,
        LoopbackStream { stream, address, stranger }: LoopbackStream,
        at: &ProfileListener,
        admission: &Admission,
        manager: &Manager,
    ) {
        let (profile, protocol) = (&at.served.profile, Protocol::Loopback(address));
        let uid = rustix::process::geteuid().as_raw();
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: false });
        let account = match self.charge(&user) {
            Ok(account) => account,
            Err(reason) => {
                admission.log_refused_agent(None, &user, &reason);
                return self.refusals.refuse(stream, Some(protocol), reason);
            }
        };
        let (peer, found) = (PeerIdentity { uid, pid: None, cwd: None }, Arc::new(protocol.into()));
        let admitted = Admitted { user, peer, own_server: None, account, protocol: found, is_http_session: false };
        let (sessions, origins) = (self.http.clone(), at.http_origins.subscribe());
        self.open(at, admitted, manager, |setup, orders| {
            let prepared = Box::new((setup, orders));
            Connection { protocol, sessions, prepared, origins, stranger: Some(stranger) }.serve(stream)
        });
    }

    /// Opens a session that HTTP connections serve, or answers why it cannot.
    pub(super) fn open_http(&mut self, request: OpenSession, sockets: Option<&AgentSockets>, manager: &Manager) {
        let OpenSession { user, identity, own_server, protocol, transport, answer } = request;
        let is_served = |one: &&ProfileListener| {
            one.served.profile.name == user.profile && may_connect(&one.served.profile, user.uid)
        };
        let opened = match sockets.and_then(|sockets| sockets.all().iter().find(is_served)) {
            Some(at) => self.charge(&user).map(|account| {
                let (peer, protocol) = (identity, Arc::new(protocol.into()));
                let admitted = Admitted { user, peer, own_server, account, protocol, is_http_session: true };
                self.open(at, admitted, manager, |setup, orders| {
                    session::run(transport.tapped(setup.tap.clone()), setup, orders)
                });
            }),
            None => {
                let why =
                    "mcpd is being stopped, or the profile of this connection is no longer available to this agent";
                Err(ErrorObject::of_mcpd(ErrorCode::ShuttingDown, why, Delivery::NotSent))
            }
        };
        // The connection may be gone.
        drop(answer.send(opened));
    }

    /// Charges the next session to its user.
    fn charge(&self, user: &Arc<User>) -> Result<Arc<Account>, ErrorObject> {
        let account = self.accounts.connect(self.last_number + 1, user, Instant::now());
        account.map_err(|over| over.to_object(Delivery::NotSent))
    }
}

/// Serves a connection to an agent socket in the protocol of its first byte.
async fn serve_by_first_byte(
    stream: UnixStream,
    mut prepared: Box<(SessionSetup, SessionOrders)>,
    protocol: Arc<OnceLock<Protocol>>,
    sessions: http_listener::Sessions,
    origins: watch::Receiver<Arc<[String]>>,
) {
    let (setup, orders) = &mut *prepared;
    let Some(found) = first_protocol(&stream, setup, orders).await else { return };
    // Only this task sets it.
    let _ = protocol.set(found);
    // Boxed, because each agent would have the space for both.
    match found {
        Protocol::Lines => {
            let (setup, orders) = *prepared;
            let transport = LineTransport::new(stream, setup.message_limit.bytes(), setup.tap.clone());
            Box::pin(session::run(transport, setup, orders)).await;
        }
        Protocol::Http | Protocol::Loopback(_) => {
            let connection = Connection { protocol: found, sessions, prepared, origins, stranger: None };
            Box::pin(connection.serve(stream)).await;
        }
    }
}

/// The working directory of the process, if it can be read. By then, another process may have the id.
fn working_directory(pid: Option<i32>) -> Option<Arc<str>> {
    let link = std::fs::read_link(format!("/proc/{}/cwd", pid?)).ok()?;
    link.to_str().filter(|path| path.starts_with('/')).map(Arc::from)
}
