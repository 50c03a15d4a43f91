//! Leaving members of an object out and putting others in, as changes of its text: every other member keeps its bytes.

use std::ops::Range;

use bytes::Bytes;

use super::members::{Key, NotAnObject, which};
use super::scan::Walk;
use super::splice::Change;

/// Members to be left out of an object.
#[derive(Debug)]
pub struct Cut<const N: usize> {
    /// Their raw values, in the order of the names that were asked for.
    pub values: [Option<Bytes>; N],
    /// Whether the object has others.
    pub leaves_any: bool,
    /// What leaves them out.
    pub changes: Vec<Change>,
}

/// Leaves the members `names` out of `object`.
///
/// # Errors
/// As for [`super::members::members`].
pub fn cut<const N: usize>(object: &Bytes, names: [&str; N]) -> Result<Cut<N>, NotAnObject> {
    let mut values = [const { None }; N];
    let (changes, leaves_any) = walk(object, &names, &mut values)?;
    Ok(Cut { values, leaves_any, changes })
}

/// Leaves out the members `names`, and the member `inner` of the member `outer`. `outer` is left out as well if it has no other
/// member than `inner`; it stays as it is if it is no object.
///
/// # Errors
/// As for [`super::members::members`].
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
    // Usually there is nothing else in it: then one walk is enough.
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

/// The changes alone, which do not overlap.
///
/// # Errors
/// As for [`super::members::members`].
pub fn without(object: &Bytes, names: &[&str]) -> Result<Vec<Change>, NotAnObject> {
    walk(object, names, &mut vec![None; names.len()]).map(|(changes, _)| changes)
}

/// Leaves the members `names` out, and puts `members`, such as `"a":1,"b":2` or nothing, first.
///
/// # Errors
/// As for [`super::members::members`].
pub fn replace_members(object: &Bytes, names: &[&str], members: &str) -> Result<Vec<Change>, NotAnObject> {
    let (mut changes, leaves_any) = walk(object, names, &mut vec![None; names.len()])?;
    if !members.is_empty() {
        changes.push(opening(object, members, leaves_any));
    }
    Ok(changes)
}

/// The keys of the members `names`, as they are spelled in their quotes, for who calls them something else.
///
/// # Errors
/// As for [`super::members::members`].
pub fn keys<const N: usize>(object: &Bytes, names: [&str; N]) -> Result<[Option<Bytes>; N], NotAnObject> {
    let mut keys = [const { None }; N];
    let mut walk = Walk::object(object);
    while let Some(member) = walk.next()? {
        match which(member.key, &names) {
            Key::Other => {}
            Key::Match(index) if keys[index].is_none() => keys[index] = Some(object.slice_ref(member.key)),
            Key::Match(_) | Key::Lookalike => return Err(NotAnObject),
        }
    }
    walk.end()?;
    Ok(keys)
}

/// Puts `members`, such as `"a":1,"b":2`, at the beginning of what is known to be an object.
#[must_use]
pub fn with_first(object: &Bytes, members: &str) -> Change {
    let has_any = object.iter().filter(|byte| !byte.is_ascii_whitespace()).nth(1) != Some(&b'}');
    opening(object, members, has_any)
}

/// Puts `members`, or nothing, at the end of what is known to be an object with members.
#[must_use]
pub fn with_last(object: &Bytes, members: &str) -> Change {
    let brace = memchr::memrchr(b'}', object).map_or(0..0, |at| at..at + 1);
    let comma = if members.is_empty() { "" } else { "," };
    Change { part: object.slice(brace), replacement: format!("{comma}{members}}}").into() }
}

/// The brace is replaced, rather than something put behind it: where nothing stands, the place of an edit is ambiguous.
fn opening(object: &Bytes, members: &str, has_any: bool) -> Change {
    let brace = memchr::memchr(b'{', object).map_or(0..0, |at| at..at + 1);
    let comma = if has_any { "," } else { "" };
    Change { part: object.slice(brace), replacement: format!("{{{members}{comma}").into() }
}

/// The changes, and whether members are left.
fn walk(object: &Bytes, names: &[&str], values: &mut [Option<Bytes>]) -> Result<(Vec<Change>, bool), NotAnObject> {
    let mut walk = Walk::object(object);
    let (mut changes, mut leaves_any) = (Vec::new(), false);
    // Where members that follow each other begin to be cut, and where the last member has ended.
    let (mut from, mut end) = (None, 0);
    while let Some(member) = walk.next()? {
        let start = within(object, member.key).start;
        match which(member.key, names) {
            Key::Other => {
                if let Some(from) = from.take() {
                    // With the comma behind them, if no member before them is left.
                    let comma = memchr::memchr(b',', &object[end..start]).filter(|_| !leaves_any);
                    changes.push(leave_out(object, from..comma.map_or(end, |at| end + at + 1)));
                }
                leaves_any = true;
            }
            Key::Match(index) if values[index].is_none() => {
                values[index] = Some(object.slice_ref(member.value));
                from.get_or_insert(if leaves_any { end } else { start });
            }
            Key::Match(_) | Key::Lookalike => return Err(NotAnObject),
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
