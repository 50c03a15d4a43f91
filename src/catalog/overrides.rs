//! A server's tools as overrides of the configuration change them, and overrides that have no effect or a bad one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::list::{Item, List, sent_bytes};
use crate::jsonrpc::members::members;
use crate::list_kind::ListKind;
use crate::pins::Fingerprint;
use crate::tool_overrides::{ToolOverride, ToolOverrides};
use crate::validity::Validity;

impl Item {
    /// This tool with the definition that agents see. Its key stays.
    pub(crate) fn overridden(&self, of_tool: &ToolOverride) -> Self {
        let json = of_tool.definition(&self.json);
        match members(&json, [ListKind::Tools.key()]) {
            Ok([Some(raw_key)]) if json != self.json => {
                // Definitions are not judged with `malformed = "pass"`, and one without defects gets none.
                let is_judged = !self.validity.reasons().is_empty();
                let validity = if is_judged { Validity::of_item(ListKind::Tools, &json) } else { Validity::default() };
                let (key, model_bytes, fingerprint) =
                    (Arc::clone(&self.key), sent_bytes(&json), Fingerprint::default());
                Self { key, raw_key, json, model_bytes, validity, fingerprint }
            }
            _ => self.clone(),
        }
    }
}

/// A list as agents see it, before policy.
pub(super) struct ShownList<'a> {
    items: &'a [Item],
    /// Changed items, by their positions.
    changed: HashMap<usize, Item>,
    /// The keys of tools that are not listed, because another tool has their name.
    left_out: HashSet<&'a str>,
    overrides: Option<&'a ToolOverrides>,
}

impl<'a> ShownList<'a> {
    pub(super) fn of(kind: ListKind, list: &'a List, overrides: &'a ToolOverrides) -> Self {
        let items = &list.items[..];
        let overrides = Some(overrides).filter(|overrides| kind == ListKind::Tools && !overrides.is_empty());
        let Some(known) = overrides else {
            return Self { items, changed: HashMap::new(), left_out: HashSet::new(), overrides };
        };
        let overridden = |(index, item): (usize, &Item)| Some((index, item.overridden(known.get(&item.key)?)));
        let changed = items.iter().enumerate().filter_map(overridden).collect();
        Self { items, changed, left_out: left_out(list, known), overrides }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().enumerate().map(|(index, item)| self.changed.get(&index).unwrap_or(item))
    }

    /// The name of an item before server and prefix are added.
    pub(super) fn name<'s>(&'s self, key: &'s str) -> &'s str {
        self.overrides.map_or(key, |overrides| overrides.shown_name(key))
    }

    pub(super) fn is_left_out(&self, key: &str) -> bool {
        self.left_out.contains(key)
    }

    pub(super) fn override_of(&self, key: &str) -> Option<Arc<ToolOverride>> {
        self.overrides?.get(key).cloned()
    }
}

/// The renamed tools whose name another tool of the list has: its own name, or one that an earlier tool was given.
fn left_out<'a>(list: &'a List, overrides: &'a ToolOverrides) -> HashSet<&'a str> {
    let keys: Vec<&str> = list.items.iter().map(|item| &*item.key).collect();
    let is_renamed = |key: &&&str| overrides.shown_name(key) != **key;
    let mut taken: HashSet<&str> = keys.iter().filter(|key| !is_renamed(key)).copied().collect();
    let (mut seen, mut left_out) = (HashSet::new(), HashSet::new());
    for key in keys.iter().filter(is_renamed).filter(|key| seen.insert(**key)) {
        if !taken.insert(overrides.shown_name(key)) {
            left_out.insert(*key);
        }
    }
    left_out
}

/// Why an override does not do what it says, as far as the list of the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideDefect<'a> {
    /// The server does not list the tool.
    Unlisted,
    /// Agents do not see the tool, because another one has this name.
    NameTaken(&'a str),
    /// Each call fails, because the server requires this hidden argument.
    MissingArgument(&'a str),
}

/// The defects of overrides, each with the server's own name of its tool.
pub fn override_defects<'a>(
    list: &'a List,
    overrides: &'a ToolOverrides,
) -> impl Iterator<Item = (&'a str, OverrideDefect<'a>)> {
    let left_out = if overrides.is_empty() { HashSet::new() } else { left_out(list, overrides) };
    // An incomplete list, or none, shows nothing about its other tools.
    let is_complete = !list.truncated && !list.items.is_empty();
    overrides.iter().filter_map(move |(tool, of_tool)| {
        let defect = match list.items.iter().find(|item| item.key == *tool) {
            None if is_complete => OverrideDefect::Unlisted,
            None => return None,
            Some(_) if left_out.contains(&**tool) => OverrideDefect::NameTaken(overrides.shown_name(tool)),
            Some(item) => OverrideDefect::MissingArgument(of_tool.missing_argument(&item.json)?),
        };
        Some((&**tool, defect))
    })
}
