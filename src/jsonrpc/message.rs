//! The envelope: parses the kind and the parts of a message, and keeps the ranges of a request that are replaced before it is sent on.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::members::{slices, text_within};
use super::scan::Walk;
use super::splice::{Change, Edit, applied, splice};

/// A well-formed JSON-RPC message. Every part is a slice of its line.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Requires exactly one response.
    Request {
        /// Raw JSON: `1` is not `"1"`.
        id: Bytes,
        /// Decoded text.
        method: Bytes,
        /// Raw JSON.
        params: Option<Bytes>,
    },
    /// Has no response.
    Notification {
        /// Decoded text.
        method: Bytes,
        /// Raw JSON.
        params: Option<Bytes>,
    },
    /// The response to a request.
    Response {
        /// Raw JSON.
        id: Bytes,
        /// Raw JSON of the result, or of the error object.
        response: Result<Bytes, Bytes>,
    },
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageError {
    /// Not JSON, or not UTF-8.
    NotJson,
    /// A JSON array: a batch (JSON-RPC 2.0, "Batch"). Only MCP 2025-03-26 had batches, and mcpd supports none.
    Batch,
    /// A malformed response: with both result and error, neither, or a malformed error.
    BadResponse {
        /// The id of its request.
        id: Bytes,
    },
    /// A response that belongs to no request: it has no usable id (`"id":null`), or no version. It must not be answered.
    StrayResponse {
        /// The error object, if it is a well-formed error.
        error: Option<Bytes>,
    },
    /// JSON, but not a JSON-RPC 2.0 message.
    NotAMessage {
        /// Its id, if it has a usable one.
        id: Option<Bytes>,
    },
}

/// Maximum length of an id or progress token, in bytes. Both stay in memory while a call is open.
pub const MAX_ID: usize = 8 << 10;

/// The members of a message.
pub(super) static ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The raw error in a response line, which has its newline. `None` for another line.
#[must_use]
pub fn error_in(line: &Bytes) -> Option<Bytes> {
    match parse(&line.slice(..line.len().saturating_sub(1))) {
        Ok(Message::Response { response, .. }) => response.err(),
        _ => None,
    }
}

