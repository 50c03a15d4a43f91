//! Messages that tests build, and the parts of responses that they check.

use serde_json::{Value, json};

/// A request, without params if they are null.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    let mut message = notification(method, params);
    message["id"] = id.into();
    message
}

/// A notification, without params if they are null.
pub(crate) fn notification(method: &str, params: &Value) -> Value {
    match params {
        Value::Null => json!({"jsonrpc": "2.0", "method": method}),
        params => json!({"jsonrpc": "2.0", "method": method, "params": params}),
    }
}

/// The params of `initialize`.
pub(crate) fn initialize_params(version: &str, capabilities: &Value) -> Value {
    let info = json!({"name": "test-agent", "version": "7"});
    json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info})
}

/// The request `initialize` of an agent that has no capabilities.
pub(crate) fn initialize(version: &str) -> Value {
    request(1, "initialize", &initialize_params(version, &json!({})))
}

/// The text of a call, with the id and the arguments byte for byte.
pub(crate) fn call_text(id: &str, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// The result of a response; panics on an error.
#[track_caller]
pub(crate) fn result(answer: &Value) -> &Value {
    assert!(answer["error"].is_null(), "an error: {answer}");
    &answer["result"]
}

/// The error code of a response; panics on a result.
#[track_caller]
pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

/// The arguments that `echo` returned.
#[track_caller]
pub(crate) fn arguments(answer: &Value) -> &Value {
    &result(answer)["structuredContent"]["params"]["arguments"]
}

/// The structured content of a result.
#[track_caller]
pub(crate) fn content(answer: &Value) -> Value {
    result(answer)["structuredContent"].clone()
}

/// Fails unless the server of a call ended before it answered.
#[track_caller]
pub(crate) fn expect_died(answer: &Value) {
    assert_eq!(code(answer), -31001, "{answer}");
    assert_eq!(answer["error"]["data"], json!({"server": "a", "outcome": "unknown"}), "{answer}");
}
