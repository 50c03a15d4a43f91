//! What a message is: its id and method, and which request it answers.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Direction, Passed, Peer};
use crate::clock::Moment;
use crate::jsonrpc::members::{members, string};
use crate::printable::beginning;

/// Requests that are kept until their response. One more displaces the oldest.
const MAX_OPEN: usize = 4096;
/// A longer id is not kept, in bytes.
const MAX_ID_LEN: usize = 256;
/// A longer method is cut, in characters.
const MAX_METHOD_LEN: usize = 256;

/// Requests without a response, of all connections.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    open: HashMap<RequestKey, (String, Moment)>,
}

/// A connection, and the direction and raw id of a request on it.
type RequestKey = (ConnectionKey, Direction, Bytes);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ConnectionKey {
    Agent(u64),
    Server(u64),
}

/// What a message is. All are `None` for a text that is no JSON object.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Meaning {
    /// Raw JSON.
    pub(crate) id: Option<Bytes>,
    /// Of a request or notification.
    pub(crate) method: Option<String>,
    /// The method of the request that it answers, and how long that took, if the request was seen.
    pub(crate) answers: Option<(String, Duration)>,
    /// It answers with an error.
    pub(crate) is_error: bool,
}

impl Meaning {
    /// Whether it is of a request or notification of this method, or of the response to one.
    pub(crate) fn concerns(&self, method: &str) -> bool {
        let own = self.method.as_deref().or_else(|| self.answers.as_ref().map(|(method, _)| &**method));
        own.is_some_and(|own| match method.strip_suffix('*') {
            Some(beginning) => own.starts_with(beginning),
            None => own == method,
        })
    }
}

impl Matcher {
    /// Reads the next message.
    pub(crate) fn read(&mut self, passed: &Passed) -> Meaning {
        self.read_text(passed.peer(), passed.direction, passed.moment, &passed.text)
    }

    fn read_text(&mut self, peer: &Peer, direction: Direction, moment: Moment, text: &Bytes) -> Meaning {
        let Ok([id, method, error]) = members(text, ["id", "method", "error"]) else { return Meaning::default() };
        let id = id.filter(|id| id.len() <= MAX_ID_LEN);
        let method = method.and_then(|method| Some(beginning(&string(&method)?, MAX_METHOD_LEN).to_owned()));
        let connection = match peer {
            Peer::Agent { session, .. } => ConnectionKey::Agent(*session),
            Peer::Server { connection, .. } => ConnectionKey::Server(*connection),
        };
        let answers = match (&id, &method) {
            (Some(id), Some(method)) => {
                self.insert((connection, direction, Bytes::copy_from_slice(id)), (method.clone(), moment));
                None
            }
            (Some(id), None) => {
                let request = (connection, direction.reversed(), id.clone());
                self.open.remove(&request).map(|(method, began)| (method, moment.since(began)))
            }
            (None, _) => None,
        };
        Meaning { is_error: method.is_none() && error.is_some(), id, method, answers }
    }

    fn insert(&mut self, key: RequestKey, request: (String, Moment)) {
        if self.open.len() >= MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, (_, began))| *began).map(|(key, _)| key.clone());
            oldest.into_iter().for_each(|oldest| drop(self.open.remove(&oldest)));
        }
        self.open.insert(key, request);
    }
}

impl Direction {
    fn reversed(self) -> Self {
        match self {
            Self::From => Self::To,
            Self::To => Self::From,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(session: u64) -> Peer {
        Peer::Agent { session, pid: None, client: Box::new(|| None) }
    }

    fn read(matcher: &mut Matcher, peer: &Peer, direction: Direction, at: u64, text: &'static str) -> Meaning {
        matcher.read_text(peer, direction, Moment(at), &Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_response_is_matched_by_connection_direction_and_id() {
        let (mut matcher, one, other) = (Matcher::default(), agent(1), agent(2));
        let request = read(&mut matcher, &one, Direction::From, 10, r#"{"id":1,"method":"ping"}"#);
        assert_eq!((request.method.as_deref(), request.id.as_deref()), (Some("ping"), Some(&b"1"[..])));
        for (peer, direction, text, expected) in [
            (&other, Direction::To, r#"{"id":1,"result":{}}"#, None),
            (&one, Direction::From, r#"{"id":1,"result":{}}"#, None),
            (&one, Direction::To, r#"{"id":"1","result":{}}"#, None),
            (&one, Direction::To, r#"{"id":1,"error":{}}"#, Some(15)),
            (&one, Direction::To, r#"{"id":1,"result":{}}"#, None),
        ] {
            let meaning = read(&mut matcher, peer, direction, 25, text);
            let answers = expected.map(|nanos| ("ping".to_owned(), Duration::from_nanos(nanos)));
            assert_eq!((meaning.answers, meaning.is_error), (answers, text.contains("error")), "{text}");
        }
    }

    #[test]
    fn a_method_concerns_its_messages_and_their_responses() {
        let (mut matcher, peer) = (Matcher::default(), agent(1));
        let call = read(&mut matcher, &peer, Direction::From, 0, r#"{"id":1,"method":"tools/call"}"#);
        let answer = read(&mut matcher, &peer, Direction::To, 0, r#"{"id":1,"result":{}}"#);
        let stray = read(&mut matcher, &peer, Direction::To, 0, r#"{"id":1,"result":{}}"#);
        for (method, expected) in [("tools/call", true), ("tools/*", true), ("tools", false), ("*", true)] {
            assert_eq!([call.concerns(method), answer.concerns(method)], [expected; 2], "{method}");
            assert!(!stray.concerns(method));
        }
        assert_eq!(read(&mut matcher, &peer, Direction::To, 0, "no JSON"), Meaning::default());
    }

    #[test]
    fn open_requests_are_limited() {
        let (mut matcher, peer) = (Matcher::default(), agent(1));
        for id in 0..=MAX_OPEN as u64 {
            let text = format!(r#"{{"id":{id},"method":"m"}}"#);
            matcher.read_text(&peer, Direction::From, Moment(id), &text.into());
        }
        assert_eq!(matcher.open.len(), MAX_OPEN);
        assert!(read(&mut matcher, &peer, Direction::To, 0, r#"{"id":0,"result":{}}"#).answers.is_none());
        assert!(read(&mut matcher, &peer, Direction::To, 0, r#"{"id":1,"result":{}}"#).answers.is_some());
    }
}
