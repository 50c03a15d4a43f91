//! The requests in a line of the agent, and the effect of each on the session. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `server/resources`, `server/utilities/logging`; batches: 2025-03-26, `basic`;
//! MCP 2026-07-28, `basic` and `basic/patterns/subscriptions`.

use bytes::Bytes;

use super::modern;
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, MessageError};
use crate::transport::Incoming;

/// The requests of one line, in order.
#[derive(Debug, PartialEq)]
pub(super) struct RequestGroup {
    pub(super) members: Vec<Request>,
    /// They came in one array, and so do their responses.
    pub(super) is_batch: bool,
}

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// Raw.
    pub(super) id: Bytes,
    pub(super) effect: Effect,
}

/// The effect of a successful request, which the next daemon must learn, too.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// None.
    Plain,
    /// `initialize`: the session is open.
    Initialize,
    /// The minimum level of log messages; raw.
    LogLevel(Bytes),
    /// A subscription to this URI; raw.
    Subscribe(Bytes),
    /// The end of a subscription.
    Unsubscribe(Bytes),
    /// `server/discover`, of the modern era.
    Discover,
    /// `subscriptions/listen`, of the modern era. It is answered when it ends.
    Listen,
}

impl RequestGroup {
    /// The requests of a message, if there are any. A batch counts only if the agent `may_batch`. Otherwise it is
    /// refused as a whole, and none of its requests is answered.
    pub(super) fn of(incoming: &Incoming, may_batch: bool) -> Option<Self> {
        match incoming {
            Incoming::Batch(members) if may_batch => {
                let members: Vec<_> = members.iter().filter_map(Request::of).collect();
                (!members.is_empty()).then_some(Self { members, is_batch: true })
            }
            single => Request::of(single).map(|request| Self { members: vec![request], is_batch: false }),
        }
    }

    /// Marks the group as `initialize`.
    pub(super) fn into_initialize(mut self) -> Self {
        for request in &mut self.members {
            request.effect = Effect::Initialize;
        }
        self
    }

    /// Whether it is `initialize`, which cannot be cancelled (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) fn is_initialize(&self) -> bool {
        self.members.iter().any(|request| request.effect == Effect::Initialize)
    }

    /// The id of a `subscriptions/listen` request. In a batch it ends with its batch.
    pub(super) fn listen_id(&self) -> Option<&Bytes> {
        match &self.members[..] {
            [Request { id, effect: Effect::Listen }] if !self.is_batch => Some(id),
            _ => None,
        }
    }

    /// A group of one request, of which only the id is known.
    pub(super) fn single(id: Bytes) -> Self {
        Self { members: vec![Request { id, effect: Effect::Plain }], is_batch: false }
    }

    /// A line that answers each request with an error.
    pub(super) fn refusal(&self, error: &ErrorObject) -> Bytes {
        let mut errors = self.members.iter().map(|request| reply::error(Some(&request.id), error));
        if !self.is_batch {
            return errors.next().unwrap_or_default();
        }
        array(errors.map(|line| line.trim_ascii_end().to_vec()).collect())
    }

    /// Removes the request `id`, if it can be cancelled.
    pub(super) fn cancel(&mut self, id: &[u8]) -> Option<Request> {
        if self.is_initialize() { None } else { self.take(id) }
    }

    /// Removes the request `id`.
    pub(super) fn take(&mut self, id: &[u8]) -> Option<Request> {
        let position = self.members.iter().position(|request| request.id == id)?;
        Some(self.members.remove(position))
    }

    /// The group's line without requests that were removed.
    pub(super) fn narrow(&self, line: Bytes) -> Bytes {
        if !self.is_batch {
            return line;
        }
        let Incoming::Batch(members) = Incoming::of(line.clone()) else { return line };
        let is_member = |member: &Incoming| Request::of(member).is_none_or(|request| self.members.contains(&request));
        if members.iter().all(is_member) {
            return line;
        }
        let remaining = members.iter().filter(|member| is_member(member)).filter_map(|member| match member {
            Incoming::Message { line, .. } => Some(line.to_vec()),
            _ => None,
        });
        array(remaining.collect())
    }
}

