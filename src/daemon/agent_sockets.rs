//! The agent sockets, one for each profile, and the loopback addresses of profiles that have one.
//!
//! A reload creates the sockets of new profiles first: if one cannot be created, the configuration is refused and nothing has
//! changed. Once the manager publishes the profiles, connections that wait at the new sockets are accepted, and the sockets of removed
//! profiles are closed. Until then a new socket is kept as long as its profile is in use.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use futures_util::future::{FutureExt, select_all};
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};

use super::loopback_sockets::LoopbackSockets;
use crate::config::Profile;
use crate::http_listener::LoopbackStream;
use crate::manager::ServedProfile;
use crate::session::NamedUris;
use crate::sockets::{
    Handover, Listener, Lock, PassedSockets, ProfileDirectories, SocketError, SocketMode, agent_socket,
};

/// Creates the sockets of these profiles, besides the existing ones.
pub(super) struct PrepareSockets {
    pub(super) profiles: Vec<Arc<Profile>>,
    pub(super) answer: oneshot::Sender<Result<(), SocketError>>,
}

/// A profile that is served, and what stays when a reload changes it: its socket, and what its connections share.
#[derive(Debug)]
pub(super) struct ProfileListener {
    pub(super) served: ServedProfile,
    pub(super) listener: Listener,
    /// The resources that results on it have named.
    pub(super) named_uris: Arc<NamedUris>,
    /// The origins whose pages may send requests over HTTP, also on open connections.
    pub(super) http_origins: watch::Sender<Arc<[String]>>,
}

/// A new connection of an agent.
#[derive(Debug)]
pub(super) enum AgentConnection {
    /// To an agent socket.
    Socket(UnixStream),
    /// To a loopback address.
    Loopback(LoopbackStream),
}

/// The socket of a profile that is not served yet.
#[derive(Debug)]
struct PreparedSocket {
    profile: Arc<str>,
    /// Profiles of that name that may still be served.
    users: Vec<Weak<Profile>>,
    listener: Listener,
}

#[derive(Debug)]
pub(super) struct AgentSockets {
    all: Vec<ProfileListener>,
    prepared: Vec<PreparedSocket>,
    loopback: LoopbackSockets,
    passed: PassedSockets,
    /// The listener that is polled first, so that many connections at one do not delay those at others.
    first: Cell<usize>,
}

