//! What mcpd is for an instance: what it declares that its client can do. Pure.
//!
//! Source: MCP 2025-11-25, schema, `ClientCapabilities`; `client/sampling`, `client/elicitation`, `client/roots`,
//! `basic/utilities/tasks`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::Agent;
use crate::era::{self, Era};
use crate::jsonrpc::members::members;

/// Largest capabilities of an agent that are kept, in bytes. One that declares more has declared none.
const MAX_DECLARED: usize = 32 << 10;

/// For whom an instance is.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// For whoever calls.
    Any,
    /// For this program, which nobody can ask anything.
    Nobody,
    /// For one agent alone.
    Of(Agent),
}

/// What an agent may be asked to do, if it has declared that it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// `sampling/createMessage`. Whether tools or context may be in it is between the server and the agent.
    Sampling,
    /// `elicitation/create` in the mode `form`.
    Form,
    /// `elicitation/create` in the mode `url`.
    Url,
    /// `roots/list`.
    Roots,
    /// `tasks/get`, `tasks/result`, `tasks/cancel` and `tasks/list`. Which of them, and of which requests it makes tasks, is between
    /// the server and the agent.
    Tasks,
}

impl Ability {
    /// The capability that declares it.
    #[must_use]
    pub fn declared_by(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Form => "elicitation",
            Self::Url => "elicitation.url",
            Self::Roots => "roots",
            Self::Tasks => "tasks",
        }
    }
}

/// What an agent has declared in `initialize`, as far as its version has it.
#[derive(Debug, Default)]
pub struct Abilities {
    /// The whole object, raw; empty for `{}`.
    raw: Bytes,
    sampling: bool,
    form: bool,
    url: bool,
    roots: bool,
    tasks: bool,
}

impl Abilities {
    /// Those in the raw `capabilities` of an agent that is served in `protocol`. What cannot be read declares nothing.
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

    /// Without the words, which are not needed to know what is among them.
    pub(super) fn bare(self) -> Self {
        Self { raw: Bytes::new(), ..self }
    }

    fn found_in(raw: Bytes) -> Option<Self> {
        let [sampling, elicitation, roots, tasks] =
            members(&raw, ["sampling", "elicitation", "roots", "tasks"]).ok()?;
        let is_object = |raw: &Option<Bytes>| raw.as_ref().is_some_and(|raw| raw.starts_with(b"{"));
        let (form, url) = match &elicitation {
            Some(modes) if is_object(&elicitation) => {
                let [form, url] = members(modes, ["form", "url"]).ok()?;
                // Without any mode it means the one that was there first.
                (is_object(&form) || !is_object(&url), is_object(&url))
            }
            _ => (false, false),
        };
        let [sampling, roots, tasks] = [sampling, roots, tasks].map(|raw| is_object(&raw));
        Some(Self { raw, sampling, form, url, roots, tasks })
    }

    /// Whether there is anything that a shared instance may ask the agent.
    pub(super) fn include_any_request(&self) -> bool {
        self.sampling || self.form || self.url
    }

    /// Whether this is among them.
    #[must_use]
    pub fn include(&self, ability: Ability) -> bool {
        match ability {
            Ability::Sampling => self.sampling,
            Ability::Form => self.form,
            Ability::Url => self.url,
            Ability::Roots => self.roots,
            Ability::Tasks => self.tasks,
        }
    }
}

/// The raw object `declared` without what `protocol` does not have.
fn known_to(protocol: &str, declared: &Bytes) -> Option<Bytes> {
    let mut all: BTreeMap<String, &RawValue> = serde_json::from_slice(declared).ok()?;
    let before = all.len();
    all.retain(|name, _| era::has(protocol, name));
    if all.len() == before {
        // Copied, so that it does not keep the whole message in memory.
        return Some(Bytes::copy_from_slice(declared));
    }
    serde_json::to_vec(&all).ok().map(Bytes::from)
}

impl Role {
    /// What is declared to the instance.
    ///
    /// The instance of a legacy agent gets what that agent has declared. A modern agent declares something with each request, so its
    /// instance gets all that mcpd can pass on, and what the request at hand does not declare is refused. A shared instance gets the
    /// same, and roots only if there are any in the configuration.
    pub(super) fn capabilities(&self, roots: &[String]) -> Box<RawValue> {
        let all = || json!({ "sampling": { "tools": {}, "context": {} }, "elicitation": { "form": {}, "url": {} } });
        let (mut declared, has_roots) = match self {
            Self::Of(agent) if agent.era == Era::Legacy => {
                return serde_json::from_slice(&agent.abilities.raw).unwrap_or_else(|_| raw(&json!({})));
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

    const ALL: [Ability; 5] = [Ability::Sampling, Ability::Form, Ability::Url, Ability::Roots, Ability::Tasks];

    fn check(protocol: &str, declared: &'static str, expected: &[Ability], raw: &str) {
        let found = Abilities::read(protocol, Some(&Bytes::from_static(declared.as_bytes())));
        let included: Vec<_> = ALL.into_iter().filter(|ability| found.include(*ability)).collect();
        assert_eq!((&included[..], &found.raw[..]), (expected, raw.as_bytes()), "{declared}");
    }

    #[test]
    fn an_agent_can_do_what_it_declares_and_its_version_has() {
        use Ability::{Form, Roots, Sampling, Url};
        let all =
            r#"{"x":1.10,"sampling":{},"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true},"tasks":{}}"#;
        check("2025-11-25", all, &ALL, all);
        check(
            "2025-06-18",
            all,
            &[Sampling, Form, Url, Roots],
            r#"{"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true},"sampling":{},"x":1.10}"#,
        );
        let old = r#"{"roots":{"listChanged":true},"sampling":{},"x":1.10}"#;
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
        assert!(Abilities::read("2025-11-25", None).raw.is_empty());
        let large = format!(r#"{{"roots":{{}},"x":"{}"}}"#, "x".repeat(MAX_DECLARED));
        assert!(!Abilities::read("2025-11-25", Some(&Bytes::from(large))).include(Ability::Roots));
    }

    #[test]
    fn roots_are_told_as_uris_with_names() {
        let roots = ["/a/b c", "file:///x/y%20z/", "/"].map(str::to_owned);
        let expected = json!({ "roots": [
            { "uri": "file:///a/b%20c", "name": "b c" },
            { "uri": "file:///x/y%20z/", "name": "y%20z" },
            { "uri": "file:///", "name": "/" },
        ]});
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&roots_result(&roots)).expect("JSON"), expected);
    }

    #[test]
    fn an_instance_for_all_is_told_of_roots_only_if_there_are_any() {
        let told = |roots: &[String]| Role::Any.capabilities(roots).get().to_owned();
        assert_eq!(Role::Nobody.capabilities(&[]).get(), "{}");
        assert_eq!(told(&[]), r#"{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}}}"#);
        assert!(told(&["/x".to_owned()]).contains(r#""roots":{}"#));
    }
}