/// Parses `line`.
///
/// # Errors
/// See [`MessageError`].
pub fn parse(line: &Bytes) -> Result<Message, MessageError> {
    let Ok(found) = slices(line, &ENVELOPE) else {
        return Err(not_an_object(line));
    };
    let [version, id, method, params, result, error] = found;
    let slice = |part: &[u8]| line.slice_ref(part);
    let is_versioned = version == Some(br#""2.0""#);
    let usable_id = id.filter(|id| is_id(id));
    let is_response = method.is_none() && (result.is_some() || error.is_some());
    if is_response && (usable_id.is_none() || !is_versioned && result.is_none()) {
        let error = error.filter(|error| is_versioned && result.is_none() && error.first() == Some(&b'{'));
        return Err(MessageError::StrayResponse { error: error.map(slice) });
    }
    if id.is_some() && usable_id.is_none() {
        return Err(MessageError::NotAMessage { id: None });
    }
    match (id, method, result, error) {
        (_, Some(method), None, None) if is_versioned => {
            let Some(method) = text_within(line, method) else {
                return Err(MessageError::NotAMessage { id: id.map(slice) });
            };
            let params = params.filter(|raw| *raw != b"null").map(slice);
            Ok(match id {
                Some(id) => Message::Request { id: slice(id), method, params },
                None => Message::Notification { method, params },
            })
        }
        (Some(id), None, Some(result), None) if is_versioned => {
            Ok(Message::Response { id: slice(id), response: Ok(slice(result)) })
        }
        (Some(id), None, None, Some(error)) if is_versioned && error.first() == Some(&b'{') => {
            Ok(Message::Response { id: slice(id), response: Err(slice(error)) })
        }
        (Some(id), None, ..) if is_versioned || result.is_some() => Err(MessageError::BadResponse { id: slice(id) }),
        _ => Err(MessageError::NotAMessage { id: id.map(slice) }),
    }
}

/// Whether a raw value can be an id or a progress token: a string or number of bounded length. MCP forbids `null`.
#[must_use]
pub fn is_id(raw: &[u8]) -> bool {
    raw.len() <= MAX_ID && matches!(raw.first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

fn not_an_object(line: &Bytes) -> MessageError {
    // To JSON a bare carriage return is a blank, but some peers treat it as the end of a line. It could hide a second, unchecked message
    // within the first.
    if memchr::memchr(b'\r', line).is_some() {
        return MessageError::NotJson;
    }
    let json = is_json(line);
    match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') if json && has_only_responses(line) => MessageError::StrayResponse { error: None },
        Some(b'[') if json => MessageError::Batch,
        _ if json => MessageError::NotAMessage { id: None },
        _ => MessageError::NotJson,
    }
}

/// Whether this batch has messages, none of which requires an answer.
fn has_only_responses(batch: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Member {
        method: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Vec<Member>>(batch)
        .is_ok_and(|members| !members.is_empty() && members.iter().all(|member| member.method.is_none()))
}

fn is_json(text: &[u8]) -> bool {
    let mut walk = Walk::any(text);
    while let Ok(part) = walk.next() {
        if part.is_none() {
            return walk.end().is_ok();
        }
    }
    false
}

/// A request line. All parts are slices of it, except the name on the server.
#[derive(Debug, Clone)]
pub struct RequestLine {
    /// The whole request, without its newline.
    pub line: Bytes,
    /// The caller's id, raw.
    pub id: Bytes,
    /// The name in the request, if it has one.
    pub rename: Option<Rename>,
    /// The caller's progress token, raw.
    pub progress_token: Option<Bytes>,
}

/// An exposed name, and the name on the server that replaces it.
#[derive(Debug, Clone)]
pub struct Rename {
    /// The exposed name, raw.
    pub exposed: Bytes,
    /// The name on the server, raw.
    pub server_name: Bytes,
}

impl RequestLine {
    /// This request with a changed part, which no other part begins in.
    ///
    /// # Panics
    /// If the changed part is not a slice of the line.
    #[must_use]
    pub fn with_change(&self, change: &Change) -> Self {
        let line = Bytes::from(applied(&self.line, std::slice::from_ref(change)));
        let offset = |part: &Bytes| part.as_ptr() as usize - self.line.as_ptr() as usize;
        let moved = |part: &Bytes| {
            let start = offset(part);
            let is_behind = start > offset(&change.part);
            let start = if is_behind { start + change.replacement.len() - change.part.len() } else { start };
            line.slice(start..start + part.len())
        };
        let rename = self.rename.as_ref();
        let rename =
            rename.map(|rename| Rename { exposed: moved(&rename.exposed), server_name: rename.server_name.clone() });
        let (id, progress_token) = (moved(&self.id), self.progress_token.as_ref().map(moved));
        Self { line, id, rename, progress_token }
    }

    /// The line for the server: with `id`, these changes and a newline.
    #[must_use]
    pub fn numbered(&self, id: u64, changes: &[Change]) -> Bytes {
        let mut digits = itoa::Buffer::new();
        let id = digits.format(id).as_bytes();
        let nothing = Edit { part: &self.line[..0], replacement: b"" };
        let rename = self
            .rename
            .as_ref()
            .map(|Rename { exposed, server_name }| Edit { part: exposed, replacement: server_name });
        // Two agents can choose the same token. The request id is unique, so it replaces the token.
        let token = self.progress_token.as_ref().map(|part| Edit { part, replacement: id });
        let mut edits = [Edit { part: &self.id, replacement: id }, rename.unwrap_or(nothing), token.unwrap_or(nothing)];
        if changes.is_empty() {
            return splice(&self.line, &mut edits);
        }
        splice(&self.line, &mut edits.into_iter().chain(changes.iter().map(Change::edit)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;

    fn check(line: &'static str, expected: Result<Message, MessageError>) {
        assert_eq!(parse(&Bytes::from_static(line.as_bytes())), expected, "{line}");
    }

    #[test]
    fn tells_the_three_kinds_apart() {
        let request = |id, params| Message::Request { id: bytes(id), method: bytes("ping"), params };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok(request("1", None)));
        check(r#"{"method":"ping","id":"1","jsonrpc":"2.0","params":{}}"#, Ok(request("\"1\"", Some(bytes("{}")))));
        check(r#"{"jsonrpc":"2.0","id":-1.0,"method":"ping","params":null}"#, Ok(request("-1.0", None)));
        let notification = Message::Notification { method: bytes("a"), params: None };
        check(r#"{"jsonrpc":"2.0","method":"a"}"#, Ok(notification));
        let null_result = Message::Response { id: bytes("2"), response: Ok(bytes("null")) };
        check(r#"{"jsonrpc":"2.0","id":2,"result":null}"#, Ok(null_result));
        let error = Message::Response { id: bytes("2"), response: Err(bytes(r#"{"code":1}"#)) };
        check(r#"{"jsonrpc":"2.0","id":2,"error":{"code":1}}"#, Ok(error));
    }

    #[test]
    fn says_what_a_line_is_instead() {
        check("npm notice", Err(MessageError::NotJson));
        check("", Err(MessageError::NotJson));
        check("{", Err(MessageError::NotJson));
        check(r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Err(MessageError::Batch));
        check("[", Err(MessageError::NotJson));
        let nameless = || Err(MessageError::NotAMessage { id: None });
        check("1", nameless());
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, nameless());
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, nameless());
        check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, nameless());
        let error = MessageError::StrayResponse { error: Some(bytes(r#"{"code":-32700}"#)) };
        check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, Err(error.clone()));
        check(r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#, Err(error));
        for stray in [
            r#"{"jsonrpc":"2.0","id":null,"error":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":{},"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","result":null}"#,
            r#"{"id":null,"error":{}}"#,
            r#"{"id":7,"error":{}}"#,
            r#"[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        ] {
            check(stray, Err(MessageError::StrayResponse { error: None }));
        }
        for batch in
            ["[]", "[1]", r#"[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":7,"method":"ping"}]"#]
        {
            check(batch, Err(MessageError::Batch));
        }
        let seven = || Err(MessageError::NotAMessage { id: Some(bytes("7")) });
        check(r#"{"id":7,"method":"ping"}"#, seven());
        check(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, seven());
        check(r#"{"jsonrpc":"2.0","id":7,"method":3}"#, seven());
        check(r#"{"level":30,"id":7,"msg":"starting"}"#, seven());
        let bad_response = || Err(MessageError::BadResponse { id: bytes("7") });
        check(r#"{"jsonrpc":"2.0","id":7}"#, bad_response());
        check(r#"{"id":7,"result":{}}"#, bad_response());
        check(r#"{"jsonrpc":"2.0","id":7,"error":null}"#, bad_response());
        check(r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{}}"#, bad_response());
    }

    #[test]
    fn nothing_hides_behind_a_carriage_return_or_a_key_that_only_looks_right() {
        check("{\"jsonrpc\":\"2.0\",\r\"id\":7,\"method\":\"ping\"}", Err(MessageError::NotJson));
        check(r#"{"jsonrpc":"2.0","id":7,"method":"ping","Method":"x"}"#, Err(MessageError::NotAMessage { id: None }));
        check(r#"{"jsonrpc":"2.0","ID":7,"method":"ping"}"#, Err(MessageError::NotAMessage { id: None }));
    }

    #[test]
    fn an_id_has_a_bounded_length() {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(MAX_ID));
        assert_eq!(parse(&Bytes::from(line)), Err(MessageError::NotAMessage { id: None }));
    }
}
