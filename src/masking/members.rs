//! Values of JSON that are secrets by the names of their members. Pure.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::views::View;
use crate::config::secret::{is_secret, is_secret_name};

/// A member of MCP that is named like a secret, but is not one.
const PROGRESS_TOKEN: &str = "progressToken";
/// How deep JSON in strings of JSON is read.
const MAX_DEPTH: usize = 3;

pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// An array or object that is being read.
#[derive(Default)]
struct Level {
    is_object: bool,
    /// The member that is being read. In an array, the member that has the array.
    name: Option<String>,
    /// After the colon.
    is_value: bool,
    /// The members of an entry of a list of variables or headers.
    entry: (Option<String>, Option<Found>),
}

/// A string or another value that is neither array nor object.
struct Found {
    /// Without quotes.
    range: Range<usize>,
    value: String,
}

/// The secrets of a JSON text or fragment, without quotes: texts and numbers of members that are named like secrets, also in arrays. In an object
/// whose `name` or `key` is such a name, `value` is a secret. JSON in strings is read, too.
pub(super) fn secrets(text: &[u8]) -> Vec<Range<usize>> {
    secrets_at(text, MAX_DEPTH)
}

fn secrets_at(text: &[u8], depth: usize) -> Vec<Range<usize>> {
    let (mut secrets, mut levels, mut at) = (Vec::new(), vec![Level::default()], 0);
    while let Some(byte) = text.get(at) {
        let from = at;
        at += 1;
        let depth_in_text = levels.len();
        let Some(level) = levels.last_mut() else { break };
        match byte {
            b'{' => levels.push(Level { is_object: true, ..Level::default() }),
            b'[' => {
                let name = level.name.clone();
                levels.push(Level { name, ..Level::default() });
            }
            // Of a fragment.
            b'}' | b']' if depth_in_text == 1 => {}
            b'}' | b']' => {
                if let Some(Level { entry: (Some(name), Some(found)), .. }) = levels.pop()
                    && is_secret_member(&name, &found.value)
                {
                    secrets.push(found.range);
                }
            }
            b':' => level.is_value = true,
            b',' => level.is_value = false,
            byte if byte.is_ascii_whitespace() => {}
            b'"' => {
                let range = string_at(text, from);
                at = range.end + 1;
                let view = View::unescaped(&text[range.clone()]);
                let is_value = level.is_value || !level.is_object;
                let may_nest = matches!(view.text.trim_ascii_start().first(), Some(b'{' | b'['));
                if is_value && depth > 0 && may_nest && is_json(&view.text) {
                    let inner = secrets_at(&view.text, depth - 1);
                    let place = |found: &Range<usize>| view.place(found);
                    secrets.extend(inner.iter().map(place).map(|it| range.start + it.start..range.start + it.end));
                }
                let value = String::from_utf8_lossy(&view.text).into_owned();
                if is_value { level.read(Found { range, value }, true, &mut secrets) } else { level.name = Some(value) }
            }
            _ => {
                let rest = text[at..].iter().position(|byte| b",:[]{} \t\r\n\"".contains(byte));
                at = rest.map_or(text.len(), |len| at + len);
                let value = String::from_utf8_lossy(&text[from..at]).into_owned();
                level.read(Found { range: from..at, value }, false, &mut secrets);
            }
        }
    }
    secrets
}

impl Level {
    fn read(&mut self, found: Found, is_text: bool, secrets: &mut Vec<Range<usize>>) {
        let Some(name) = self.name.as_deref() else { return };
        if is_secret_member(name, &found.value) {
            secrets.push(found.range);
        } else if self.is_object && is_text && matches!(name, "name" | "key") {
            self.entry.0 = Some(found.value);
        } else if self.is_object && name == "value" {
            self.entry.1 = Some(found);
        }
    }
}

/// The string that begins with the quote at `from`, without its quotes. One without an end takes the rest.
pub(super) fn string_at(text: &[u8], from: usize) -> Range<usize> {
    let mut at = from + 1;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next;
        if text[at] == b'"' {
            return from + 1..at;
        }
        at += 2;
    }
    from + 1..text.len()
}

fn is_secret_member(name: &str, value: &str) -> bool {
    name != PROGRESS_TOKEN && is_secret_name(name) && is_secret(name, value)
}
