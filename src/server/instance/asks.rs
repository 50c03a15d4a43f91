//! Subscriptions on their way to the server: the first agent's call asks for one, those of others wait for the answer, and
//! what no agent asks for any more mcpd gives up itself.
//!
//! Source: MCP 2025-11-25, `server/resources`, "Subscriptions".

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Effect, Instance, PendingRequest, Topic};
use crate::calls::Outcome;
use crate::era::Era;
use crate::jsonrpc::members::text;
use crate::jsonrpc::reply;
use crate::server::call::{Call, CallKey, Failure, Matter, ReplySender};

/// A subscription that the server has not answered.
pub(super) struct Ask {
    /// The call that asks for it.
    key: CallKey,
    /// Its agent, unless that has given it up meanwhile.
    to: Option<ReplySender>,
    uri: Bytes,
    raw: Bytes,
    /// Calls that ask for the same.
    waiting: Vec<Call>,
}

/// A subscription that the server has accepted.
pub(in crate::server) struct Accepted {
    /// As text.
    pub(in crate::server) uri: Bytes,
    pub(in crate::server) raw: Bytes,
    /// For whom.
    pub(in crate::server) agents: Vec<(u64, ReplySender)>,
}

impl Instance {
    /// Asks for the resource that `call` subscribes to, unless it is being asked for: then the call waits.
    pub(in crate::server) fn subscribe(&mut self, call: Call) {
        let Matter::Subscription(wanted) = &call.matter else { return };
        if self.wire.era() == Era::Modern {
            return self.listen_for(call);
        }
        if let Some(ask) = self.asks.iter_mut().find(|ask| ask.uri == wanted.uri) {
            return ask.waiting.push(call);
        }
        let (uri, raw) = (wanted.uri.clone(), wanted.raw.clone());
        let ask = Ask { key: call.reply.key, to: call.reply.to().cloned(), uri, raw, waiting: Vec::new() };
        if self.call(Box::new(call)) {
            self.asks.push(ask);
        }
    }

    /// An agent wants to hear no more of what may still be asked for. Whether others do.
    pub(in crate::server) fn withdraw(&mut self, agent: u64, uri: &Bytes) -> bool {
        let is_it = |call: &Call| call.subscription().is_some_and(|own| own.uri == *uri);
        let is_own = |call: &Call| call.reply.key.session == agent && is_it(call);
        self.listening.take_waiting(is_own).into_iter().for_each(Call::grant);
        let Some(index) = self.asks.iter().position(|ask| ask.uri == *uri) else { return false };
        let ask = &mut self.asks[index];
        if ask.key.session == agent {
            ask.to = None;
        }
        for call in ask.waiting.extract_if(.., |call| call.reply.key.session == agent) {
            call.grant();
        }
        let others = ask.to.is_some() || !ask.waiting.is_empty();
        if !others {
            self.asks.swap_remove(index);
        }
        others
    }

    /// The server has answered a call, which may be one that asks.
    pub(super) fn end_ask(&mut self, key: CallKey, response: Result<&Bytes, &Bytes>) -> Effect {
        let Some(Ask { to, uri, raw, waiting, .. }) = self.take_ask(key) else { return Effect::Nothing };
        let mut agents: Vec<_> = to.map(|to| (key.session, to)).into_iter().collect();
        for call in waiting {
            match response {
                Ok(_) => {
                    agents.extend(call.reply.to().map(|to| (call.reply.key.session, to.clone())));
                    call.grant();
                }
                Err(error) => {
                    self.stats.errors.add_one();
                    let line = reply::raw_error(call.reply.id(), error);
                    call.reply.answer(line, Outcome::of(response));
                }
            }
        }
        if response.is_err() {
            return Effect::Nothing;
        }
        if agents.is_empty() {
            self.unsubscribe(&raw);
            return Effect::Nothing;
        }
        Effect::Subscribed(Box::new(Accepted { uri, raw, agents }))
    }

