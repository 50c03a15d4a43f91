//! Decides what can be printed of a text that does not parse, where the ends of secrets are unknown.

use std::ops::Range;

use super::secret::is_secret_value;

/// Maximum length of a printed key.
const MAX_KEY_LEN: usize = 64;
/// The beginnings of table headers.
const TABLES: [&str; 5] = ["daemon", "defaults", "mcp_servers", "profiles", "servers"];

/// The number of bytes at the start of a line that can be printed: a key with its `=` or `:` and the brackets and quotes after it, or
/// a table header.
pub(super) fn shown(text: &str, line: &Range<usize>) -> usize {
    // A multi-line string contains no keys.
    if ["\"\"\"", "'''"].iter().any(|quotes| text[..line.start].matches(quotes).count() % 2 == 1) {
        return 0;
    }
    let whole = &text[line.clone()];
    let rest = whole.trim_start_matches([' ', '\t', '{', ',', '[']);
    let length = if whole.trim_start().starts_with('[') { header(rest) } else { key(rest) };
    whole.len() - rest.len() + length
}

/// A key for messages.
pub(super) fn named(key: &str) -> String {
    if is_plain(key) { format!("`{key}`") } else { "a key".to_owned() }
}

fn header(text: &str) -> usize {
    let end = text.find(|c| !is_plain_char(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    if !TABLES.contains(&name.split('.').next().unwrap_or_default()) || !name.split('.').all(is_plain) {
        return 0;
    }
    end + behind.len() - behind.trim_start_matches(']').len()
}

fn key(text: &str) -> usize {
    let (key, behind) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap_or_default(),
        None => text.split_at(text.find(|c| !is_plain_char(c)).unwrap_or(text.len())),
    };
    let value = behind.trim_start().strip_prefix(['=', ':']).filter(|_| is_plain(key));
    // Brackets and quotes that begin a value are not part of a secret.
    value.map_or(0, |value| text.len() - value.trim_start_matches([' ', '\t', '[', '{', '"', '\'']).len())
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY_LEN && key.chars().all(is_plain_char) && !is_secret_value(key)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}
