//! The agents that an instance serves, and the capabilities that mcpd declares to it. Pure.
//!
//! Source: MCP 2025-11-25, schema, `ClientCapabilities`; `client/sampling`, `client/elicitation`, `client/roots`,
//! `basic/utilities/tasks`.

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::messages::agents::Agent;
use crate::era::Era;

/// The agents that an instance serves.
#[derive(Debug, Clone)]
pub(super) enum AgentScope {
    /// Any agent.
    Any,
    /// No agent: the embedding program, which answers no requests of servers.
    Nobody,
    /// One agent only.
    Of(Agent),
}

impl AgentScope {
    /// The capabilities for the instance.
    ///
    /// - The instance of a legacy agent gets the capabilities of that agent.
    /// - The instance of a modern agent gets all that mcpd can forward, as the agent declares its capabilities with each request.
    ///   A server request that the agent's request does not permit is refused.
    /// - A shared instance gets the same, with roots only if some are configured.
    pub(super) fn capabilities(&self, roots: &[String]) -> Box<RawValue> {
        let all = || json!({ "sampling": { "tools": {}, "context": {} }, "elicitation": { "form": {}, "url": {} } });
        let (mut declared, has_roots) = match self {
            Self::Of(agent) if agent.era == Era::Legacy => {
                return serde_json::from_slice(&agent.capabilities.raw()).unwrap_or_else(|_| raw(&json!({})));
            }
            Self::Of(_) => (all(), true),
            Self::Any => (all(), !roots.is_empty()),
            Self::Nobody => (json!({}), !roots.is_empty()),
        };
        if has_roots {
            declared["roots"] = json!({});
        }
        raw(&declared)
    }
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    // Serialization cannot fail, as all keys are strings.
    to_raw_value(value).unwrap_or_default()
}

/// The result of `roots/list` for these directories and `file://` URIs.
pub(super) fn roots_result(roots: &[String]) -> Vec<u8> {
    let root = |text: &String| json!({ "uri": uri(text), "name": last_segment(text) });
    json!({ "roots": roots.iter().map(root).collect::<Vec<_>>() }).to_string().into_bytes()
}

/// The `file:` URI of a path (RFC 8089). A URI is returned unchanged.
fn uri(text: &str) -> String {
    if !text.starts_with('/') {
        return text.to_owned();
    }
    text.bytes().fold("file://".to_owned(), |mut uri, byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
        uri
    })
}

fn last_segment(text: &str) -> &str {
    text.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_sent_as_uris_with_names() {
        let roots = ["/a/b c", "file:///x/y%20z/", "/"].map(str::to_owned);
        let expected = json!({ "roots": [
            { "uri": "file:///a/b%20c", "name": "b c" },
            { "uri": "file:///x/y%20z/", "name": "y%20z" },
            { "uri": "file:///", "name": "/" },
        ]});
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&roots_result(&roots)).expect("JSON"), expected);
    }

    #[test]
    fn shared_instance_gets_the_roots_capability_only_with_configured_roots() {
        let declared = |roots: &[String]| AgentScope::Any.capabilities(roots).get().to_owned();
        assert_eq!(AgentScope::Nobody.capabilities(&[]).get(), "{}");
        assert_eq!(declared(&[]), r#"{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}}}"#);
        assert!(declared(&["/x".to_owned()]).contains(r#""roots":{}"#));
    }
}
