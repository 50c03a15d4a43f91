//! The lists of a server, as received: how long they may be cached, and what their tools cost a model.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::applied;
use crate::list_kind::{ListKind, PerKind};
use crate::pins::Fingerprint;
use crate::policy::{Hidden, Policy};
use crate::validity::{Unlisted, Validity};

/// One listed item, as its server defined it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name on the server, or its URI.
    pub key: Arc<str>,
    /// The key as raw JSON: a slice of `json`.
    pub raw_key: Bytes,
    /// The whole object, raw.
    pub json: Bytes,
    /// Bytes of a tool that clients pass to a model beside its name ([`crate::catalog::list`]); 0 for other kinds.
    pub model_bytes: usize,
    /// How it differs from what agents accept.
    pub validity: Validity,
    /// Of `json`, computed once it is compared with an approved one.
    pub fingerprint: Fingerprint,
}

impl Item {
    /// Whether policy exposes it.
    pub(crate) fn verdict<'p>(&self, kind: ListKind, policy: &'p Policy) -> Result<(), Hidden<'p>> {
        policy.verdict_on_listed(kind, &self.key, &self.json, &self.fingerprint)
    }

    /// The definition as agents of this era see it, but for its name.
    pub(crate) fn for_era(&self, era: Era) -> Bytes {
        match self.validity.changes(era) {
            [] => self.json.clone(),
            changes => applied(&self.json, changes).into(),
        }
    }

    /// Whether a tool states that it can only be called as a task.
    fn requires_task(&self) -> bool {
        let support = || {
            let [execution] = members(&self.json, ["execution"]).ok()?;
            let [support] = members(&execution?, ["taskSupport"]).ok()?;
            text(&support?)
        };
        // Few tools have this member.
        memchr::memmem::find(&self.json, b"taskSupport").is_some() && support().is_some_and(|it| it[..] == *b"required")
    }

    /// Whether a tool states the form of its structured results.
    pub(super) fn has_output_schema(&self) -> bool {
        let schema = || members(&self.json, ["outputSchema"]).ok().and_then(|[schema]| schema);
        // Few tools have one, and a search is cheaper than parsing.
        memchr::memmem::find(&self.json, b"outputSchema").is_some() && schema().is_some_and(|it| it.starts_with(b"{"))
    }

    /// The URI of the user interface that a tool names.
    ///
    /// Source: MCP Apps 2026-01-26, "Resource Discovery".
    pub(super) fn interface(&self) -> Option<Box<str>> {
        // Few tools have one, and a search is cheaper than parsing.
        memchr::memmem::find(&self.json, b"esourceUri")?;
        let [meta] = members(&self.json, ["_meta"]).ok()?;
        interface_in(&meta?)
    }
}

/// The URI of a user interface in a raw `_meta` of a tool, or of a call that the interface makes.
#[must_use]
pub fn interface_in(meta: &Bytes) -> Option<Box<str>> {
    let [ui, older] = members(meta, ["ui", "ui/resourceUri"]).ok()?;
    let named = ui.and_then(|ui| members(&ui, ["resourceUri"]).ok()).and_then(|[uri]| uri);
    Some(std::str::from_utf8(&text(&named.or(older)?)?).ok()?.into())
}

/// Compares items of the same kind, where all other fields follow from the definition, and from whether it was judged.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json && self.validity.reasons().len() == other.validity.reasons().len()
    }
}

impl Eq for Item {}

/// One of a server's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// In the order of the server.
    pub items: Vec<Item>,
    /// The list was cut at a limit, or at a repeated cursor.
    pub truncated: bool,
    /// How long it may be cached, if the server states it.
    pub cache_hint: Option<CacheHint>,
    /// For tools: the server is legacy and creates tasks for tool calls. Otherwise `taskSupport` of its tools has no meaning.
    pub makes_tasks: bool,
    /// What cannot be in the list, the first ones if there are many.
    pub unlisted: Vec<Unlisted>,
}

