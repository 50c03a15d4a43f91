//! Edits of a line by replacing parts of it: members of an object of a parsed message are removed and inserted. All other bytes stay unchanged.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::members::{Key, NotAnObject, which};
use super::scan::Walk;

/// A part of a line and its replacement.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// A slice of the line.
    pub part: &'a [u8],
    /// Raw JSON.
    pub replacement: &'a [u8],
}

/// An owned [`Edit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// A slice of the line. An empty slice is an insertion point.
    pub part: Bytes,
    /// Raw JSON, or a fragment of it.
    pub replacement: Bytes,
}

impl Change {
    /// This change as an edit.
    #[must_use]
    pub fn edit(&self) -> Edit<'_> {
        Edit { part: &self.part, replacement: &self.replacement }
    }
}

/// `line` with each edit applied and a newline at its end. Edits can be in any order.
///
/// # Panics
/// If a part is not a slice of `line`, or two parts overlap.
#[must_use]
pub fn splice(line: &[u8], edits: &mut [Edit<'_>]) -> Bytes {
    let replaced: usize = edits.iter().map(|edit| edit.part.len()).sum();
    let added: usize = edits.iter().map(|edit| edit.replacement.len()).sum();
    // The exact capacity lets `Bytes` take the vector without a copy.
    let mut spliced = BytesMut::with_capacity(line.len() - replaced + added + 1);
    splice_into(&mut spliced, line, edits);
    spliced.put_u8(b'\n');
    spliced.freeze()
}

/// `text` with each change applied.
///
/// # Panics
/// As [`splice`].
#[must_use]
pub fn applied(text: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut out = BytesMut::with_capacity(text.len() + changes.iter().map(|c| c.replacement.len()).sum::<usize>());
    splice_into(&mut out, text, &mut changes.iter().map(Change::edit).collect::<Vec<_>>());
    out.into()
}

/// Appends `text` to `out` with each edit applied.
///
/// # Panics
/// If a part is not a slice of `text`, or two parts overlap.
pub fn splice_into(out: &mut BytesMut, text: &[u8], edits: &mut [Edit<'_>]) {
    // At the same offset, insertions come before replacements.
    edits.sort_unstable_by_key(|edit| (offset(text, edit.part), edit.part.len()));
    let mut copied = 0;
    for edit in edits {
        let start = offset(text, edit.part);
        out.put_slice(&text[copied..start]);
        out.put_slice(edit.replacement);
        copied = start + edit.part.len();
    }
    out.put_slice(&text[copied..]);
}

fn offset(line: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize)
}

/// Members to remove from an object.
#[derive(Debug)]
pub struct Cut<const N: usize> {
    /// Their raw values, in the order of the requested names.
    pub values: [Option<Bytes>; N],
    /// Whether the object has others.
    pub leaves_any: bool,
    /// The edits that remove them.
    pub changes: Vec<Change>,
}

/// Removes the members `names` of `object`.
///
/// # Errors
/// As for [`crate::jsonrpc::members::members`].
pub fn cut<const N: usize>(object: &Bytes, names: [&str; N]) -> Result<Cut<N>, NotAnObject> {
    let mut values = [const { None }; N];
    let (changes, leaves_any) = walk(object, &names, &mut values)?;
    Ok(Cut { values, leaves_any, changes })
}

/// Removes the members `names`, and the member `inner` of the member `outer`. Removes `outer` too if `inner` is its only member. Leaves
/// `outer` unchanged if it is not an object.
///
/// # Errors
/// As for [`crate::jsonrpc::members::members`].
pub fn cut_nested<const N: usize>(
    object: &Bytes,
    names: [&str; N],
    (outer, inner): (&str, &str),
) -> Result<Cut<N>, NotAnObject> {
    let with_outer: Vec<&str> = names.into_iter().chain([outer]).collect();
    let mut found = vec![None; N + 1];
    let (changes, leaves_any) = walk(object, &with_outer, &mut found)?;
    let outer = found.pop().flatten();
    let values = std::array::from_fn(|index| found[index].take());
    // Usually `inner` is the only member. Then one walk is enough.
    let nested = match outer.map(|outer| cut(&outer, [inner])) {
        None | Some(Ok(Cut { values: [Some(_)], leaves_any: false, .. })) => {
            return Ok(Cut { values, leaves_any, changes });
        }
        Some(nested) => nested.map(|nested| nested.changes).unwrap_or_default(),
    };
    let mut changes = without(object, &names)?;
    changes.extend(nested);
    Ok(Cut { values, leaves_any: true, changes })
}

/// The edits that remove the members `names`. They do not overlap.
///
/// # Errors
/// As for [`crate::jsonrpc::members::members`].
pub fn without(object: &Bytes, names: &[&str]) -> Result<Vec<Change>, NotAnObject> {
    walk(object, names, &mut vec![None; names.len()]).map(|(changes, _)| changes)
}

/// Removes the members `names`, and inserts `members` (such as `"a":1,"b":2`, or nothing) at the beginning.
///
/// # Errors
/// As for [`crate::jsonrpc::members::members`].
pub fn replace_members(object: &Bytes, names: &[&str], members: &str) -> Result<Vec<Change>, NotAnObject> {
    let (mut changes, leaves_any) = walk(object, names, &mut vec![None; names.len()])?;
    if !members.is_empty() {
        changes.push(opening(object, members, leaves_any));
    }
    Ok(changes)
}

/// Inserts `members`, such as `"a":1,"b":2`, at the beginning of a valid object.
#[must_use]
pub fn with_first(object: &Bytes, members: &str) -> Change {
    let has_any = object.iter().filter(|byte| !byte.is_ascii_whitespace()).nth(1) != Some(&b'}');
    opening(object, members, has_any)
}

/// Appends `members`, or nothing, to a valid object that has members.
#[must_use]
pub fn with_last(object: &Bytes, members: &str) -> Change {
    let brace = memchr::memrchr(b'}', object).map_or(0..0, |at| at..at + 1);
    let comma = if members.is_empty() { "" } else { "," };
    Change { part: object.slice(brace), replacement: format!("{comma}{members}}}").into() }
}

/// Replaces the brace instead of inserting text after it, because the place of an edit of an empty range is ambiguous.
fn opening(object: &Bytes, members: &str, has_any: bool) -> Change {
    let brace = memchr::memchr(b'{', object).map_or(0..0, |at| at..at + 1);
    let comma = if has_any { "," } else { "" };
    Change { part: object.slice(brace), replacement: format!("{{{members}{comma}").into() }
}

/// The edits, and whether members are left.
fn walk(object: &Bytes, names: &[&str], values: &mut [Option<Bytes>]) -> Result<(Vec<Change>, bool), NotAnObject> {
    let mut walk = Walk::object(object).accepted();
    let (mut changes, mut leaves_any) = (Vec::new(), false);
    // The start of a run of removed members, and the end of the last member.
    let (mut from, mut end) = (None, 0);
    while let Some(member) = walk.next()? {
        let start = within(object, member.key).start;
        match which(member.key, names) {
            Key::Other => {
                if let Some(from) = from.take() {
                    // Includes the comma after them, if no member before them is left.
                    let comma = memchr::memchr(b',', &object[end..start]).filter(|_| !leaves_any);
                    changes.push(leave_out(object, from..comma.map_or(end, |at| end + at + 1)));
                }
                leaves_any = true;
            }
            Key::Match(index) if values[index].is_none() => {
                values[index] = Some(object.slice_ref(member.value));
                from.get_or_insert(if leaves_any { end } else { start });
            }
            Key::Match(_) | Key::Lookalike(_) => return Err(NotAnObject),
        }
        end = within(object, member.value).end;
    }
    walk.end()?;
    changes.extend(from.map(|from| leave_out(object, from..end)));
    Ok((changes, leaves_any))
}

fn within(object: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - object.as_ptr() as usize;
    start..start + part.len()
}

fn leave_out(object: &Bytes, range: Range<usize>) -> Change {
    Change { part: object.slice(range), replacement: Bytes::new() }
}

#[cfg(test)]
mod tests;
