//! Builds mcpd's own messages.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// JSON-RPC: not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: JSON, but not a valid request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: unknown method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: invalid parameters. MCP also uses it for an unknown tool.
pub const INVALID_PARAMS: i32 = -32602;
/// MCP up to 2025-11-25, `server/resources`: resource not found.
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// JSON-RPC: the peer failed.
pub const INTERNAL_ERROR: i32 = -32603;

/// An error object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// A code of JSON-RPC, of MCP, or of mcpd (−31001 to −31006).
    pub code: i32,
    /// One sentence for a person.
    pub message: String,
    /// Machine-readable details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// `{"jsonrpc":"2.0","id":ID,"result":RESULT}` and a newline; `id` and `result` are raw JSON.
#[must_use]
pub fn result(id: &[u8], result: &[u8]) -> Bytes {
    answer(id, b"result", result)
}

/// Like [`result`], without copying the result.
#[must_use]
pub fn result_in_parts(id: &[u8], result: &Bytes) -> [Bytes; 3] {
    let head = [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#].concat();
    [head.into(), result.clone(), Bytes::from_static(b"}\n")]
}

/// `{"jsonrpc":"2.0","id":ID,"error":ERROR}` and a newline. ID is `null` if there is none.
#[must_use]
pub fn error(id: Option<&[u8]>, error: &ErrorObject) -> Bytes {
    answer(id.unwrap_or(b"null"), b"error", &to_json(error))
}

/// Like [`error`], with the raw error object of a peer.
#[must_use]
pub fn raw_error(id: &[u8], error: &[u8]) -> Bytes {
    answer(id, b"error", error)
}

/// A request line; `params` is serialized.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> Bytes {
    line(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params: Some(params) })
}

/// A notification line without params.
#[must_use]
pub fn notification(method: &str) -> Bytes {
    line(&Outgoing { jsonrpc: "2.0", id: None, method, params: None::<()> })
}

/// A notification line.
pub fn notification_with(method: &str, params: &impl Serialize) -> Bytes {
    line(&Outgoing { jsonrpc: "2.0", id: None, method, params: Some(params) })
}

/// `notifications/cancelled` for the request `id`; the reason is for a person.
#[must_use]
pub fn cancelled(id: u64, reason: &str) -> Bytes {
    notification_with("notifications/cancelled", &serde_json::json!({ "requestId": id, "reason": reason }))
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

fn answer(id: &[u8], key: &[u8], value: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(id.len() + key.len() + value.len() + 32);
    line.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    line.put_slice(id);
    line.put_slice(b",\"");
    line.put_slice(key);
    line.put_slice(b"\":");
    line.put_slice(value);
    line.put_slice(b"}\n");
    line.freeze()
}

fn line(message: &impl Serialize) -> Bytes {
    let mut json = to_json(message);
    json.push(b'\n');
    json.into()
}

/// Serializes one of mcpd's own types.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("own types have string keys and serialize without fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_lines_are_spelled_as_the_protocol_says() {
        assert_eq!(&result(b"\"a\"", b"{}")[..], b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n");
        assert_eq!(result_in_parts(b"1", &Bytes::from_static(b"{}")).concat(), result(b"1", b"{}"));
        let line = error(None, &ErrorObject::new(PARSE_ERROR, "x"));
        assert_eq!(&line[..], b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}\n");
        assert_eq!(&notification("n")[..], b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
        assert_eq!(&request(3, "m", &[1])[..], b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"m\",\"params\":[1]}\n");
    }
}
