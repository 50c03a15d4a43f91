//! The resources that the agent has subscribed to, or listens to, each with the server that it has it from.
//!
//! Servers do the counting over agents; what is known here bounds what one agent may have, and leads what it gives up to
//! where it had it, whatever is listed by then.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;

use crate::kind::Kind;
use crate::manager::{Member, View};
use crate::server::messages::call::CallKey;
use crate::server::{ServerHandle, Subscription, is_part};

/// Resources one agent may have subscribed to or listen to, at all servers; one more is refused with −31003. As many tasks.
pub(super) const MOST: usize = 1000;
/// Bytes of their URIs, or of the ids.
pub(super) const BYTES: usize = 256 << 10;

/// Those of one agent.
#[derive(Default)]
pub(super) struct Subscriptions {
    all: HashMap<Bytes, Held>,
    /// Calls that begin or end one.
    asked: Vec<(CallKey, Subscription, ServerHandle)>,
    /// How often a resource is subscribed to or listened to.
    count: usize,
    /// Of their URIs.
    bytes: usize,
}

/// A resource that the agent hears of.
struct Held {
    server: ServerHandle,
    /// By `resources/subscribe`.
    is_subscribed: bool,
    /// By how many `subscriptions/listen`.
    listens: usize,
    /// The server may not tell of it any more: it was told to end, or policy denies the resource.
    is_lost: bool,
}

impl Subscriptions {
    /// Whether the agent may have this one, too.
    pub(super) fn have_room(&self, wanted: &Subscription) -> bool {
        !wanted.begins || self.is_subscribed(&wanted.uri) || self.have_room_for(&[(wanted.uri.clone(), Bytes::new())])
    }

    /// Whether it may listen to these, too: URIs as text, and raw.
    pub(super) fn have_room_for(&self, wanted: &[(Bytes, Bytes)]) -> bool {
        let asked = || self.asked.iter().map(|(_, asked, _)| asked).filter(|asked| asked.begins);
        let bytes = asked().map(|asked| asked.uri.len()).chain(wanted.iter().map(|(uri, _)| uri.len())).sum::<usize>();
        self.count + asked().count() + wanted.len() <= MOST && self.bytes + bytes <= BYTES
    }

    fn is_subscribed(&self, uri: &Bytes) -> bool {
        self.all.get(uri).is_some_and(|held| held.is_subscribed)
    }

    /// The call `key` asks a server for it.
    pub(super) fn ask(&mut self, key: CallKey, wanted: Subscription, server: &ServerHandle) {
        self.asked.push((key, wanted, server.clone()));
    }

    /// A call has ended, which may be one of those; `accepted` if the server has done what it asks. Whether one is to be looked
    /// for in [`Self::moved`].
    pub(super) fn end(&mut self, key: CallKey, accepted: bool) -> bool {
        let Some(index) = self.asked.iter().position(|(own, ..)| *own == key) else { return false };
        let (_, Subscription { uri, begins, .. }, server) = self.asked.swap_remove(index);
        if !accepted {
            return false;
        }
        if begins {
            let held = self.all.entry(uri.clone()).or_insert_with(|| Held::at(&server));
            if !std::mem::replace(&mut held.is_subscribed, true) {
                self.add(&uri);
            }
            return true;
        }
        let Some(held) = self.all.get_mut(&uri) else { return false };
        held.is_lost = held.listens > 0;
        let is_lost = held.is_lost;
        if std::mem::take(&mut held.is_subscribed) {
            self.remove(&uri);
        }
        is_lost
    }

    /// The agent listens to a resource; whether the server has to be told.
    pub(super) fn listen(&mut self, uri: &Bytes, server: &ServerHandle) -> bool {
        let is_new = !self.all.contains_key(uri);
        self.all.entry(uri.clone()).or_insert_with(|| Held::at(server)).listens += 1;
        self.add(uri);
        is_new
    }

    /// It does so no more. What the server has to be told, and which.
    pub(super) fn unlisten(&mut self, (uri, raw): &(Bytes, Bytes)) -> Option<(ServerHandle, Subscription)> {
        let held = self.all.get_mut(uri)?;
        held.listens = held.listens.saturating_sub(1);
        let server = held.server.clone();
        self.remove(uri);
        // What is about to be subscribed to is the agent's already, perhaps.
        let is_wanted = self.all.contains_key(uri) || self.server_of(uri).is_some();
        (!is_wanted).then(|| (server, Subscription { uri: uri.clone(), raw: raw.clone(), begins: false }))
    }

    fn add(&mut self, uri: &Bytes) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + uri.len());
    }

    /// One reason less to hear of a resource.
    fn remove(&mut self, uri: &Bytes) {
        (self.count, self.bytes) = (self.count - 1, self.bytes - uri.len());
        if self.all.get(uri).is_some_and(|held| !held.is_subscribed && held.listens == 0) {
            self.all.remove(uri);
        }
    }

    /// What servers have to be told now: to begin where the server is another one or may have forgotten, and to end where policy denies
    /// the resource by now. If it is permitted again, it begins again.
    pub(super) fn moved(&mut self, view: &View) -> Vec<(ServerHandle, Subscription)> {
        let mut moved = Vec::new();
        for (uri, held) in &mut self.all {
            let of_that_name = |member: &&Member| member.handle.name() == held.server.name();
            let Some(member) = view.servers.iter().find(of_that_name) else { continue };
            let Ok(text) = str::from_utf8(uri) else { continue };
            let begins = member.config.policy.permits(Kind::Resources, text, None);
            let is_with_server = !held.is_lost && member.handle.is_same(&held.server);
            (held.server, held.is_lost) = (member.handle.clone(), !begins);
            if begins != is_with_server {
                let raw = Bytes::from(Value::from(text).to_string());
                moved.push((held.server.clone(), Subscription { uri: uri.clone(), raw, begins }));
            }
        }
        moved
    }

    /// Where the agent has subscribed to a resource, or is about to.
    pub(super) fn server_of(&self, uri: &[u8]) -> Option<&ServerHandle> {
        let asked = || self.asked.iter().find(|(_, asked, _)| asked.begins && asked.uri == uri);
        let subscribed = self.all.get(uri).filter(|held| held.is_subscribed);
        subscribed.map(|held| &held.server).or_else(|| asked().map(|(_, _, server)| server))
    }

    /// Whether the agent has subscribed to a resource, or to what it is a part of, or is about to.
    pub(super) fn concern(&self, uri: &[u8]) -> bool {
        let subscribed = self.all.iter().filter(|(_, held)| held.is_subscribed).map(|(own, _)| own);
        let asked = self.asked.iter().filter(|(_, asked, _)| asked.begins).map(|(_, asked, _)| &asked.uri);
        subscribed.chain(asked).any(|own| is_part(uri, own))
    }
}

impl Held {
    fn at(server: &ServerHandle) -> Self {
        Self { server: server.clone(), is_subscribed: false, listens: 0, is_lost: false }
    }
}
