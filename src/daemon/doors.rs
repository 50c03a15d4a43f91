//! The agent sockets, one for each profile: which there are, who may come in by which, what a reload makes of them.
//!
//! A reload has the sockets that it needs made first: if one cannot be, the configuration is refused and nothing has changed.
//! Once the manager shows the profiles, whoever has waited at their sockets is let in, and the other sockets are removed. Until then
//! a socket is kept for as long as somebody holds the profile that it was made for.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use futures_util::future::{FutureExt, select_all};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::Daemon;
use super::accept::may_enter;
use crate::config::Profile;
use crate::manager::Served;
use crate::sockets::{Activated, Listener, Lock, Presence, Reach, SocketError, agent_socket};

/// The sockets for these profiles are to be made, beside those that there are.
pub(super) struct DoorsWanted {
    pub(super) profiles: Vec<Arc<Profile>>,
    pub(super) answer: oneshot::Sender<Result<(), SocketError>>,
}

/// One profile with its socket.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) served: Served,
    pub(super) listener: Listener,
}

/// The socket of a profile that is not served yet.
#[derive(Debug)]
struct Ready {
    profile: Arc<str>,
    /// Those of that name that may still be.
    wanted: Vec<Weak<Profile>>,
    listener: Listener,
}

/// Those by which agents come in.
#[derive(Debug)]
pub(super) struct Doors {
    all: Vec<Door>,
    ready: Vec<Ready>,
    activated: Activated,
    /// Which one is looked at first, so that a crowd at one is in nobody's way at another.
    first: Cell<usize>,
}

impl Doors {
    /// Makes the sockets of `profiles`, in place of what a daemon before has left.
    ///
    /// # Errors
    /// If one of them cannot be.
    pub(super) fn make(profiles: &[Arc<Profile>], lock: &mut Lock, activated: Activated) -> Result<Self, SocketError> {
        lock.begin_with(beside_default(profiles.iter().map(|profile| &profile.name)))?;
        let mut doors = Self { all: Vec::new(), ready: Vec::new(), activated, first: Cell::new(0) };
        doors.listen(profiles, lock)?;
        doors.activated.warn_of_the_rest();
        Ok(doors)
    }

    /// Makes those of them that are not there; who comes to one is let in once its profile is served. Removes what is wanted no more.
    ///
    /// # Errors
    /// If one of them cannot be; then none was.
    pub(super) fn prepare(&mut self, profiles: &[Arc<Profile>], lock: &mut Lock) -> Result<(), SocketError> {
        self.forget_unwanted();
        let there = self.all.iter().map(|door| &door.served.profile.name);
        let there = there.chain(self.ready.iter().map(|ready| &ready.profile));
        lock.note(beside_default(profiles.iter().map(|profile| &profile.name).chain(there)))?;
        self.listen(profiles, lock)
    }

    fn listen(&mut self, profiles: &[Arc<Profile>], lock: &Lock) -> Result<(), SocketError> {
        let mut made: Vec<Ready> = Vec::new();
        // The default one, their first, is last: whoever sees that a daemon listens may look for any other.
        for profile in profiles.iter().rev() {
            let wanted = Arc::downgrade(profile);
            if let Some(ready) = self.ready.iter_mut().find(|ready| ready.profile == profile.name) {
                ready.wanted.push(wanted);
            } else if !self.all.iter().any(|door| door.served.profile.name == profile.name) {
                let listened = lock.listen_or_take(&agent_socket(&profile.name), reach(profile), &mut self.activated);
                match listened {
                    Ok(listener) => {
                        made.push(Ready { profile: Arc::clone(&profile.name), wanted: vec![wanted], listener });
                    }
                    Err(error) => {
                        made.iter().for_each(|ready| self.put_back(&ready.profile, &ready.listener));
                        return Err(error);
                    }
                }
            }
        }
        self.ready.append(&mut made);
        Ok(())
    }

