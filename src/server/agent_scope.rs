//! For whom an instance is, and what is declared to it. Pure.
//!
//! Source: MCP 2025-11-25, schema, `ClientCapabilities`; `client/sampling`, `client/elicitation`, `client/roots`,
//! `basic/utilities/tasks`.

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::messages::agents::Agent;
use crate::era::Era;

/// For whom an instance is.
#[derive(Debug, Clone)]
pub(super) enum AgentScope {
    /// For whoever calls.
    Any,
    /// For this program, which nobody can ask anything.
    Nobody,
    /// For one agent alone.
    Of(Agent),
}

impl AgentScope {
    /// What is declared to the instance.
    ///
    /// The instance of a legacy agent gets what that agent has declared. A modern agent declares something with each request, so its
    /// instance gets all that mcpd can pass on, and what the request at hand does not declare is refused. A shared instance gets the
    /// same, and roots only if there are any in the configuration.
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
    // Without keys but strings it does not fail.
    to_raw_value(value).unwrap_or_default()
}

/// The result of `roots/list` with these directories and `file://` URIs.
pub(super) fn roots_result(roots: &[String]) -> Vec<u8> {
    let root = |text: &String| json!({ "uri": uri(text), "name": last_segment(text) });
    json!({ "roots": roots.iter().map(root).collect::<Vec<_>>() }).to_string().into_bytes()
}

/// Of a path as RFC 8089 spells it; a URI stays as it is.
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