impl AgentSockets {
    /// Creates the sockets of `profiles`, and removes those of a previous daemon.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub(super) fn create(
        profiles: &[Arc<Profile>],
        lock: &mut Lock,
        passed: PassedSockets,
    ) -> Result<Self, SocketError> {
        lock.remove_stale(beside_default(profiles.iter().map(|profile| &profile.name)))?;
        // Before the first socket: an agent that connects finds the directories.
        lock.publish(directories(profiles.iter()))?;
        let (loopback, first) = (LoopbackSockets::default(), Cell::new(0));
        let mut sockets = Self { all: Vec::new(), prepared: Vec::new(), loopback, passed, first };
        sockets.listen(profiles, lock)?;
        sockets.passed.settle();
        Ok(sockets)
    }

    /// Creates the missing sockets of `profiles`, whose connections are accepted once the profiles are served. Removes sockets that
    /// nobody needs any more.
    ///
    /// # Errors
    /// If one of them cannot be created; then none was.
    pub(super) fn prepare(&mut self, profiles: &[Arc<Profile>], lock: &mut Lock) -> Result<(), SocketError> {
        self.remove_unused();
        lock.record_names(beside_default(profiles.iter().map(|profile| &profile.name).chain(self.names())))?;
        self.listen(profiles, lock)
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let served = self.all.iter().map(|one| &one.served.profile.name);
        served.chain(self.prepared.iter().map(|prepared| &prepared.profile))
    }

    fn listen(&mut self, profiles: &[Arc<Profile>], lock: &Lock) -> Result<(), SocketError> {
        self.loopback.prepare(profiles, &mut self.passed)?;
        let mut created: Vec<PreparedSocket> = Vec::new();
        // The default profile, which is the first, comes last: whoever sees its socket may look for any other.
        for profile in profiles.iter().rev() {
            let users = Arc::downgrade(profile);
            if let Some(prepared) = self.prepared.iter_mut().find(|prepared| prepared.profile == profile.name) {
                prepared.users.push(users);
            } else if !self.all.iter().any(|one| one.served.profile.name == profile.name) {
                match lock.listen_or_take(&agent_socket(&profile.name), socket_mode(profile), &mut self.passed) {
                    Ok(listener) => {
                        created.push(PreparedSocket {
                            profile: Arc::clone(&profile.name),
                            users: vec![users],
                            listener,
                        });
                    }
                    Err(error) => {
                        created.iter().for_each(|prepared| self.put_back(&prepared.profile, &prepared.listener));
                        return Err(error);
                    }
                }
            }
        }
        self.prepared.append(&mut created);
        Ok(())
    }

    /// Serves these profiles, and removes all other sockets.
    pub(super) fn serve(&mut self, profiles: &[ServedProfile], lock: &mut Lock) {
        // Before sockets are closed, so that no agent is sent to one of them.
        if let Err(error) = lock.publish(directories(profiles.iter().map(|served| &served.profile))) {
            tracing::error!("the directories of profiles are as before: {error}");
        }
        let mut before = std::mem::take(&mut self.all);
        for served in profiles {
            let name = &served.profile.name;
            let known = before.iter().position(|one| one.served.profile.name == *name);
            let (listener, named_uris, http_origins) = match known.map(|at| before.swap_remove(at)) {
                Some(known) => (Some(known.listener), known.named_uris, known.http_origins),
                None => (None, Arc::default(), watch::Sender::default()),
            };
            let listener = listener.or_else(|| self.take_prepared(name));
            // A socket that another configuration has removed meanwhile is created again.
            let again = || lock.listen_or_take(&agent_socket(name), SocketMode::Owner, &mut self.passed);
            match listener.map_or_else(again, Ok) {
                Ok(mut listener) => {
                    // A socket with a wrong mode is better than none: each connection is checked when it is accepted.
                    if let Err(error) = listener.set_mode(socket_mode(&served.profile)) {
                        tracing::error!(profile = &**name, "who can connect has not changed: {error}");
                    }
                    http_origins.send_replace(Arc::clone(&served.profile.http_origins));
                    self.all.push(ProfileListener { served: served.clone(), listener, named_uris, http_origins });
                }
                Err(error) => tracing::error!(profile = &**name, "is not served: {error}"),
            }
        }
        for ProfileListener { served, listener, .. } in before {
            tracing::info!(profile = &*served.profile.name, "serves no more");
            self.put_back(&served.profile.name, &listener);
        }
        self.loopback.serve(profiles, &mut self.passed);
        self.remove_unused();
        if let Err(error) = lock.record_names(beside_default(self.names())) {
            tracing::warn!("{error}");
        }
    }

    fn take_prepared(&mut self, name: &Arc<str>) -> Option<Listener> {
        let at = self.prepared.iter().position(|prepared| prepared.profile == *name)?;
        let listener = self.prepared.swap_remove(at).listener;
        tracing::info!(profile = &**name, socket = %listener.path().display(), "serving");
        Some(listener)
    }

    fn remove_unused(&mut self) {
        let is_in_use = |prepared: &mut PreparedSocket| prepared.users.iter().any(|profile| profile.strong_count() > 0);
        let unused: Vec<_> = self.prepared.extract_if(.., |prepared| !is_in_use(prepared)).collect();
        unused.iter().for_each(|prepared| self.put_back(&prepared.profile, &prepared.listener));
        self.loopback.remove_unused(&mut self.passed);
    }

    /// A socket of the service manager may be needed again.
    fn put_back(&mut self, profile: &str, listener: &Listener) {
        self.passed.put_back(&agent_socket(profile), listener);
    }

    /// The next connection, and the index of its profile. Cancel safe.
    pub(super) async fn accept(&self) -> (usize, AgentConnection) {
        tokio::select! {
            (index, stream) = self.accept_at_socket() => (index, AgentConnection::Socket(stream)),
            (index, stream) = self.accept_at_loopback() => (index, AgentConnection::Loopback(stream)),
        }
    }

    async fn accept_at_loopback(&self) -> (usize, LoopbackStream) {
        loop {
            let (profile, stream) = self.loopback.accept().await;
            // A profile whose agent socket is lost is not served.
            if let Some(index) = self.all.iter().position(|one| one.served.profile.name == profile) {
                return (index, stream);
            }
        }
    }

    async fn accept_at_socket(&self) -> (usize, UnixStream) {
        let count = self.all.len();
        let turns = (0..count).map(|turn| (self.first.get() + turn) % count);
        let accepts = turns.map(|index| self.all[index].listener.accept().map(move |one| (index, one)).boxed_local());
        let accepts: Vec<_> = accepts.collect();
        if accepts.is_empty() {
            return std::future::pending().await;
        }
        let (accepted, ..) = select_all(accepts).await;
        self.first.set(accepted.0 + 1);
        accepted
    }

    /// Passes all sockets on to the next program. Agents that connect wait for it.
    pub(super) fn hand_over(self, to: &mut Handover) {
        for ProfileListener { served, listener, .. } in self.all {
            to.add_listener(&agent_socket(&served.profile.name), listener);
        }
        for PreparedSocket { profile, listener, .. } in self.prepared {
            to.add_listener(&agent_socket(&profile), listener);
        }
        self.loopback.hand_over(to);
        self.passed.hand_over(to);
    }

    /// Refuses all further connections, unless some wait already. Returns those with the index of their profile, and then all sockets
    /// listen on.
    pub(super) fn close_unless_waiting(&mut self) -> Vec<(usize, UnixStream)> {
        let mut waiting = Vec::new();
        for (index, one) in self.all.iter_mut().enumerate() {
            match one.listener.close_unless_waiting() {
                Ok(streams) => waiting.extend(streams.into_iter().map(|stream| (index, stream))),
                // The next check of the sockets listens again.
                Err(error) => tracing::warn!("clients may not find mcpd: {error}"),
            }
        }
        if !waiting.is_empty() {
            for one in &mut self.all {
                if let Err(error) = one.listener.reopen() {
                    tracing::warn!("clients may not find mcpd: {error}");
                }
            }
        }
        waiting
    }

    /// Sets the listen backlogs. `burst`: how many agents of a profile may connect at once.
    pub(super) fn set_backlogs(&self, burst: impl Fn(&Profile) -> usize) {
        self.all.iter().for_each(|one| one.listener.set_backlog(burst(&one.served.profile)));
    }

    /// The listeners on loopback addresses.
    pub(super) fn loopback(&self) -> &LoopbackSockets {
        &self.loopback
    }

    pub(super) fn get(&self, index: usize) -> &ProfileListener {
        &self.all[index]
    }

    pub(super) fn all(&self) -> &[ProfileListener] {
        &self.all
    }

    pub(super) fn listeners(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.all.iter_mut().map(|one| &mut one.listener)
    }
}

fn directories<'a>(profiles: impl Iterator<Item = &'a Arc<Profile>>) -> ProfileDirectories {
    ProfileDirectories::new(profiles.map(|profile| (&*profile.name, &*profile.directories)))
}

fn socket_mode(profile: &Profile) -> SocketMode {
    if profile.allow_uids.is_empty() { SocketMode::Owner } else { SocketMode::Shared }
}

/// The default profile's socket always exists.
fn beside_default<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.filter(|name| ***name != *Profile::DEFAULT).map(ToString::to_string).collect()
}
