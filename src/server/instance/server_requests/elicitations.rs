//! The URLs that agents were sent to, by the ids that their server gave them: when a person has been there, the server says so
//! with that id and no more. Pure.
//!
//! Source: MCP 2025-11-25, `client/elicitation`, "URL Mode Elicitation Requests", "URL Elicitation Required Error".

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::jsonrpc::members::{members, text};

/// Ids that are remembered. When there are so many, the oldest is forgotten for the newest: nobody hears of it any more.
const MOST: usize = 256;
/// Longest id, in bytes. A longer one is not remembered.
const LONGEST: usize = 1 << 10;
/// Largest error of a call that is looked into for ids, in bytes.
const LARGEST: usize = 64 << 10;
/// The error of a call that can be made again once the person has been at all of its URLs.
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// Those of one instance; `T` is the way to an agent.
#[derive(Debug)]
pub(super) struct Elicitations<T> {
    /// Ids as text, each with the session that was told it, oldest first.
    known: Vec<(Bytes, u64, T)>,
}

impl<T> Default for Elicitations<T> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<T: Clone> Elicitations<T> {
    /// A session is sent to a URL with this id.
    pub(super) fn add(&mut self, id: &Bytes, session: u64, to: &T) {
        if id.len() > LONGEST || self.known.iter().any(|(own, of, _)| own == id && *of == session) {
            return;
        }
        if self.known.len() == MOST {
            self.known.remove(0);
        }
        // Copied, so that it does not keep the whole message in memory.
        self.known.push((Bytes::copy_from_slice(id), session, to.clone()));
    }

    /// A call of a session has failed with this raw error, which may send it to some.
    pub(super) fn add_required(&mut self, error: &Bytes, session: u64, to: &T) {
        if error.len() > LARGEST {
            return;
        }
        let Ok([Some(code), Some(data)]) = members(error, ["code", "data"]) else { return };
        if code[..] != *URL_ELICITATION_REQUIRED {
            return;
        }
        let Ok([Some(all)]) = members(&data, ["elicitations"]) else { return };
        for one in serde_json::from_slice::<Vec<&RawValue>>(&all).unwrap_or_default() {
            let one = all.slice_ref(one.get().as_bytes());
            if let Ok([Some(id)]) = members(&one, ["elicitationId"])
                && let Some(id) = text(&id)
            {
                self.add(&id, session, to);
            }
        }
    }

    /// A person has been at the URL with this id. Gives the way to everyone who was sent there, and forgets it.
    pub(super) fn complete(&mut self, id: &[u8]) -> Vec<T> {
        self.known.extract_if(.., |(own, ..)| own == id).map(|(.., to)| to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &'static str) -> Bytes {
        Bytes::from_static(id.as_bytes())
    }

    #[test]
    fn who_was_sent_to_a_url_hears_once_that_it_is_done() {
        let mut known = Elicitations::default();
        for (elicitation, session) in [("a", 1), ("a", 1), ("b", 1), ("a", 2)] {
            known.add(&id(elicitation), session, &session);
        }
        assert_eq!(known.complete(b"a"), [1, 2]);
        assert_eq!((known.complete(b"a"), known.complete(b"b")), (vec![], vec![1]));
    }

    #[test]
    fn a_failed_call_may_send_to_several() {
        let mut known = Elicitations::default();
        for error in ["7", r#"{"code":-32042}"#, r#"{"code":-32042,"data":{"elicitations":7}}"#] {
            known.add_required(&id(error), 1, &1);
        }
        let error = r#"{"code":CODE,"message":"","data":{"elicitations":[{"elicitationId":"x"},7,{"elicitationId":"\u0079"}]}}"#;
        for code in ["-32042", "-32041"] {
            known.add_required(&Bytes::from(error.replace("CODE", code)), 3, &3);
        }
        assert_eq!((known.complete(b"x"), known.complete(b"y"), known.known.len()), (vec![3], vec![3], 0));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut known = Elicitations::default();
        known.add(&Bytes::from("x".repeat(LONGEST + 1)), 1, &1);
        assert!(known.known.is_empty());
        let elicitation = "x".repeat(LARGEST);
        let data =
            format!(r#"{{"elicitations":[{{"elicitationId":"a"}},{{"elicitationId":"b","x":"{elicitation}"}}]}}"#);
        known.add_required(&Bytes::from(format!(r#"{{"code":-32042,"data":{data}}}"#)), 1, &1);
        assert!(known.known.is_empty());
        for n in 0..3 * MOST {
            known.add(&Bytes::from(n.to_string()), 1, &n);
        }
        assert_eq!(known.known.len(), MOST);
        assert_eq!((known.complete(b"0").len(), known.complete((3 * MOST - 1).to_string().as_bytes()).len()), (0, 1));
    }
}