    /// A call, which may be one that asks, has failed: what waits for it fails, too, and a server that may have heeded it is
    /// told that nobody wants it.
    pub(super) fn fail_ask(&mut self, key: CallKey, failure: &Failure, sent: bool) {
        let Some(ask) = self.take_ask(key) else { return };
        if sent {
            self.unsubscribe(&ask.raw);
        }
        self.fail_waiting(ask, failure);
    }

    /// All calls fail: the server is gone, or may not be waited for any longer.
    pub(super) fn fail_asks(&mut self, failure: &Failure) {
        self.refuse_waiting(failure);
        for ask in std::mem::take(&mut self.asks) {
            self.fail_waiting(ask, failure);
        }
    }

    fn fail_waiting(&self, ask: Ask, failure: &Failure) {
        for call in ask.waiting {
            self.stats.errors.add_one();
            call.refuse(failure.clone());
        }
    }

    /// A call that was cancelled may be one that asks: the next one asks instead, or the server, which may have been
    /// asked, is told that nobody wants it.
    pub(super) fn give_up_ask(&mut self, key: CallKey, sent: bool) {
        let Some(Ask { raw, mut waiting, .. }) = self.take_ask(key) else { return };
        if waiting.is_empty() && sent {
            self.unsubscribe(&raw);
        }
        for call in waiting.drain(..) {
            self.subscribe(call);
        }
    }

    /// The agent wants no answer any more to a call that waits.
    pub(super) fn cancel_waiting(&mut self, key: CallKey) {
        let listening = self.listening.take_waiting(|call| call.reply.key == key);
        listening.into_iter().for_each(|call| call.reply.forgive());
        for ask in &mut self.asks {
            for call in ask.waiting.extract_if(.., |call| call.reply.key == key) {
                call.reply.forgive();
            }
        }
    }

    /// Has the server forget what an agent gives up that no other has.
    pub(in crate::server) fn end_subscription(&mut self, call: Box<Call>) {
        if self.wire.era() == Era::Legacy {
            self.call(call);
        } else {
            call.subscription()
                .into_iter()
                .for_each(|wanted| self.listening.forget(&Topic::Resource(wanted.uri.clone())));
            call.grant();
        }
    }

    /// Has the server forget a resource that nobody wants to hear of any more.
    pub(in crate::server) fn unsubscribe(&mut self, raw: &Bytes) {
        if self.wire.era() == Era::Modern {
            return text(raw).into_iter().for_each(|uri| self.listening.forget(&Topic::Resource(uri)));
        }
        let deadline = self.aside_deadline();
        self.ask_about("resources/unsubscribe", raw, PendingRequest::Ignored { deadline });
    }

    /// Asks for a resource without a call that waits for it, such as one that the instance before was asked for.
    pub(in crate::server) fn renew(&mut self, uri: &Bytes, raw: &Bytes) {
        if self.wire.era() == Era::Modern {
            return self.listening.want(Topic::Resource(uri.clone()), raw);
        }
        let deadline = self.aside_deadline();
        self.ask_about("resources/subscribe", raw, PendingRequest::Renewal { uri: uri.clone(), deadline });
    }

    fn ask_about(&mut self, method: &str, raw: &Bytes, owner: PendingRequest) {
        let uri: Option<&RawValue> = serde_json::from_slice(raw).ok();
        self.wire.own_request(method, json!({ "uri": uri }), owner);
    }

    /// Until when a request of nobody's is remembered.
    pub(super) fn aside_deadline(&mut self) -> Instant {
        let deadline = Instant::now() + self.config.settings.handshake_timeout;
        self.wire.expire_by(deadline);
        deadline
    }

    fn take_ask(&mut self, key: CallKey) -> Option<Ask> {
        let index = self.asks.iter().position(|ask| ask.key == key)?;
        Some(self.asks.swap_remove(index))
    }
}
