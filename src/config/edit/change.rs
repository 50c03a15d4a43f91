//! Changes of single keys of a server.

use toml_edit::{Array, DocumentMut, Item, RawString, TableLike, Value};

/// The table of the server `name`.
pub(super) fn table<'d>(document: &'d mut DocumentMut, name: &str) -> Option<&'d mut dyn TableLike> {
    document.get_mut("servers")?.as_table_like_mut()?.get_mut(name)?.as_table_like_mut()
}

pub(super) fn set_enabled(server: &mut dyn TableLike, enabled: bool) {
    const KEY: &str = "enabled";
    let has_comment = server.get_key_value(KEY).is_some_and(|(key, item)| {
        let mut decors = [Some(key.leaf_decor()), item.as_value().map(Value::decor)].into_iter().flatten();
        decors.any(|decor| [decor.prefix(), decor.suffix()].into_iter().any(|side| text(side).contains('#')))
    });
    if enabled && !has_comment {
        server.remove(KEY);
        return;
    }
    match server.get_mut(KEY).and_then(Item::as_value_mut) {
        Some(value) => {
            let decor = value.decor().clone();
            *value = enabled.into();
            *value.decor_mut() = decor;
        }
        None => drop(server.insert(KEY, Item::Value(enabled.into()))),
    }
}

pub(super) fn set_denied(server: &mut dyn TableLike, tool: &str, denied: bool) {
    const KEY: &str = "deny";
    let pattern = globset::escape(tool);
    if denied && !server.contains_key(KEY) {
        server.insert(KEY, Item::Value(Array::new().into()));
    }
    let Some(patterns) = server.get_mut(KEY).and_then(Item::as_array_mut) else { return };
    let found = patterns.iter().position(|value| value.as_str() == Some(&pattern));
    match (denied, found) {
        (true, None) => push(patterns, &pattern),
        (false, Some(index)) => {
            let removed = patterns.remove(index);
            if index == 0
                && let Some(next) = patterns.get_mut(0)
                && !text(next.decor().prefix()).contains('#')
            {
                next.decor_mut().set_prefix(text(removed.decor().prefix()));
            }
            let suffix = text(removed.decor().suffix());
            if index == patterns.len()
                && let Some(last) = index.checked_sub(1).and_then(|last| patterns.get_mut(last))
                && text(last.decor().suffix()).is_empty()
            {
                last.decor_mut().set_suffix(suffix);
            }
            if patterns.is_empty() {
                server.remove(KEY);
            }
        }
        _ => {}
    }
}

/// The white space and comments on one side of a value.
fn text(decor: Option<&RawString>) -> String {
    decor.and_then(|text| text.as_str()).unwrap_or_default().to_owned()
}

/// Appends `item` in the layout of the last item.
fn push(items: &mut Array, item: &str) {
    let index = items.len();
    items.push(item);
    let Some(last) = index.checked_sub(1).and_then(|last| items.get_mut(last)) else { return };
    let (prefix, suffix) = (text(last.decor().prefix()), text(last.decor().suffix()));
    let is_comment = suffix.contains('#');
    if !is_comment {
        last.decor_mut().set_suffix("");
    }
    if let Some(added) = items.get_mut(index) {
        if let Some((_, indent)) = prefix.rsplit_once('\n') {
            added.decor_mut().set_prefix(format!("\n{indent}"));
        }
        if !is_comment {
            added.decor_mut().set_suffix(suffix);
        }
    }
}
