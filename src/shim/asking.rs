//! What a line of the agent asks, and what comes of it once it was answered well. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `server/resources`, `server/utilities/logging`; batches: 2025-03-26, `basic`;
//! MCP 2026-07-28, `basic` and `basic/patterns/subscriptions`.

use bytes::Bytes;

use super::modern;
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Malformed, Message};
use crate::transport::Incoming;

/// The requests of one line, in order.
#[derive(Debug, PartialEq)]
pub(super) struct Asking {
    pub(super) asked: Vec<Asked>,
    /// They came in one array, and so do their answers.
    pub(super) is_batch: bool,
}

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// Raw.
    pub(super) id: Bytes,
    pub(super) effect: Effect,
}

/// What holds once a request was answered well, and has to be said again to the next daemon.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// Nothing.
    Plain,
    /// The agent is introduced.
    Introduced,
    /// It wants log messages from this level on; raw.
    Level(Bytes),
    /// It has subscribed to this URI; raw.
    Subscribed(Bytes),
    /// It has no more.
    Unsubscribed(Bytes),
    /// It knows who serves it; of the modern era.
    Discovered,
    /// It listens until that is over, and is not answered before; of the modern era.
    Listening,
}

impl Asking {
    /// What the agent asks, if that is anything. A batch counts only if the agent `may_batch`: else it is refused as a whole,
    /// and no request of it is ever answered.
    pub(super) fn of(incoming: &Incoming, may_batch: bool) -> Option<Self> {
        match incoming {
            Incoming::Batch(members) if may_batch => {
                let asked: Vec<_> = members.iter().filter_map(Asked::of).collect();
                (!asked.is_empty()).then_some(Self { asked, is_batch: true })
            }
            single => Asked::of(single).map(|asked| Self { asked: vec![asked], is_batch: false }),
        }
    }

    /// The same as the agent's introduction.
    pub(super) fn introducing(mut self) -> Self {
        for asked in &mut self.asked {
            asked.effect = Effect::Introduced;
        }
        self
    }

    /// Whether it is the agent's introduction, which cannot be given up (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) fn introduces(&self) -> bool {
        self.asked.iter().any(|asked| asked.effect == Effect::Introduced)
    }

    /// The id of the request, if it listens. One in a batch ends with its batch.
    pub(super) fn listens(&self) -> Option<&Bytes> {
        match &self.asked[..] {
            [Asked { id, effect: Effect::Listening }] if !self.is_batch => Some(id),
            _ => None,
        }
    }

    /// One request, as it is known by its id alone.
    pub(super) fn plain(id: Bytes) -> Self {
        Self { asked: vec![Asked { id, effect: Effect::Plain }], is_batch: false }
    }

    /// The line that answers each of them with an error.
    pub(super) fn refusal(&self, error: &ErrorObject) -> Bytes {
        let mut errors = self.asked.iter().map(|asked| reply::error(Some(&asked.id), error));
        if !self.is_batch {
            return errors.next().unwrap_or_default();
        }
        array(errors.map(|line| line.trim_ascii_end().to_vec()).collect())
    }

    /// Takes the request `id` out, if it is one of them that can be given up.
    pub(super) fn cancel(&mut self, id: &[u8]) -> Option<Asked> {
        if self.introduces() { None } else { self.take(id) }
    }

    /// Takes the request `id` out, if it is one of them.
    pub(super) fn take(&mut self, id: &[u8]) -> Option<Asked> {
        let position = self.asked.iter().position(|asked| asked.id == id)?;
        Some(self.asked.remove(position))
    }

    /// A line of theirs without requests that are not among them any more.
    pub(super) fn narrow(&self, line: Bytes) -> Bytes {
        if !self.is_batch {
            return line;
        }
        let Incoming::Batch(members) = Incoming::of(line.clone()) else { return line };
        let is_wanted = |member: &Incoming| Asked::of(member).is_none_or(|asked| self.asked.contains(&asked));
        if members.iter().all(is_wanted) {
            return line;
        }
        let wanted = members.iter().filter(|member| is_wanted(member)).filter_map(|member| match member {
            Incoming::Message { line, .. } => Some(line.to_vec()),
            _ => None,
        });
        array(wanted.collect())
    }
}