impl List {
    /// The keys that policy hides or whose definitions are left out as malformed, with reasons. A key that is listed several times is hidden if any of its definitions is hidden,
    /// because only the server knows which definition a call reaches.
    pub(crate) fn hidden<'a>(&'a self, kind: ListKind, policy: &'a Policy) -> HashMap<&'a str, Hidden<'a>> {
        let mut hidden = HashMap::new();
        for item in &self.items {
            let malformed = if item.validity.is_left_out() { Err(Hidden::Malformed) } else { Ok(()) };
            if let Err(why) = item.verdict(kind, policy).and(malformed) {
                hidden.entry(&*item.key).or_insert(why);
            }
        }
        hidden
    }

    /// The keys of tools that can only be called as tasks of a legacy server, so that only legacy agents can call them. If a key is
    /// listed several times, one such definition is enough.
    ///
    /// Source: MCP 2025-11-25, `basic/utilities/tasks`, "Tool-Level Negotiation".
    pub(crate) fn legacy_only(&self) -> HashSet<&str> {
        let tools = self.items.iter().filter(|tool| self.makes_tasks && tool.requires_task());
        tools.map(|tool| &*tool.key).collect()
    }

    /// Whether policy permits every definition of `key`, and none is left out. An unlisted item is checked by its key alone.
    pub(crate) fn permits(&self, kind: ListKind, policy: &Policy, key: &str) -> bool {
        let mut definitions = self.items.iter().filter(|item| *item.key == *key).peekable();
        if definitions.peek().is_none() {
            return policy.permits(kind, key, None);
        }
        definitions.all(|item| !item.validity.is_left_out() && item.verdict(kind, policy).is_ok())
    }

    /// How long a list that contains this one may be cached. `None` if this list is empty.
    pub(super) fn keep(&self) -> Option<CacheHint> {
        self.cache_hint.or_else(|| (!self.items.is_empty()).then(CacheHint::default))
    }
}

/// All lists of a server, as last received.
pub type Lists = PerKind<Arc<List>>;

/// Whether any list has items.
#[must_use]
pub fn offer_any(lists: &Lists) -> bool {
    lists.iter().any(|(_, list)| !list.items.is_empty())
}

/// The identity of interned lists: lists that exist at the same time have different identities.
pub type Identity = PerKind<usize>;

/// The identity of lists, without comparing their contents. All empty lists share one.
#[must_use]
pub fn identity(lists: &Lists) -> Identity {
    PerKind::from_fn(|kind| match &lists[kind] {
        list if list.items.is_empty() && !list.truncated => 0,
        list => Arc::as_ptr(list).addr(),
    })
}

/// Whether both are the same interned lists.
#[must_use]
pub fn is_same(one: &Lists, other: &Lists) -> bool {
    identity(one) == identity(other)
}

/// The combined cache hint of the lists of several servers. The default applies where no server sends a hint.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CacheHint {
    /// In milliseconds.
    pub ttl: u64,
}

/// Maximum in milliseconds. Servers do not know of other servers, of policy and of `mcpd disable`, so their own times can be too long.
/// Subscribed agents receive changes at once; others are up to date after a minute.
const MAX_TTL_MS: u64 = 60_000;

impl CacheHint {
    /// The hint of a result. `None` if it has none. A malformed hint forbids caching.
    #[must_use]
    pub fn read(result: &Bytes) -> Option<Self> {
        let [ttl, scope] = members(result, ["ttlMs", "cacheScope"]).ok()?;
        if ttl.is_none() && scope.is_none() {
            return None;
        }
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or(0);
        Some(Self { ttl })
    }

    /// The shorter of two hints.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl) }
    }

    /// The shortest of all hints, up to the maximum. Without hints, caching is forbidden.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).map(|all| all.and(Self { ttl: MAX_TTL_MS })).unwrap_or_default()
    }
}

/// 21 bytes are 5 tokens on average.
const BYTES: usize = 21;
const TOKENS: usize = 5;
/// Tokens that a client adds for each tool.
const OVERHEAD: usize = 4;

/// The cost of a tool in tokens. A client sends every listed tool to the model in each conversation.
///
/// The estimate is based on the bytes that clients send to the model: name, description and input schema. The factor was measured with
/// `o200k_base` and `cl100k_base` on 50 tools of five servers. The error is within 10 % for a server and 20 % for a single tool.
///
/// The tool has the listed `definition` and a name of `name` bytes.
#[must_use]
pub fn estimate_tokens(name: usize, definition: &Bytes) -> usize {
    tokens_of(name, sent_bytes(definition))
}

