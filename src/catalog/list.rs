//! The lists of a server, as received.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::CacheHint;
use crate::jsonrpc::members::{members, text};
use crate::list_kind::{ListKind, PerKind};
use crate::policy::{Hidden, Policy};

/// One listed item, as its server defined it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name on the server, or its URI.
    pub key: Arc<str>,
    /// The key as raw JSON: a slice of `json`.
    pub raw_key: Bytes,
    /// The whole object, raw.
    pub json: Bytes,
    /// Bytes of a tool that clients pass to a model beside its name ([`crate::token_estimate`]); 0 for other kinds.
    pub model_bytes: usize,
}

impl Item {
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

/// Compares items of the same kind, where all other fields follow from the definition.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
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
}

impl List {
    /// The keys that policy hides, with reasons. A key that is listed several times is hidden if any of its definitions is hidden,
    /// because only the server knows which definition a call reaches.
    pub(crate) fn hidden<'a>(&'a self, kind: ListKind, policy: &'a Policy) -> HashMap<&'a str, Hidden<'a>> {
        let mut hidden = HashMap::new();
        for item in &self.items {
            if let Err(why) = policy.verdict(kind, &item.key, Some(&item.json)) {
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

    /// Whether policy permits every definition of `key`. An unlisted item is checked by its key alone.
    pub(crate) fn permits(&self, kind: ListKind, policy: &Policy, key: &str) -> bool {
        let mut definitions = self.items.iter().filter(|item| *item.key == *key).map(|item| &item.json).peekable();
        if definitions.peek().is_none() {
            return policy.permits(kind, key, None);
        }
        definitions.all(|definition| policy.permits(kind, key, Some(definition)))
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
            let item = Item { key: "a".into(), raw_key: json.slice(8..11), json, model_bytes: 0 };
            for makes_tasks in [true, false] {
                let list = List { items: vec![item.clone()], makes_tasks, ..List::default() };
                assert_eq!(list.legacy_only().contains("a"), expected && makes_tasks, "{tool}");
            }
        }
    }
}
