//! What has to be known of a conversation to go on with another daemon. Pure.
//!
//! Bounded by what the daemon takes on: an answer that all went well is what has something remembered.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::asking::{Effect, own};
use super::modern::{self, Client};
use crate::jsonrpc::members::text;
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::reply;
use crate::list_kind::ListKind;

/// Requests of the daemon that are remembered. It has fewer unanswered; one more would not be taken back.
const QUESTIONS: usize = 256;
/// Subscriptions that are remembered; a daemon has no more.
const SUBSCRIPTIONS: usize = 1000;

/// Of one agent.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) introduction: Option<Introduction>,
    /// Of one that makes requests of the modern era and was not introduced.
    pub(super) client: Option<Client>,
    /// From which level on it has log messages; raw.
    pub(super) level: Option<Bytes>,
    /// URIs, raw.
    pub(super) subscriptions: Vec<Bytes>,
    /// What it has been told may change: the notifications that say so.
    listed: Vec<&'static str>,
    /// Requests of the daemon that it has not answered; raw ids.
    questions: Vec<Bytes>,
    /// Lower ids than this one it was asked under, by this daemon or by one before.
    ids_from: u64,
    /// Under lower ids than this one daemons have asked that are there no more.
    dead_below: u64,
}

/// What the agent has said of itself.
#[derive(Debug)]
pub(super) struct Introduction {
    /// Its `initialize`, marked.
    pub(super) line: Bytes,
    /// The version that was agreed on, once it was.
    pub(super) protocol: Option<Bytes>,
    /// It has said `notifications/initialized`.
    pub(super) is_ready: bool,
}

impl Memory {
    /// The version that the agent speaks, once that is known.
    pub(super) fn protocol(&self) -> Option<&Bytes> {
        self.introduction.as_ref()?.protocol.as_ref()
    }

    /// Whether the agent has said that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.introduction.as_ref().is_some_and(|introduction| introduction.is_ready)
    }

    /// The agent asks for something, which may be a list. Of requests of the modern era only who makes them is remembered.
    pub(super) fn asked(&mut self, method: &[u8], params: Option<&Bytes>) {
        if self.introduction.is_none() && self.client.is_none() {
            self.client = Client::of(params);
        }
        if let Some(change) = ListKind::from_method(method).map(ListKind::change_notification)
            && !self.listed.contains(&change)
            && !modern::is(params)
        {
            self.listed.push(change);
        }
    }

    /// What the agent is to be told of all lists that it has.
    pub(super) fn changes(&self) -> impl Iterator<Item = Bytes> + use<> {
        self.listed.clone().into_iter().map(reply::notification)
    }

    /// A request with this effect was answered well.
    pub(super) fn keep(&mut self, effect: Effect) {
        match effect {
            Effect::Level(level) => self.level = Some(level),
            Effect::Subscribed(uri) => {
                self.forget(&uri);
                if self.subscriptions.len() < SUBSCRIPTIONS {
                    self.subscriptions.push(uri);
                }
            }
            Effect::Unsubscribed(uri) => self.forget(&uri),
            Effect::Plain | Effect::Introduced | Effect::Discovered | Effect::Listening => {}
        }
    }

    fn forget(&mut self, uri: &Bytes) {
        self.subscriptions.retain(|kept| !is_same(kept, uri));
    }

    /// The daemon asks the agent.
    pub(super) fn question(&mut self, id: &Bytes) {
        if let Some(number) = minted(id) {
            self.ids_from = self.ids_from.max(number.saturating_add(1));
        }
        if self.questions.len() < QUESTIONS {
            self.questions.push(own(id));
        }
    }

    /// That has ended: by an answer, or because the daemon does not want one any more.
    pub(super) fn question_ended(&mut self, id: &Bytes) {
        self.questions.retain(|open| open != id);
    }

    /// Whether this is the id of a request of a daemon that is there no more, and of none of the one that is: that may know
    /// nothing of `ids_from`.
    pub(super) fn is_dead(&self, id: &Bytes) -> bool {
        minted(id).is_some_and(|number| number < self.dead_below) && !self.questions.contains(id)
    }

    /// The daemon has gone: nobody wants to know any more what it has asked, which the agent is to be told.
    pub(super) fn take_questions_back(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        self.dead_below = self.ids_from;
        std::mem::take(&mut self.questions).into_iter().filter_map(|id| {
            let id: &RawValue = serde_json::from_slice(&id).ok()?;
            let params = serde_json::json!({ "requestId": id, "reason": "mcpd has gone" });
            Some(reply::notification_with("notifications/cancelled", &params))
        })
    }

    /// The first number that another daemon may ask the agent under.
    pub(super) fn ids_from(&self) -> u64 {
        self.ids_from.max(1)
    }
}

/// Whether two raw URIs are one.
pub(super) fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one == other || text(one).is_some_and(|one| Some(one) == text(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_subscription_is_one_however_it_is_spelt_and_ends() {
        let mut memory = Memory::default();
        for uri in [r#""a:/""#, r#""b:/""#, r#""a:\/""#] {
            memory.keep(Effect::Subscribed(bytes(uri)));
        }
        assert_eq!(memory.subscriptions, [r#""b:/""#, r#""a:\/""#]);
        memory.keep(Effect::Unsubscribed(bytes(r#""a:/""#)));
        assert_eq!(memory.subscriptions, [r#""b:/""#]);
        for n in 0..2000 {
            memory.keep(Effect::Subscribed(Bytes::from(format!("\"c:{n}\""))));
        }
        assert_eq!(memory.subscriptions.len(), SUBSCRIPTIONS);
    }

    #[test]
    fn only_lists_that_the_agent_has_asked_for_have_changed_and_each_once() {
        let mut memory = Memory::default();
        for method in ["resources/templates/list", "tools/call", "tools/list", "resources/list", "tools/list"] {
            memory.asked(method.as_bytes(), None);
        }
        let modern = bytes(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}"#);
        memory.asked(b"prompts/list", Some(&modern));
        let changes =
            ["resources", "tools"].map(|kind| reply::notification(&format!("notifications/{kind}/list_changed")));
        assert_eq!(memory.changes().collect::<Vec<_>>(), changes);
    }

    #[test]
    fn questions_are_taken_back_and_their_ids_never_come_again() {
        let mut memory = Memory::default();
        assert_eq!((memory.ids_from(), memory.is_dead(&bytes("1"))), (1, false));
        for id in ["1", "7", "2", "\"x\""] {
            memory.question(&bytes(id));
        }
        memory.question_ended(&bytes("7"));
        assert!(!memory.is_dead(&bytes("1")), "it has not gone yet");
        let taken: Vec<_> = memory.take_questions_back().collect();
        let cancelled = |id| {
            Bytes::from(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"reason\":\"mcpd has gone\",\"requestId\":{id}}}}}\n"
            ))
        };
        assert_eq!(taken, ["1", "2", "\"x\""].map(cancelled));
        assert_eq!(memory.ids_from(), 8);
        assert_eq!(["7", "8", "\"x\""].map(|id| memory.is_dead(&bytes(id))), [true, false, false]);
        assert_eq!(memory.take_questions_back().count(), 0);
    }
}