impl Asked {
    fn of(incoming: &Incoming) -> Option<Self> {
        match incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. } => {
                Some(Self { id: own(id), effect: Effect::of(method, params.as_ref()) })
            }
            // It is answered as what it is.
            Incoming::Malformed(Malformed::NotAMessage { id: Some(id) }) => {
                Some(Self { id: own(id), effect: Effect::Plain })
            }
            _ => None,
        }
    }
}

impl Effect {
    fn of(method: &[u8], params: Option<&Bytes>) -> Self {
        let member =
            |name| params.and_then(|params| members(params, [name]).ok()).and_then(|[raw]| raw).map(|raw| own(&raw));
        match method {
            b"logging/setLevel" => member("level").map_or(Self::Plain, Self::Level),
            b"resources/subscribe" => member("uri").map_or(Self::Plain, Self::Subscribed),
            b"resources/unsubscribe" => member("uri").map_or(Self::Plain, Self::Unsubscribed),
            b"server/discover" => Self::Discovered,
            b"subscriptions/listen" if modern::is(params) => Self::Listening,
            _ => Self::Plain,
        }
    }
}

/// A line of these messages.
fn array(messages: Vec<Vec<u8>>) -> Bytes {
    [&b"["[..], &messages.join(&b','), b"]\n"].concat().into()
}

/// A copy: what is kept must not keep the whole line.
pub(super) fn own(part: &Bytes) -> Bytes {
    Bytes::copy_from_slice(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(line: &'static str) -> Option<Asking> {
        Asking::of(&Incoming::of(Bytes::from_static(line.as_bytes())), true)
    }

    #[test]
    fn what_is_to_be_answered_is_known_by_its_raw_id_with_what_comes_of_it() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":"\u0061","method":"ping"}"#, Some((r#""\u0061""#, Effect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:\/"}}"#,
                Some(("1", Effect::Subscribed(bytes(r#""a:\/""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"a:"}}"#,
                Some(("1", Effect::Unsubscribed(bytes(r#""a:""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#,
                Some(("1", Effect::Level(bytes(r#""info""#)))),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}"#, Some(("1", Effect::Plain))),
            (r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#, Some(("1", Effect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}}"#,
                Some(("1", Effect::Listening)),
            ),
            (r#"{"id":7,"method":"ping"}"#, Some(("7", Effect::Plain))),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, None),
            ("", None),
            ("hello", None),
        ] {
            let expected =
                expected.map(|(id, effect)| Asking { asked: vec![Asked { id: bytes(id), effect }], is_batch: false });
            assert_eq!(asking(line), expected, "{line}");
        }
    }

    const BATCH: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#;

    #[test]
    fn a_batch_is_answered_as_one_and_goes_on_without_what_was_cancelled() {
        let mut asking = asking(BATCH).expect("two requests");
        let error = ErrorObject::new(-1, "x");
        let [one, two] = [b"1", b"2"]
            .map(|id| String::from_utf8(reply::error(Some(id), &error).trim_ascii_end().to_vec()).expect("text"));
        assert_eq!(asking.refusal(&error), format!("[{one},{two}]\n"));
        assert_eq!(asking.narrow(Bytes::from_static(BATCH.as_bytes())), BATCH);
        asking.take(b"1").expect("one of them");
        let rest = r#"[{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#;
        assert_eq!(asking.narrow(Bytes::from_static(BATCH.as_bytes())), format!("{rest}\n"));
    }

    #[test]
    fn a_batch_that_is_refused_as_a_whole_asks_nothing() {
        assert_eq!(Asking::of(&Incoming::of(Bytes::from_static(BATCH.as_bytes())), false), None);
        assert_eq!(asking("[]"), None);
    }
}
