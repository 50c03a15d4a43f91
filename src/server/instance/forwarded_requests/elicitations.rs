//! URL elicitations, by the ids that the server has given them. When a person has opened a URL, the notification of the server has only
//! that id. Pure.
//!
//! Source: MCP 2025-11-25, `client/elicitation`, "URL Mode Elicitation Requests", "URL Elicitation Required Error".

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::jsonrpc::members::{members, text};

/// Maximum number of elicitations. One more replaces the oldest, whose agent is not notified.
const MAX_ELICITATIONS: usize = 256;
/// Maximum length of an id in bytes. Elicitations with longer ids are not tracked.
const MAX_ID_LEN: usize = 1 << 10;
/// Maximum size in bytes of an error that is searched for elicitations.
const MAX_ERROR_LEN: usize = 64 << 10;
/// The error for a call that can be repeated once a person has opened all of its URLs.
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// The elicitations of one instance. `T` is the channel to an agent.
#[derive(Debug)]
pub(super) struct Elicitations<T> {
    /// Ids as text, each with its session and the channel to it, oldest first.
    known: Vec<(Bytes, u64, T)>,
}

impl<T> Default for Elicitations<T> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<T: Clone> Elicitations<T> {
    /// A session gets an elicitation with this id.
    pub(super) fn add(&mut self, id: &Bytes, session: u64, to: &T) {
        if id.len() > MAX_ID_LEN || self.known.iter().any(|(own, of, _)| own == id && *of == session) {
            return;
        }
        if self.known.len() == MAX_ELICITATIONS {
            self.known.remove(0);
        }
        // Copied, so that it does not keep the whole message in memory.
        self.known.push((Bytes::copy_from_slice(id), session, to.clone()));
    }

    /// A call of a session has failed with this raw error, which may have elicitations.
    pub(super) fn add_required(&mut self, error: &Bytes, session: u64, to: &T) {
        if error.len() > MAX_ERROR_LEN {
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

    /// A person has opened the URL with this id. Removes the elicitation and returns the channels to its agents.
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
    fn agents_are_notified_once_of_their_elicitation() {
        let mut known = Elicitations::default();
        for (elicitation, session) in [("a", 1), ("a", 1), ("b", 1), ("a", 2)] {
            known.add(&id(elicitation), session, &session);
        }
        assert_eq!(known.complete(b"a"), [1, 2]);
        assert_eq!((known.complete(b"a"), known.complete(b"b")), (vec![], vec![1]));
    }

    #[test]
    fn failed_call_may_have_several_elicitations() {
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
    fn number_of_elicitations_is_limited() {
        let mut known = Elicitations::default();
        known.add(&Bytes::from("x".repeat(MAX_ID_LEN + 1)), 1, &1);
        assert!(known.known.is_empty());
        let elicitation = "x".repeat(MAX_ERROR_LEN);
        let data =
            format!(r#"{{"elicitations":[{{"elicitationId":"a"}},{{"elicitationId":"b","x":"{elicitation}"}}]}}"#);
        known.add_required(&Bytes::from(format!(r#"{{"code":-32042,"data":{data}}}"#)), 1, &1);
        assert!(known.known.is_empty());
        for n in 0..3 * MAX_ELICITATIONS {
            known.add(&Bytes::from(n.to_string()), 1, &n);
        }
        assert_eq!(known.known.len(), MAX_ELICITATIONS);
        assert_eq!(
            (known.complete(b"0").len(), known.complete((3 * MAX_ELICITATIONS - 1).to_string().as_bytes()).len()),
            (0, 1)
        );
    }
}
