//! The loopback listeners of profiles that have one.
//!
//! As with agent sockets, a reload creates new listeners first. A listener that is prepared is kept as long as its profile is in use.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use futures_util::future::{FutureExt, select_all};

use crate::config::Profile;
use crate::http_listener::token::{self, Token};
use crate::http_listener::{LoopbackListener, LoopbackStream};
use crate::manager::ServedProfile;
use crate::sockets::{Handover, PassedSockets, SocketError};

/// The listeners, each with the profile that it serves.
#[derive(Debug, Default)]
pub(super) struct LoopbackSockets {
    served: Vec<LoopbackSocket>,
    /// Those of profiles that are not served yet.
    prepared: Vec<PreparedSocket>,
}

#[derive(Debug)]
struct LoopbackSocket {
    profile: Arc<str>,
    listener: LoopbackListener,
}

#[derive(Debug)]
struct PreparedSocket {
    socket: LoopbackSocket,
    /// Profiles with this address that may still be served.
    users: Vec<Weak<Profile>>,
}

fn failed(address: SocketAddr, source: io::Error) -> SocketError {
    SocketError::Io { operation: "listen on", path: address.to_string().into(), source }
}

fn token_of(profile: &str, address: SocketAddr) -> Result<Token, SocketError> {
    token::read_or_create(profile).map_err(|error| failed(address, io::Error::other(error)))
}

/// Whether a daemon that takes over the listeners on `listening` can listen on the addresses of these profiles.
///
/// # Errors
/// If it cannot.
pub(crate) fn try_addresses(profiles: &[Arc<Profile>], listening: &[SocketAddr]) -> Result<(), SocketError> {
    let mut addresses = profiles.iter().filter_map(|profile| profile.http).filter(|one| !listening.contains(one));
    addresses.try_for_each(|one| LoopbackListener::try_address(one).map_err(|source| failed(one, source)))
}

impl LoopbackSocket {
    fn listen(profile: &Arc<str>, address: SocketAddr, passed: &mut PassedSockets) -> Result<Self, SocketError> {
        let token = token_of(profile, address)?;
        let listener = match passed.take_loopback(profile, address) {
            Some(socket) => LoopbackListener::of(socket, token),
            None => LoopbackListener::bind(address, token),
        };
        let listener = listener.map_err(|source| failed(address, source))?;
        Ok(Self { profile: Arc::clone(profile), listener })
    }

    /// Serves `profile` with its token.
    fn with(self, profile: &Arc<str>, token: Token) -> Self {
        if self.profile == *profile {
            self.listener.set_token(token);
            return self;
        }
        Self { profile: Arc::clone(profile), listener: self.listener.begin_anew(token) }
    }

    /// Stops listening. A socket of the service manager may be needed again. Connections end after their requests.
    fn close(self, passed: &mut PassedSockets) {
        if let Some(Ok(copy)) = self.listener.duplicate() {
            passed.put_back_loopback(&self.profile, copy);
        }
    }
}

impl LoopbackSockets {
    /// Creates the missing listeners of `profiles`.
    ///
    /// # Errors
    /// If one of them cannot be created; then none was.
    pub(super) fn prepare(&mut self, profiles: &[Arc<Profile>], passed: &mut PassedSockets) -> Result<(), SocketError> {
        let mut created = Vec::new();
        for (profile, address) in profiles.iter().filter_map(|profile| Some((profile, profile.http?))) {
            let users = Arc::downgrade(profile);
            let is_at = |socket: &LoopbackSocket| socket.listener.address() == address;
            if let Some(prepared) = self.prepared.iter_mut().find(|prepared| is_at(&prepared.socket)) {
                prepared.users.push(users);
            } else if !self.served.iter().any(is_at) {
                match LoopbackSocket::listen(&profile.name, address, passed) {
                    Ok(socket) => created.push(PreparedSocket { socket, users: vec![users] }),
                    Err(error) => {
                        created.into_iter().for_each(|prepared| prepared.socket.close(passed));
                        return Err(error);
                    }
                }
            }
        }
        self.prepared.append(&mut created);
        Ok(())
    }

    /// Closes the listeners that no profile needs any more.
    pub(super) fn remove_unused(&mut self, passed: &mut PassedSockets) {
        let is_in_use = |prepared: &mut PreparedSocket| prepared.users.iter().any(|user| user.strong_count() > 0);
        let unused: Vec<_> = self.prepared.extract_if(.., |prepared| !is_in_use(prepared)).collect();
        unused.into_iter().for_each(|prepared| prepared.socket.close(passed));
    }

    /// Serves these profiles. Closes all listeners that were served and have no profile now.
    pub(super) fn serve(&mut self, profiles: &[ServedProfile], passed: &mut PassedSockets) {
        let mut before = std::mem::take(&mut self.served);
        for profile in profiles.iter().map(|served| &served.profile) {
            let Some(address) = profile.http else { continue };
            let known = self.take(address, &mut before);
            let socket = match known {
                Some(socket) => token_of(&profile.name, address).map(|token| socket.with(&profile.name, token)),
                None => LoopbackSocket::listen(&profile.name, address, passed),
            };
            match socket {
                Ok(socket) => self.served.push(socket),
                Err(error) => tracing::error!(profile = &*profile.name, "is not served over HTTP: {error}"),
            }
        }
        before.into_iter().for_each(|socket| socket.close(passed));
    }

    /// Takes the listener on `address` from those that were served `before`, or are prepared.
    fn take(&mut self, address: SocketAddr, before: &mut Vec<LoopbackSocket>) -> Option<LoopbackSocket> {
        let is_at = |socket: &LoopbackSocket| socket.listener.address() == address;
        if let Some(at) = before.iter().position(is_at) {
            return Some(before.swap_remove(at));
        }
        let at = self.prepared.iter().position(|prepared| is_at(&prepared.socket))?;
        Some(self.prepared.swap_remove(at).socket)
    }

    /// Reads the tokens again. A listener whose token cannot be read keeps its old one.
    pub(super) fn read_tokens(&self) {
        for LoopbackSocket { profile, listener } in &self.served {
            match token_of(profile, listener.address()) {
                Ok(token) => listener.set_token(token),
                Err(error) => tracing::error!(profile = &**profile, "the token has not changed: {error}"),
            }
        }
    }

    /// The tokens in use, by profile.
    pub(super) fn tokens(&self) -> Vec<(Arc<str>, Token)> {
        self.served.iter().map(|socket| (Arc::clone(&socket.profile), socket.listener.token())).collect()
    }

    /// The address of a profile.
    pub(super) fn address(&self, profile: &str) -> Option<SocketAddr> {
        self.served.iter().find(|socket| *socket.profile == *profile).map(|socket| socket.listener.address())
    }

    /// Passes all on to the next program.
    pub(super) fn hand_over(&self, to: &mut Handover) {
        for LoopbackSocket { profile, listener } in
            self.served.iter().chain(self.prepared.iter().map(|one| &one.socket))
        {
            to.add_loopback(profile, listener.passed_on());
        }
    }

    /// The next connection, and its profile. Cancel safe.
    pub(super) async fn accept(&self) -> (Arc<str>, LoopbackStream) {
        let accepts = self.served.iter().map(|LoopbackSocket { profile, listener }| {
            let profile = Arc::clone(profile);
            listener.accept().map(move |stream| (profile, stream)).boxed_local()
        });
        let accepts: Vec<_> = accepts.collect();
        if accepts.is_empty() {
            return std::future::pending().await;
        }
        select_all(accepts).await.0
    }
}
