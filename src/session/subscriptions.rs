//! The resources that the agent has subscribed to, each with the server that it has it from.
//!
//! Servers do the counting over agents; what is known here bounds what one agent may have, and leads what it gives up to
//! where it had it, whatever is listed by then.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;

use crate::kind::Kind;
use crate::manager::{Member, View};
use crate::server::call::CallKey;
use crate::server::{ServerHandle, Subscription};

/// Subscriptions one agent may have at all servers; one more is refused with −31003.
const MOST: usize = 1000;
/// Bytes of their URIs.
const BYTES: usize = 256 << 10;

/// Those of one agent.
#[derive(Default)]
pub(super) struct Subscriptions {
    all: HashMap<Bytes, ServerHandle>,
    /// Calls that begin or end one.
    asked: Vec<(CallKey, Subscription, ServerHandle)>,
    /// Of URIs.
    bytes: usize,
}

impl Subscriptions {
    /// Whether the agent may have this one, too.
    pub(super) fn have_room(&self, wanted: &Subscription) -> bool {
        let asked = || self.asked.iter().map(|(_, asked, _)| asked).filter(|asked| asked.begins);
        let bytes = self.bytes + asked().map(|asked| asked.uri.len()).sum::<usize>();
        let fits = self.all.len() + asked().count() < MOST && bytes + wanted.uri.len() <= BYTES;
        fits || !wanted.begins || self.all.contains_key(&wanted.uri)
    }

    /// The call `key` asks a server for it.
    pub(super) fn ask(&mut self, key: CallKey, wanted: Subscription, server: &ServerHandle) {
        self.asked.push((key, wanted, server.clone()));
    }

    /// A call has ended, which may be one of those; `accepted` if the server has done what it asks. Whether one has begun.
    pub(super) fn end(&mut self, key: CallKey, accepted: bool) -> bool {
        let Some(index) = self.asked.iter().position(|(own, ..)| *own == key) else { return false };
        let (_, Subscription { uri, begins, .. }, server) = self.asked.swap_remove(index);
        if !accepted {
            return false;
        }
        let length = uri.len();
        if !begins {
            self.bytes -= self.all.remove(&uri).map_or(0, |_| length);
        } else if self.all.insert(uri, server).is_none() {
            self.bytes += length;
        }
        begins
    }

    /// Those whose server is another by now: from now on the agent has them from that one. What is denied by now goes on nowhere.
    pub(super) fn moved(&mut self, view: &View) -> Vec<(ServerHandle, Subscription)> {
        let mut moved = Vec::new();
        for (uri, server) in &mut self.all {
            let is_there = |member: &Member| member.handle.is_same(server);
            let of_that_name = |member: &&Member| member.handle.name() == server.name();
            let Some(other) = view.servers.iter().find(of_that_name).filter(|member| !is_there(member)) else {
                continue;
            };
            let Ok(text) = str::from_utf8(uri) else { continue };
            *server = other.handle.clone();
            if other.config.policy.permits(Kind::Resources, text, None) {
                let raw = Bytes::from(Value::from(text).to_string());
                moved.push((server.clone(), Subscription { uri: uri.clone(), raw, begins: true }));
            }
        }
        moved
    }

    /// Where the agent has subscribed to a resource, or is about to.
    pub(super) fn server_of(&self, uri: &[u8]) -> Option<&ServerHandle> {
        let asked = || self.asked.iter().find(|(_, asked, _)| asked.begins && asked.uri == uri);
        self.all.get(uri).or_else(|| asked().map(|(_, _, server)| server))
    }
}
