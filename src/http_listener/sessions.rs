//! The legacy sessions by their ids, and how the daemon opens sessions.

#![expect(clippy::disallowed_types, reason = "all connections look sessions up; nothing waits while it is locked")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::agents::Agents;
use super::caller::{Access, Owner};
use super::hub::Hub;
use super::protocol::Protocol;
use super::token::Token;
use super::transport::HttpTransport;
use crate::jsonrpc::reply::ErrorObject;
use crate::random;
use crate::server::User;
use crate::session::PeerIdentity;

/// Opens a session that connections serve.
pub(crate) struct OpenSession {
    pub(crate) user: Arc<User>,
    pub(crate) identity: PeerIdentity,
    /// The server that has started the agent, if one has.
    pub(crate) own_server: Option<Arc<str>>,
    pub(crate) protocol: Protocol,
    pub(crate) transport: HttpTransport,
    pub(crate) answer: oneshot::Sender<Result<(), ErrorObject>>,
}

type ById = HashMap<String, (Owner, Arc<Hub>)>;

/// The sessions of all listeners. A clone has the same sessions.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    /// The legacy ones.
    by_id: Arc<Mutex<ById>>,
    /// The modern ones.
    pub(super) agents: Agents,
    requests: mpsc::Sender<OpenSession>,
}

/// Forgets a session when it is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    sessions: Sessions,
    id: String,
}

impl Sessions {
    /// `requests` opens sessions.
    pub(crate) fn new(requests: mpsc::Sender<OpenSession>) -> Self {
        Self { by_id: Arc::default(), agents: Agents::default(), requests }
    }

    fn by_id(&self) -> MutexGuard<'_, ById> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session under a new id.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(super) fn register(
        &self,
        owner: Owner,
        hub: &Arc<Hub>,
    ) -> Result<(String, Registration), random::NoRandomNumbers> {
        let id = random::token()?;
        self.by_id().insert(id.clone(), (owner, Arc::clone(hub)));
        Ok((id.clone(), Registration { sessions: self.clone(), id }))
    }

    /// The session with this id, if `owner` may use it.
    pub(super) fn find(&self, id: &str, owner: &Owner) -> Option<Arc<Hub>> {
        self.by_id().get(id).filter(|(found, _)| found == owner).map(|(_, hub)| Arc::clone(hub))
    }

    /// Ends the sessions that use another token of a profile than its current one.
    pub(crate) fn keep_tokens(&self, current: &[(Arc<str>, Token)]) {
        let is_old = |Owner { profile, access, .. }: &Owner| {
            let Access::Loopback(used) = access else { return false };
            current.iter().any(|(name, token)| name == profile && token != used)
        };
        self.by_id().values().filter(|(owner, _)| is_old(owner)).for_each(|(_, hub)| hub.close());
    }

    /// Asks the daemon to run a session. `None` while the daemon stops.
    pub(super) async fn open(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), ErrorObject>>) -> OpenSession,
    ) -> Option<Result<(), ErrorObject>> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.ok()?;
        answered.await.ok()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.by_id().remove(&self.id);
    }
}