/// As [`estimate_tokens`], for a definition with known [`sent_bytes`].
#[must_use]
pub fn tokens_of(name: usize, sent_bytes: usize) -> usize {
    OVERHEAD + (name + sent_bytes) * TOKENS / BYTES
}

/// The bytes of a definition that clients send to the model, without the name.
#[must_use]
pub fn sent_bytes(definition: &Bytes) -> usize {
    let [description, schema] = members(definition, ["description", "inputSchema"]).unwrap_or_default();
    let description = description.and_then(|raw| text(&raw)).map_or(0, |text| text.len());
    description + schema.map_or(0, |raw| compact_len(&raw))
}

/// The length of JSON without white space between tokens, because clients reformat it.
fn compact_len(json: &[u8]) -> usize {
    let (mut length, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        length += usize::from(in_string || !byte.is_ascii_whitespace());
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_that_requires_a_task_is_found() {
        for (tool, expected) in [
            (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, true),
            (r#"{"name":"a","execution":{"taskSupport":"\u0072equired"}}"#, true),
            (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, false),
            (r#"{"name":"a","taskSupport":"required"}"#, false),
            (r#"{"name":"a","execution":"taskSupport"}"#, false),
            (r#"{"name":"a","execution":{"taskSupport":7}}"#, false),
            (r#"{"name":"a"}"#, false),
        ] {
            let json = Bytes::from_static(tool.as_bytes());
            let item = Item {
                key: "a".into(),
                raw_key: json.slice(8..11),
                json,
                model_bytes: 0,
                validity: Validity::default(),
                fingerprint: Fingerprint::default(),
            };
            for makes_tasks in [true, false] {
                let list = List { items: vec![item.clone()], makes_tasks, ..List::default() };
                assert_eq!(list.legacy_only().contains("a"), expected && makes_tasks, "{tool}");
            }
        }
    }

    #[test]
    fn result_states_its_cache_lifetime() {
        for (result, expected) in [
            ("{}", None),
            ("[]", None),
            (r#"{"ttlMs":7,"cacheScope":"public"}"#, Some(7)),
            (r#"{"ttlMs":7}"#, Some(7)),
            (r#"{"cacheScope":"public"}"#, Some(0)),
            (r#"{"ttlMs":-1,"cacheScope":"private"}"#, Some(0)),
            (r#"{"ttlMs":"long","cacheScope":7}"#, Some(0)),
        ] {
            let read = CacheHint::read(&Bytes::from_static(result.as_bytes()));
            assert_eq!(read, expected.map(|ttl| CacheHint { ttl }), "{result}");
        }
    }

    #[test]
    fn of_several_parts_the_shortest_time_holds_and_none_is_long() {
        let of_all = |parts: &[u64]| CacheHint::of_all(parts.iter().map(|ttl| CacheHint { ttl: *ttl })).ttl;
        assert_eq!([of_all(&[9, 3]), of_all(&[3, 9]), of_all(&[MAX_TTL_MS + 1, u64::MAX])], [3, 3, MAX_TTL_MS]);
        assert_eq!(CacheHint::of_all([]), CacheHint::default());
    }

    #[test]
    fn estimate_counts_only_what_clients_send() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
        for (definition, expected) in [
            (r#"{"name":"t"}"#.to_owned(), 4 + 10 * 5 / 21),
            (format!(r#"{{"name":"t","inputSchema":{schema}}}"#), 4 + (10 + schema.len()) * 5 / 21),
            (format!(r#"{{"inputSchema":{}}}"#, schema.replace(':', " :\t")), 4 + (10 + schema.len()) * 5 / 21),
            (format!(r#"{{"outputSchema":{schema},"annotations":{{}},"icons":[]}}"#), 4 + 10 * 5 / 21),
            (r#"{"description":"Zeigt \u00e4hnliches\nan"}"#.to_owned(), 4 + (10 + 19) * 5 / 21),
            ("[]".to_owned(), 4 + 10 * 5 / 21),
        ] {
            assert_eq!(estimate_tokens(10, &Bytes::from(definition.clone())), expected, "{definition}");
        }
    }

    #[test]
    fn white_space_in_strings_counts() {
        for (json, length) in [("{ }", 2), (r#"{ "a b" : "c\" d" }"#, 15), (r#"["\\" , " "]"#, 10), ("", 0)] {
            assert_eq!(compact_len(json.as_bytes()), length, "{json}");
        }
    }
}
