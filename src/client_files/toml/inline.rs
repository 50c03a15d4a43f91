//! Inline tables. Those with comments or line ends in them are not edited.

use std::ops::Range;

use super::super::layout::Splice;
use super::super::{Cut, EditError, Gap, Mark, Part};
use super::statements::{Member, Place, statements};

/// An inline table, from brace to brace.
pub(super) struct Inline<'d> {
    text: &'d str,
    range: Range<usize>,
    members: &'d [Member],
}

/// Whether `text` can stand in an inline table.
pub(super) fn is_member(text: &str) -> bool {
    !text.contains(['#', '\n']) && statements(text).is_some_and(|statements| statements.len() == 1)
}

impl<'d> Inline<'d> {
    /// The inline table at a path below a value.
    pub(super) fn below(text: &'d str, place: &'d Place, path: &[&str]) -> Option<Self> {
        let members = place.members.as_deref()?;
        if path.is_empty() {
            return Some(Self { text, range: place.range.clone(), members });
        }
        let is_above = |member: &&Member| {
            member.path.len() <= path.len() && member.path.iter().zip(path).all(|(one, other)| one == other)
        };
        members.iter().filter(is_above).find_map(|it| Self::below(text, &it.value, &path[it.path.len()..]))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.path == [name])
    }

    pub(super) fn member(&self, name: &str) -> Option<&'d Member> {
        self.members.get(self.index(name)?)
    }

    /// Where the inside begins and ends.
    fn inside(&self) -> Range<usize> {
        self.range.start + 1..self.range.end - 1
    }

    /// Where the part before a member ends, and that behind it begins.
    fn around(&self, at: usize) -> Range<usize> {
        let inside = self.inside();
        let start = at.checked_sub(1).map_or(inside.start, |before| self.members[before].value.range.end);
        start..self.members.get(at + 1).map_or(inside.end, |next| next.start)
    }

    fn check(&self) -> Result<(), EditError> {
        let ends = self.members.iter().map(|member| member.value.range.end);
        let starts = self.members.iter().map(|member| member.start).chain([self.range.end - 1]);
        let mut gaps = [self.range.start + 1].into_iter().chain(ends).zip(starts);
        match gaps.all(|(end, start)| self.text[end..start].trim_matches([' ', '\t', ',']).is_empty()) {
            true => Ok(()),
            false => Err(EditError::Unsupported("its inline table has comments or line ends")),
        }
    }

    /// Adds `key = value` behind the last member.
    pub(super) fn append(&self, source: &str) -> Result<Vec<Splice>, EditError> {
        self.check()?;
        Ok(vec![match self.members.last() {
            Some(last) => Splice::at(last.value.range.end, format!(", {source}")),
            None => Splice::new(self.inside(), format!(" {source} ")),
        }])
    }

    /// `table` is the path of this table.
    pub(super) fn remove(&self, table: &[&str], name: &str) -> Result<Cut, EditError> {
        self.check()?;
        let at = self.index(name).ok_or(EditError::Unsupported("its keys are parts of an inline table"))?;
        let (member, around) = (&self.members[at], self.around(at));
        let kept = match (at > 0, self.members.get(at + 1)) {
            (false, Some(_)) => around.start..member.start,
            _ => member.value.range.end..around.end,
        };
        let mark = |at: usize| self.members.get(at).map(|member| [&[",".to_owned()], &member.path[..]].concat());
        let gap = Gap {
            previous: Some(at.checked_sub(1).and_then(mark).unwrap_or_else(|| vec!["{".to_owned()])),
            next: Some(mark(at + 1).unwrap_or_else(|| vec!["}".to_owned()])),
            with: self.text[around.clone()].to_owned(),
            without: self.text[kept].to_owned(),
        };
        let section = table.iter().map(|&key| key.to_owned()).collect();
        let part = Part { section, text: self.text[member.range()].to_owned() };
        Ok(Cut { parts: vec![part], gaps: vec![(gap, around)] })
    }

    /// The gap between two members that stand side by side.
    pub(super) fn between(&self, previous: &Mark, next: &Mark) -> Option<Range<usize>> {
        let place = |mark: &Mark| {
            let path = mark.strip_prefix(&[",".to_owned()][..])?;
            self.members.iter().position(|member| member.path == path)
        };
        let at = if *previous == ["{"] { 0 } else { place(previous)? + 1 };
        let found = if *next == ["}"] { self.members.len() } else { place(next)? };
        let start = at.checked_sub(1).map_or(self.inside().start, |before| self.members[before].value.range.end);
        (at == found).then(|| start..self.members.get(at).map_or(self.inside().end, |member| member.start))
    }
}
