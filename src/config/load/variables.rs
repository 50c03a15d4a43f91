//! `MCPD_…` environment variables: keys of `[daemon]` and `[defaults]`, as the top layers.
//!
//! The `config` crate reads all variables as one source: prefix, nesting, types and lists. Its values have no place, so each becomes a layer
//! of its own that names its variable.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ::config::{Environment, Source, ValueKind};

use super::super::diagnostic::{Medium, SourceFile};
use super::super::interpolate::Sources;
use super::super::layer::Layer;
use super::super::read::{LISTS, Problems, read_variable};
use super::super::tree::{Node, Value};

const PREFIX: &str = "MCPD";
/// Separates a table from its key, as `.` does in TOML.
const NESTING: &str = "__";

/// Reads each variable as a layer, in the order of their keys. Ignores empty variables.
pub(super) fn variables(sources: &dyn Sources) -> Vec<(Arc<SourceFile>, Layer, Problems)> {
    let mut all = sources.variables(&format!("{PREFIX}_"));
    // The crate compares names without case, and a dot in a name would look like nesting.
    all.retain(|(name, _)| !name.contains('.'));
    all.sort_unstable();
    let mut by_key: BTreeMap<_, _> = all.into_iter().map(|variable| (key(&variable.0), variable)).collect();
    let environment = Environment::with_prefix(PREFIX)
        .prefix_separator("_")
        .separator(NESTING)
        .ignore_empty(true)
        .try_parsing(true)
        .list_separator(",")
        .source(Some(by_key.values().cloned().collect()));
    let environment = LISTS.iter().fold(environment, |environment, list| environment.with_list_parse_key(list));
    let values: BTreeMap<_, _> = environment.collect().unwrap_or_default().into_iter().collect();
    let read = |(key, value): (String, ::config::Value)| {
        let (name, text) = by_key.remove(&key)?;
        let value = node(value.kind, &text);
        let file = Arc::new(SourceFile {
            path: name.into(),
            text,
            medium: Medium::Variable,
            hidden: Vec::new(),
            broken: false,
        });
        let (layer, problems) = read_variable(key, value, &file, sources);
        Some((file, layer, problems))
    };
    values.into_iter().filter_map(read).collect()
}

/// The key that the crate gives to the variable `name`.
fn key(name: &str) -> String {
    name[PREFIX.len() + 1..].to_lowercase().replace(NESTING, ".")
}

/// A value with the type that its text looks like. Its place is the whole variable.
fn node(kind: ValueKind, text: &str) -> Node {
    let span: Range<usize> = 0..text.len();
    let string = |text: &str| Value::String(text.to_owned());
    let value = match kind {
        ValueKind::Boolean(truth) => Value::Bool(truth),
        ValueKind::I64(number) => Value::Integer(number),
        ValueKind::Float(_) => Value::Float,
        ValueKind::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(|item| item.into_string().ok()).collect();
            let items = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Node { span: span.clone(), value: string(item) }).collect())
        }
        _ => string(text),
    };
    Node { span, value }
}
