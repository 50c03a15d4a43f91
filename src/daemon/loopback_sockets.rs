//! The loopback listeners of profiles that have one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::{FutureExt, select_all};

use crate::config::Profile;
use crate::http_listener::{LoopbackListener, LoopbackStream, token};
use crate::manager::ServedProfile;
use crate::sockets::{ActivatedSockets, SocketError};

/// The listeners, each with the profile that it serves.
#[derive(Debug, Default)]
pub(super) struct LoopbackSockets {
    served: Vec<(Arc<str>, LoopbackListener)>,
    /// Those of profiles that are not served yet.
    prepared: Vec<LoopbackListener>,
}

fn failed(address: SocketAddr, source: io::Error) -> SocketError {
    SocketError::Io { operation: "listen on", path: address.to_string().into(), source }
}

fn token_of(profile: &str, address: SocketAddr) -> Result<Arc<str>, SocketError> {
    token::read_or_create(profile).map_err(|error| failed(address, io::Error::other(error)))
}

fn listen(
    profile: &str,
    address: SocketAddr,
    activated: &mut ActivatedSockets,
) -> Result<LoopbackListener, SocketError> {
    let token = token_of(profile, address)?;
    let listener = match activated.take_loopback(profile, address) {
        Some(socket) => LoopbackListener::of(socket, token),
        None => LoopbackListener::bind(address, token),
    };
    listener.map_err(|source| failed(address, source))
}

impl LoopbackSockets {
    /// Creates the missing listeners of `profiles`.
    ///
    /// # Errors
    /// If one of them cannot be created; then none was.
    pub(super) fn prepare(
        &mut self,
        profiles: &[Arc<Profile>],
        activated: &mut ActivatedSockets,
    ) -> Result<(), SocketError> {
        let mut created: Vec<LoopbackListener> = Vec::new();
        for (profile, address) in profiles.iter().filter_map(|profile| Some((&profile.name, profile.http?))) {
            let known = self.served.iter().map(|(_, listener)| listener).chain(&self.prepared);
            if !known.map(LoopbackListener::address).any(|known| known == address) {
                created.push(listen(profile, address, activated)?);
            }
        }
        self.prepared.append(&mut created);
        Ok(())
    }

    /// Serves these profiles. Closes all other listeners, with their connections.
    pub(super) fn serve(&mut self, profiles: &[ServedProfile], activated: &mut ActivatedSockets) {
        let before = std::mem::take(&mut self.served).into_iter().map(|(_, listener)| listener);
        let mut before: Vec<_> = before.chain(self.prepared.drain(..)).collect();
        for profile in profiles.iter().map(|served| &served.profile) {
            let Some(address) = profile.http else { continue };
            let known = before.iter().position(|listener| listener.address() == address);
            let listener = match known.map(|at| before.swap_remove(at)) {
                Some(listener) => token_of(&profile.name, address).map(|token| {
                    listener.set_token(token);
                    listener
                }),
                None => listen(&profile.name, address, activated),
            };
            match listener {
                Ok(listener) => self.served.push((Arc::clone(&profile.name), listener)),
                Err(error) => tracing::error!(profile = &*profile.name, "is not served over HTTP: {error}"),
            }
        }
        // No token is empty.
        before.iter().for_each(|listener| listener.set_token("".into()));
    }

    /// Reads the tokens again. A listener whose token cannot be read keeps it.
    pub(super) fn read_tokens(&self) {
        for (profile, listener) in &self.served {
            match token_of(profile, listener.address()) {
                Ok(token) => listener.set_token(token),
                Err(error) => tracing::error!(profile = &**profile, "the token has not changed: {error}"),
            }
        }
    }

    /// The tokens in use.
    pub(super) fn tokens(&self) -> Vec<Arc<str>> {
        self.served.iter().map(|(_, listener)| listener.token()).collect()
    }

    /// The address of a profile.
    pub(super) fn address(&self, profile: &str) -> Option<SocketAddr> {
        self.served.iter().find(|(name, _)| **name == *profile).map(|(_, listener)| listener.address())
    }

    /// The next connection, and its profile. Cancel safe.
    pub(super) async fn accept(&self) -> (Arc<str>, LoopbackStream) {
        let accepts = self.served.iter().map(|(profile, listener)| {
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