    /// Opens the doors of these profiles, and removes all others.
    pub(super) fn serve(&mut self, profiles: &[Served], lock: &mut Lock) {
        let mut before = std::mem::take(&mut self.all);
        for served in profiles {
            let name = &served.profile.name;
            let known = before.iter().position(|door| door.served.profile.name == *name);
            let listener = known.map(|at| before.swap_remove(at).listener).or_else(|| self.take_ready(name));
            // One that another configuration has taken away meanwhile is made again.
            let again = || lock.listen_or_take(&agent_socket(name), Reach::Owner, &mut self.activated);
            match listener.map_or_else(again, Ok) {
                Ok(mut listener) => {
                    // One that is open to too many or too few is still better than none: who may enter is decided at the door.
                    if let Err(error) = listener.reach_to(reach(&served.profile)) {
                        tracing::error!(profile = &**name, "who can connect has not changed: {error}");
                    }
                    self.all.push(Door { served: served.clone(), listener });
                }
                Err(error) => tracing::error!(profile = &**name, "is not served: {error}"),
            }
        }
        for Door { served, listener } in before {
            tracing::info!(profile = &*served.profile.name, "serves no more");
            self.put_back(&served.profile.name, &listener);
        }
        self.forget_unwanted();
        let there = self.all.iter().map(|door| &door.served.profile.name);
        let names = beside_default(there.chain(self.ready.iter().map(|ready| &ready.profile)));
        if let Err(error) = lock.note(names) {
            tracing::warn!("{error}");
        }
    }

    fn take_ready(&mut self, name: &Arc<str>) -> Option<Listener> {
        let at = self.ready.iter().position(|ready| ready.profile == *name)?;
        let listener = self.ready.swap_remove(at).listener;
        tracing::info!(profile = &**name, socket = %listener.path().display(), "serving");
        Some(listener)
    }

    fn forget_unwanted(&mut self) {
        let is_wanted = |ready: &mut Ready| ready.wanted.iter().any(|profile| profile.strong_count() > 0);
        let unwanted: Vec<_> = self.ready.extract_if(.., |ready| !is_wanted(ready)).collect();
        unwanted.iter().for_each(|ready| self.put_back(&ready.profile, &ready.listener));
    }

    /// One that is the service manager's may be needed again.
    fn put_back(&mut self, profile: &str, listener: &Listener) {
        self.activated.put_back(&agent_socket(profile), listener);
    }

    /// The next agent, and the door by which it came. May be cancelled without loss.
    pub(super) async fn accept(&self) -> (usize, UnixStream) {
        let count = self.all.len();
        let turns = (0..count).map(|turn| (self.first.get() + turn) % count);
        let accepts = turns.map(|door| self.all[door].listener.accept().map(move |agent| (door, agent)).boxed_local());
        let accepts: Vec<_> = accepts.collect();
        if accepts.is_empty() {
            return std::future::pending().await;
        }
        let (agent, ..) = select_all(accepts).await;
        self.first.set(agent.0 + 1);
        agent
    }

    pub(super) fn get(&self, index: usize) -> &Door {
        &self.all[index]
    }

    pub(super) fn all(&self) -> &[Door] {
        &self.all
    }

    pub(super) fn listeners(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.all.iter_mut().map(|door| &mut door.listener)
    }
}

impl Daemon {
    /// Has there be sockets for profiles that are to come.
    pub(super) fn prepare_doors(&mut self, DoorsWanted { profiles, answer }: DoorsWanted, presence: &mut Presence) {
        if self.profiles.has_changed().unwrap_or(false) {
            self.open_doors(presence);
        }
        let made = self.agents.as_mut().map_or(Ok(()), |doors| doors.prepare(&profiles, presence.lock()));
        // Whoever asked may have gone.
        drop(answer.send(made));
    }

    /// Lets agents in where there are profiles, and has those leave whose profile is there no more, or not for them.
    pub(super) fn open_doors(&mut self, presence: &mut Presence) {
        let profiles = Arc::clone(&self.profiles.borrow_and_update());
        let Some(doors) = &mut self.agents else { return };
        doors.serve(&profiles, presence.lock());
        for agent in self.connected.values_mut() {
            let profile = profiles.iter().map(|served| &served.profile).find(|profile| profile.name == agent.profile);
            if !profile.is_some_and(|profile| may_enter(profile, agent.peer.uid))
                && let Some(leave) = agent.leave.take()
            {
                // It may be leaving already.
                let _ = leave.send(());
            }
        }
    }
}

fn reach(profile: &Profile) -> Reach {
    if profile.allow_uids.is_empty() { Reach::Owner } else { Reach::Handed }
}

/// The default profile's socket is always there.
fn beside_default<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.filter(|name| ***name != *Profile::DEFAULT).map(ToString::to_string).collect()
}
