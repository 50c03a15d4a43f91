//! The client capabilities that an agent has declared and that its protocol version has. Pure.
//!
//! Source: MCP 2025-11-25, schema, `ClientCapabilities`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::era;
use crate::extensions::owns;
use crate::jsonrpc::members::{each, members};
use crate::jsonrpc::splice::{applied, without};

/// Maximum size of the capabilities of an agent in bytes. Larger ones are ignored.
const MAX_DECLARED: usize = 32 << 10;

/// A kind of server request that an agent may support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCapability {
    /// `sampling/createMessage`. mcpd does not check the use of tools and context.
    Sampling,
    /// `elicitation/create` in the mode `form`.
    Form,
    /// `elicitation/create` in the mode `url`.
    Url,
    /// `roots/list`.
    Roots,
    /// Requests of extensions. [`ClientCapabilities::declares_method`] decides about the method.
    Extension,
}

impl ClientCapability {
    /// The name of the declared capability.
    #[must_use]
    pub fn declared_by(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Form => "elicitation",
            Self::Url => "elicitation.url",
            Self::Roots => "roots",
            Self::Extension => "extensions",
        }
    }
}

/// The declared capabilities of an agent that its version has.
#[derive(Debug, Clone, Default)]
pub struct ClientCapabilities {
    /// The whole object, raw; empty for `{}`.
    raw: Bytes,
    sampling: bool,
    form: bool,
    url: bool,
    roots: bool,
    extensions: bool,
}

impl ClientCapabilities {
    /// Reads the raw `capabilities` of an agent with this protocol version. Malformed capabilities declare nothing.
    #[must_use]
    pub fn read(protocol: &str, capabilities: Option<&Bytes>) -> Self {
        let raw = capabilities.filter(|raw| raw.len() <= MAX_DECLARED).and_then(|raw| known_to(protocol, raw));
        raw.and_then(Self::found_in).unwrap_or_default()
    }

    /// The whole object, raw.
    #[must_use]
    pub fn raw(&self) -> Bytes {
        if self.raw.is_empty() { Bytes::from_static(b"{}") } else { self.raw.clone() }
    }

    fn found_in(raw: Bytes) -> Option<Self> {
        let [sampling, elicitation, roots, extensions] =
            members(&raw, ["sampling", "elicitation", "roots", "extensions"]).ok()?;
        let is_object = |raw: &Option<Bytes>| raw.as_ref().is_some_and(|raw| raw.starts_with(b"{"));
        let (form, url) = match &elicitation {
            Some(modes) if is_object(&elicitation) => {
                let [form, url] = members(modes, ["form", "url"]).ok()?;
                // An elicitation capability without modes means `form`, the only mode of the first version.
                (is_object(&form) || !is_object(&url), is_object(&url))
            }
            _ => (false, false),
        };
        let [sampling, roots, extensions] = [sampling, roots, extensions].map(|raw| is_object(&raw));
        Some(Self { raw, sampling, form, url, roots, extensions })
    }

    /// Whether the agent has declared an extension with this method.
    pub(crate) fn declares_method(&self, method: &[u8]) -> bool {
        let Ok(method) = std::str::from_utf8(method) else { return false };
        let Ok([Some(declared)]) = members(&self.raw(), ["extensions"]) else { return false };
        let mut has_method = false;
        let read = each(&declared, |id, _| has_method |= std::str::from_utf8(&id).is_ok_and(|id| owns(id, method)));
        read.is_ok() && has_method
    }

    /// Whether a shared instance may send the agent any request.
    pub(crate) fn include_any_request(&self) -> bool {
        self.sampling || self.form || self.url
    }

    /// Whether the agent has declared this capability.
    #[must_use]
    pub fn include(&self, capability: ClientCapability) -> bool {
        match capability {
            ClientCapability::Sampling => self.sampling,
            ClientCapability::Form => self.form,
            ClientCapability::Url => self.url,
            ClientCapability::Roots => self.roots,
            ClientCapability::Extension => self.extensions,
        }
    }
}

/// The raw object `declared` without null members and what `protocol` does not have, and without `tasks`: mcpd forwards no tasks of agents to servers.
fn known_to(protocol: &str, declared: &Bytes) -> Option<Bytes> {
    let mut all: BTreeMap<String, &RawValue> = serde_json::from_slice(declared).ok()?;
    all.retain(|_, value| value.get() != "null");
    all.retain(|name, _| name == "tasks" || !era::has(protocol, name));
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    // A copy, so that it does not keep the whole message in memory.
    Some(applied(declared, &without(declared, &names).ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ClientCapability; 5] = [
        ClientCapability::Sampling,
        ClientCapability::Form,
        ClientCapability::Url,
        ClientCapability::Roots,
        ClientCapability::Extension,
    ];

    #[test]
    fn methods_of_declared_extensions_are_declared() {
        let declared = Bytes::from_static(br#"{"extensions":{"io.example/x":{}}}"#);
        let found = ClientCapabilities::read(era::NEWEST_LEGACY, Some(&declared));
        assert!(found.include(ClientCapability::Extension) && found.declares_method(b"x/ask"));
        assert!(!found.declares_method(b"y/ask") && !ClientCapabilities::default().declares_method(b"x/ask"));
    }

    fn check(protocol: &str, declared: &'static str, expected: &[ClientCapability], raw: &str) {
        let found = ClientCapabilities::read(protocol, Some(&Bytes::from_static(declared.as_bytes())));
        let included: Vec<_> = ALL.into_iter().filter(|ability| found.include(*ability)).collect();
        assert_eq!((&included[..], &found.raw[..]), (expected, raw.as_bytes()), "{declared}");
    }

    #[test]
    fn an_agent_can_do_what_it_declares_and_its_version_has() {
        use ClientCapability::{Form, Roots, Sampling, Url};
        let all =
            r#"{"x":1.10,"sampling":{},"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true},"tasks":{}}"#;
        check(
            "2025-11-25",
            all,
            &ALL[..4],
            r#"{"x":1.10,"sampling":{},"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true}}"#,
        );
        let without_tasks = r#"{"sampling":{},"x":1.10}"#;
        check("2025-11-25", without_tasks, &[Sampling], without_tasks);
        check(
            "2025-06-18",
            all,
            &[Sampling, Form, Url, Roots],
            r#"{"x":1.10,"sampling":{},"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true}}"#,
        );
        let old = r#"{"x":1.10,"sampling":{},"roots":{"listChanged":true}}"#;
        check("2024-11-05", all, &[Sampling, Roots], old);
        for (elicitation, expected) in [
            (r#"{"elicitation":{}}"#, Form),
            (r#"{"elicitation":{"x":1}}"#, Form),
            (r#"{"elicitation":{"url":{}}}"#, Url),
        ] {
            check("2025-11-25", elicitation, &[expected], elicitation);
        }
    }

    #[test]
    fn what_cannot_be_read_or_is_no_object_declares_nothing() {
        for declared in ["[]", "7", r#"{"roots":{},"Roots":{}}"#, r#"{"roots":{},"roots":{}}"#] {
            check("2025-11-25", declared, &[], "");
        }
        let odd = r#"{"roots":null,"sampling":true,"elicitation":[]}"#;
        check("2025-11-25", odd, &[], odd);
        assert!(ClientCapabilities::read("2025-11-25", None).raw.is_empty());
        let large = format!(r#"{{"roots":{{}},"x":"{}"}}"#, "x".repeat(MAX_DECLARED));
        assert!(!ClientCapabilities::read("2025-11-25", Some(&Bytes::from(large))).include(ClientCapability::Roots));
    }
}
