//! The modern era (2026-07-28) for agents: what requests say of themselves, answers that ask for input, subscriptions.

use serde_json::{Map, Value, json};

use super::agent::result;

pub(crate) const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a request of a client that can do this says of itself.
pub(crate) fn meta(capabilities: &Value) -> Map<String, Value> {
    let meta = json!({
        PROTOCOL: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test-agent", "version": "7"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    meta.as_object().expect("it is one").clone()
}

/// The request that input is asked for with, by its key.
#[track_caller]
pub(crate) fn inputs(answer: &Value) -> &Map<String, Value> {
    let required = result(answer);
    assert_eq!(required["resultType"], "input_required", "{answer}");
    required["inputRequests"].as_object().unwrap_or_else(|| panic!("no inputs: {answer}"))
}

/// A result without what the modern era adds to each.
pub(crate) fn plain(result: &Value) -> Value {
    let mut plain = result.clone();
    let members = plain.as_object_mut().unwrap_or_else(|| panic!("no object: {result}"));
    for key in ["resultType", "ttlMs", "cacheScope", "_meta"] {
        members.remove(key);
    }
    plain
}
