//! The state of a session that the next daemon needs. Pure.
//!
//! Bounded by the daemon's limits: only successful requests are remembered.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::request::{self, ModernClient, RequestEffect, copied};
use crate::jsonrpc::members::text;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::reply;
use crate::list_kind::ListKind;

/// Maximum of remembered requests of the daemon. It has fewer unanswered; further ones would not be cancelled.
const MAX_DAEMON_REQUESTS: usize = 256;
/// Maximum of remembered subscriptions; a daemon has no more.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// The session of one agent.
#[derive(Debug, Default)]
pub(super) struct SessionMemory {
    pub(super) initialize: Option<Initialize>,
    /// The client info of a modern agent without `initialize`.
    pub(super) client: Option<ModernClient>,
    /// The minimum level of log messages; raw.
    pub(super) log_level: Option<Bytes>,
    /// Subscribed URIs, raw.
    pub(super) subscriptions: Vec<Bytes>,
    /// The `list_changed` notifications for lists that the agent has.
    listed: Vec<&'static str>,
    /// Requests of the daemon that the agent has not answered; raw ids.
    daemon_requests: Vec<Bytes>,
    /// All ids used by this or earlier daemons are lower than this one.
    ids_from: u64,
    /// All ids used by earlier daemons are lower than this one.
    lost_ids_below: u64,
}

/// The agent's `initialize`.
#[derive(Debug)]
pub(super) struct Initialize {
    /// The annotated line.
    pub(super) line: Bytes,
    /// The negotiated version, once it is known.
    pub(super) protocol: Option<Bytes>,
    /// The agent has sent `notifications/initialized`.
    pub(super) is_ready: bool,
}

impl SessionMemory {
    /// The negotiated version, once it is known.
    pub(super) fn protocol(&self) -> Option<&Bytes> {
        self.initialize.as_ref()?.protocol.as_ref()
    }

    /// Whether the agent has sent `notifications/initialized`.
    pub(super) fn is_ready(&self) -> bool {
        self.initialize.as_ref().is_some_and(|initialize| initialize.is_ready)
    }

    /// Notes a request of the agent: the lists that it has, or for modern requests only the client.
    pub(super) fn note_request(&mut self, method: &[u8], params: Option<&Bytes>) {
        if self.initialize.is_none() && self.client.is_none() {
            self.client = ModernClient::of(params);
        }
        if let Some(change) = ListKind::from_method(method).map(ListKind::change_notification)
            && !self.listed.contains(&change)
            && !request::is_modern(params)
        {
            self.listed.push(change);
        }
    }

    /// Notifications that every list of the agent may have changed.
    pub(super) fn list_changes(&self) -> impl Iterator<Item = Bytes> + use<> {
        self.listed.clone().into_iter().map(reply::notification)
    }

    /// Applies the effect of a successful request.
    pub(super) fn apply(&mut self, effect: RequestEffect) {
        match effect {
            RequestEffect::LogLevel(level) => self.log_level = Some(level),
            RequestEffect::Subscribe(uri) => {
                self.unsubscribe(&uri);
                if self.subscriptions.len() < MAX_SUBSCRIPTIONS {
                    self.subscriptions.push(uri);
                }
            }
            RequestEffect::Unsubscribe(uri) => self.unsubscribe(&uri),
            RequestEffect::Plain | RequestEffect::Initialize | RequestEffect::Discover | RequestEffect::Listen => {}
        }
    }

    fn unsubscribe(&mut self, uri: &Bytes) {
        self.subscriptions.retain(|one| !is_same(one, uri));
    }

    /// Notes a request of the daemon.
    pub(super) fn note_daemon_request(&mut self, id: &Bytes) {
        if let Some(number) = parse_own_id(id) {
            self.ids_from = self.ids_from.max(number.saturating_add(1));
        }
        if self.daemon_requests.len() < MAX_DAEMON_REQUESTS {
            self.daemon_requests.push(copied(id));
        }
    }

    /// A request of the daemon was answered or cancelled.
    pub(super) fn daemon_request_ended(&mut self, id: &Bytes) {
        self.daemon_requests.retain(|open| open != id);
    }

    /// Whether a response belongs to a request of a lost daemon, and not of the current one, which may not know
    /// `ids_from`.
    pub(super) fn is_from_lost_daemon(&self, id: &Bytes) -> bool {
        parse_own_id(id).is_some_and(|number| number < self.lost_ids_below) && !self.daemon_requests.contains(id)
    }

    /// The daemon is gone: returns cancellations of its requests for the agent.
    pub(super) fn cancel_daemon_requests(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        self.lost_ids_below = self.ids_from;
        std::mem::take(&mut self.daemon_requests).into_iter().filter_map(|id| {
            let id: &RawValue = serde_json::from_slice(&id).ok()?;
            let params = serde_json::json!({ "requestId": id, "reason": "mcpd stopped" });
            Some(reply::notification_with("notifications/cancelled", &params))
        })
    }

    /// The first id that the next daemon may use for its requests.
    pub(super) fn ids_from(&self) -> u64 {
        self.ids_from.max(1)
    }
}

/// Whether two raw URIs are equal.
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
    fn equal_uris_are_one_subscription() {
        let mut memory = SessionMemory::default();
        for uri in [r#""a:/""#, r#""b:/""#, r#""a:\/""#] {
            memory.apply(RequestEffect::Subscribe(bytes(uri)));
        }
        assert_eq!(memory.subscriptions, [r#""b:/""#, r#""a:\/""#]);
        memory.apply(RequestEffect::Unsubscribe(bytes(r#""a:/""#)));
        assert_eq!(memory.subscriptions, [r#""b:/""#]);
        for n in 0..2000 {
            memory.apply(RequestEffect::Subscribe(Bytes::from(format!("\"c:{n}\""))));
        }
        assert_eq!(memory.subscriptions.len(), MAX_SUBSCRIPTIONS);
    }

    #[test]
    fn each_requested_list_has_one_change_notification() {
        let mut memory = SessionMemory::default();
        for method in ["resources/templates/list", "tools/call", "tools/list", "resources/list", "tools/list"] {
            memory.note_request(method.as_bytes(), None);
        }
        let modern = bytes(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}"#);
        memory.note_request(b"prompts/list", Some(&modern));
        let changes =
            ["resources", "tools"].map(|kind| reply::notification(&format!("notifications/{kind}/list_changed")));
        assert_eq!(memory.list_changes().collect::<Vec<_>>(), changes);
    }

    #[test]
    fn daemon_requests_are_cancelled_and_their_ids_not_reused() {
        let mut memory = SessionMemory::default();
        assert_eq!((memory.ids_from(), memory.is_from_lost_daemon(&bytes("1"))), (1, false));
        for id in ["1", "7", "2", "\"x\""] {
            memory.note_daemon_request(&bytes(id));
        }
        memory.daemon_request_ended(&bytes("7"));
        assert!(!memory.is_from_lost_daemon(&bytes("1")), "the daemon is still there");
        let taken: Vec<_> = memory.cancel_daemon_requests().collect();
        let cancelled = |id| {
            Bytes::from(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"reason\":\"mcpd stopped\",\"requestId\":{id}}}}}\n"
            ))
        };
        assert_eq!(taken, ["1", "2", "\"x\""].map(cancelled));
        assert_eq!(memory.ids_from(), 8);
        assert_eq!(["7", "8", "\"x\""].map(|id| memory.is_from_lost_daemon(&bytes(id))), [true, false, false]);
        assert_eq!(memory.cancel_daemon_requests().count(), 0);
    }
}
