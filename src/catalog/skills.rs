//! Skills: which URIs belong to one, and which parts of an entry policy permits. Pure.
//!
//! Source: the skills extension (SEP-2640), "Resource Mapping", "Skill Entries", "Reading Directories".

use bytes::Bytes;

use crate::jsonrpc::members::{elements, members, text};
use crate::jsonrpc::splice::{Change, applied, splice};
use crate::list_kind::ListKind;
use crate::policy::Policy;

/// Maximum number of files of a skill or directory. The extension requires support for 512 files of a skill.
const MAX_FILES: usize = 10_000;

/// The directory of the skill whose `SKILL.md` has this URI.
pub(super) fn directory(skill: &str) -> &str {
    skill.strip_suffix("/SKILL.md").unwrap_or(skill)
}

/// The URI and those of the directories that contain it, the innermost first. A skill in one of them may have this URI.
pub(super) fn directories(uri: &str) -> impl Iterator<Item = &str> {
    let path = uri.find("://").map_or(0, |scheme| scheme + "://".len());
    let ends = uri[path..].rmatch_indices('/').map(move |(end, _)| path + end);
    std::iter::once(uri).chain(ends.map(|end| &uri[..end]))
}

/// An entry of `skills/list` without the files that policy hides. `None` if policy hides the skill, or the entry cannot be filtered.
pub(super) fn visible_entry(entry: &Bytes, policy: &Policy) -> Option<Bytes> {
    if !policy.narrows_skills() {
        return Some(entry.clone());
    }
    Some(applied(entry, &hidden_parts(entry, policy)?).into())
}

/// The response line to a request about a skill, without the files that policy hides. `None` if it has a skill that policy hides, or
/// cannot be filtered.
#[must_use]
pub fn visible_response(line: &Bytes, policy: &Policy) -> Option<Bytes> {
    if !policy.narrows_skills() {
        return Some(line.clone());
    }
    let whole = line.slice(..line.len().saturating_sub(1));
    let [result] = members(&whole, ["result"]).ok()?;
    let changes = hidden_parts(&result?, policy)?;
    Some(splice(&whole, &mut changes.iter().map(Change::edit).collect::<Vec<_>>()))
}

/// The edits that remove the `resources` of an object whose URIs policy hides. `None` if it hides the object's own URI, or a part has
/// another form. The extension also permits a text instead of `resources`.
fn hidden_parts(object: &Bytes, policy: &Policy) -> Option<Vec<Change>> {
    let [uri, skill, resources] = members(object, ["uri", "skill", "resources"]).ok()?;
    let is_permitted = |raw: &Bytes| {
        text(raw)
            .is_some_and(|uri| std::str::from_utf8(&uri).is_ok_and(|uri| policy.permits(ListKind::Skills, uri, None)))
    };
    if uri.is_some_and(|uri| !is_permitted(&uri)) {
        return None;
    }
    let mut changes = skill.map_or_else(|| Some(Vec::new()), |skill| hidden_parts(&skill, policy))?;
    if let Some(part) = resources.filter(|part| !part.starts_with(b"\"")) {
        let all = elements(&part, MAX_FILES)?;
        let is_visible = |file: &&Bytes| matches!(members(file, ["uri"]), Ok([Some(uri)]) if is_permitted(&uri));
        let visible: Vec<_> = all.iter().filter(is_visible).cloned().collect();
        if visible.len() < all.len() {
            changes.push(Change { part, replacement: [&b"["[..], &visible.join(&b','), b"]"].concat().into() });
        }
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pattern;

    #[test]
    fn file_belongs_to_its_directories_and_the_innermost_comes_first() {
        for (uri, expected) in [
            ("skill://git", &["skill://git"][..]),
            ("skill://git/a/b.md", &["skill://git/a/b.md", "skill://git/a", "skill://git"]),
            ("skill:///SKILL.md", &["skill:///SKILL.md", "skill://"]),
            ("urn:git/SKILL.md", &["urn:git/SKILL.md", "urn:git"]),
            ("git", &["git"]),
        ] {
            assert_eq!(directories(uri).collect::<Vec<_>>(), expected);
        }
        assert_eq!((directory("skill://git/SKILL.md"), directory("skill://git")), ("skill://git", "skill://git"));
    }

    #[test]
    fn denied_files_are_cut_out_and_other_bytes_stay() {
        let deny = [pattern("skill://payroll").expect("a glob")];
        let policy = Policy::default().with(ListKind::Skills, None, &deny).expect("a policy");
        let visible = |object: &'static str| {
            let entry = visible_entry(&Bytes::from_static(object.as_bytes()), &policy)?;
            Some(String::from_utf8(entry.to_vec()).expect("text"))
        };
        for unchanged in [
            r#"{ "resources" : [ {"uri":"skill://a"} ] ,"n":1.50}"#,
            r#"{"uri":"skill://a/SKILL.md","resources":"dynamic"}"#,
        ] {
            assert_eq!(visible(unchanged).as_deref(), Some(unchanged));
        }
        assert_eq!(
            visible(
                r#"{"skill":{"uri":"skill://a","resources":[{"uri":"skill://a"},{"uri":"skill://payroll/x"},{"u":1}], "n":1.50}}"#
            ),
            Some(r#"{"skill":{"uri":"skill://a","resources":[{"uri":"skill://a"}], "n":1.50}}"#.to_owned())
        );
        for unreadable in [
            r#"{"skill":{"uri":"skill://payroll"}}"#,
            r#"{"resources":{"uri":"skill://a"}}"#,
            r#"{"resources":[],"Resources":[]}"#,
            r#"{"skill":[]}"#,
        ] {
            assert_eq!(visible(unreadable), None, "{unreadable}");
        }
    }
}
