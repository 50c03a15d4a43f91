//! The requests that a notification of an extension names in its params, by their ids or progress tokens. Pure.
//!
//! mcpd assigns both at a server, so each is translated. One that names no pending request belongs to a request that has ended.

use bytes::Bytes;

use super::pending_call::PendingCall;
use crate::jsonrpc::members::members;

/// An id or token of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Raw: a slice of the params.
    pub(super) raw: Bytes,
    is_token: bool,
}

impl Reference {
    /// The references in these params; `None` if they are malformed.
    pub(super) fn all(params: Option<&Bytes>) -> Option<Vec<Self>> {
        let Some(params) = params else { return Some(Vec::new()) };
        let [id, token, meta] = members(params, ["requestId", "progressToken", "_meta"]).ok()?;
        let in_meta = match meta.filter(|meta| meta.starts_with(b"{")) {
            Some(meta) => members(&meta, ["progressToken"]).ok()?[0].take(),
            None => None,
        };
        let id = id.map(|raw| Self { raw, is_token: false });
        let tokens = [token, in_meta].into_iter().flatten().map(|raw| Self { raw, is_token: true });
        Some(id.into_iter().chain(tokens).collect())
    }

    /// The agent's own id or token of this call; `None` if the call has no token.
    pub(super) fn at_agent<'a>(&self, call: &'a PendingCall) -> Option<&'a Bytes> {
        if self.is_token { call.progress_token.as_ref() } else { Some(call.response_handle.id()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tokens_are_found_wherever_they_are() {
        for (params, expected) in [
            (r#"{"requestId":1,"k":{"requestId":2}}"#, Some(vec![("1", false)])),
            (r#"{"progressToken":"t","_meta":{"progressToken":3}}"#, Some(vec![("\"t\"", true), ("3", true)])),
            (r#"{"_meta":null}"#, Some(vec![])),
            (r#"{"requestId":1,"requestId":2}"#, None),
            (r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, None),
            ("[]", None),
        ] {
            let found = Reference::all(Some(&Bytes::from_static(params.as_bytes())));
            let reference =
                |(raw, is_token): (&'static str, bool)| Reference { raw: Bytes::from_static(raw.as_bytes()), is_token };
            let expected = expected.map(|all| all.into_iter().map(reference).collect());
            assert_eq!(found, expected, "{params}");
        }
        assert_eq!(Reference::all(None), Some(Vec::new()));
    }
}
