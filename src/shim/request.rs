//! A request of the agent, and its effect on the session. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `server/resources`, `server/utilities/logging`; MCP 2026-07-28, `basic` and
//! `basic/patterns/subscriptions`.

use bytes::Bytes;

use super::modern;
use crate::jsonrpc::members::members;
use crate::jsonrpc::{Message, MessageError};
use crate::transport::Incoming;

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

impl Request {
    /// The request that a line contains, if it contains one.
    pub(super) fn of(incoming: &Incoming) -> Option<Self> {
        match incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. } => {
                Some(Self { id: copied(id), effect: Effect::of(method, params.as_ref()) })
            }
            // It is answered as an invalid request.
            Incoming::Malformed(MessageError::NotAMessage { id: Some(id) }) => Some(Self::plain(copied(id))),
            _ => None,
        }
    }

    /// A request of which only the id is known.
    pub(super) fn plain(id: Bytes) -> Self {
        Self { id, effect: Effect::Plain }
    }

    /// Whether it can be cancelled: `initialize` cannot (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) fn is_cancellable(&self) -> bool {
        self.effect != Effect::Initialize
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

/// A copy, so that the slice does not keep the whole line in memory.
pub(super) fn copied(part: &Bytes) -> Bytes {
    Bytes::copy_from_slice(part)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
        ] {
            let expected = expected.map(|(id, effect)| Request { id: bytes(id), effect });
            assert_eq!(Request::of(&Incoming::of(bytes(line))), expected, "{line}");
        }
    }
}