impl Request {
    fn of(incoming: &Incoming) -> Option<Self> {
        match incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. } => {
                Some(Self { id: copied(id), effect: Effect::of(method, params.as_ref()) })
            }
            // It is answered as an invalid request.
            Incoming::Malformed(MessageError::NotAMessage { id: Some(id) }) => {
                Some(Self { id: copied(id), effect: Effect::Plain })
            }
            _ => None,
        }
    }
}

impl Effect {
    fn of(method: &[u8], params: Option<&Bytes>) -> Self {
        let member =
            |name| params.and_then(|params| members(params, [name]).ok()).and_then(|[raw]| raw).map(|raw| copied(&raw));
        match method {
            b"logging/setLevel" => member("level").map_or(Self::Plain, Self::LogLevel),
            b"resources/subscribe" => member("uri").map_or(Self::Plain, Self::Subscribe),
            b"resources/unsubscribe" => member("uri").map_or(Self::Plain, Self::Unsubscribe),
            b"server/discover" => Self::Discover,
            b"subscriptions/listen" if modern::is_modern(params) => Self::Listen,
            _ => Self::Plain,
        }
    }
}

/// A batch of these messages, as a line.
fn array(messages: Vec<Vec<u8>>) -> Bytes {
    [&b"["[..], &messages.join(&b','), b"]\n"].concat().into()
}

/// A copy, so that the slice does not keep the whole line in memory.
pub(super) fn copied(part: &Bytes) -> Bytes {
    Bytes::copy_from_slice(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(line: &'static str) -> Option<RequestGroup> {
        RequestGroup::of(&Incoming::of(Bytes::from_static(line.as_bytes())), true)
    }

    #[test]
    fn requests_have_their_raw_id_and_effect() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":"\u0061","method":"ping"}"#, Some((r#""\u0061""#, Effect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:\/"}}"#,
                Some(("1", Effect::Subscribe(bytes(r#""a:\/""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"a:"}}"#,
                Some(("1", Effect::Unsubscribe(bytes(r#""a:""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#,
                Some(("1", Effect::LogLevel(bytes(r#""info""#)))),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}"#, Some(("1", Effect::Plain))),
            (r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#, Some(("1", Effect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}}"#,
                Some(("1", Effect::Listen)),
            ),
            (r#"{"id":7,"method":"ping"}"#, Some(("7", Effect::Plain))),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, None),
            ("", None),
            ("hello", None),
        ] {
            let expected = expected
                .map(|(id, effect)| RequestGroup { members: vec![Request { id: bytes(id), effect }], is_batch: false });
            assert_eq!(group(line), expected, "{line}");
        }
    }

    const BATCH: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#;

    #[test]
    fn batch_is_answered_as_one_and_loses_cancelled_requests() {
        let mut group = group(BATCH).expect("two requests");
        let error = ErrorObject::new(-1, "x");
        let [one, two] = [b"1", b"2"]
            .map(|id| String::from_utf8(reply::error(Some(id), &error).trim_ascii_end().to_vec()).expect("text"));
        assert_eq!(group.refusal(&error), format!("[{one},{two}]\n"));
        assert_eq!(group.narrow(Bytes::from_static(BATCH.as_bytes())), BATCH);
        group.take(b"1").expect("one of them");
        let rest = r#"[{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#;
        assert_eq!(group.narrow(Bytes::from_static(BATCH.as_bytes())), format!("{rest}\n"));
    }

    #[test]
    fn refused_batch_has_no_requests() {
        assert_eq!(RequestGroup::of(&Incoming::of(Bytes::from_static(BATCH.as_bytes())), false), None);
        assert_eq!(group("[]"), None);
    }
}
