//! JSON, with comments, trailing commas and the spelling of JSON5: where the members of an object stand, and how one is added or removed.

mod format;

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::layout::{
    Splice, before_line_end, begins_line, ends_line, indentation, is_blank, line_start, skip_blanks, skip_blanks_back,
    splice,
};
use super::tree::Tree;
use super::{Cut, EditError, Gap, Mark, Part, Removed, SyntaxError, Value};

use format::Style;

/// All of JSON5, and nothing beyond it.
fn options() -> ParseOptions {
    ParseOptions { allow_missing_commas: false, ..ParseOptions::default() }
}

fn parse(text: &str) -> Result<Option<ast::Value<'_>>, SyntaxError> {
    match parse_to_ast(text, &CollectOptions::default(), &options()) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => Err(SyntaxError::at(text, error.range().start, error.kind().to_string())),
    }
}

pub(super) fn read(text: &str) -> Result<Tree, SyntaxError> {
    Ok(parse(text)?.map_or_else(Tree::empty, |value| tree(text, value)))
}

fn tree(text: &str, value: ast::Value<'_>) -> Tree {
    match value {
        ast::Value::StringLit(string) => Tree::Text(string.value.into_owned()),
        ast::Value::Array(array) => Tree::List(array.elements.into_iter().map(|item| tree(text, item)).collect()),
        ast::Value::Object(object) => {
            let member = |property: ast::ObjectProp<'_>| (property.name.into_string(), tree(text, property.value));
            Tree::Table(object.properties.into_iter().map(member).collect())
        }
        word => Tree::Word(text[word.start()..word.end()].to_owned()),
    }
}

/// A member of an object: where its name begins, and its value.
struct Member {
    name: String,
    start: usize,
    value: Range<usize>,
}

/// Where an object stands: its inside without the braces, and its members.
struct Object {
    inside: Range<usize>,
    members: Vec<Member>,
}

impl From<&ast::Object<'_>> for Object {
    fn from(object: &ast::Object<'_>) -> Self {
        let member = |property: &ast::ObjectProp<'_>| Member {
            name: property.name.as_str().to_owned(),
            start: property.name.start(),
            value: property.value.start()..property.value.end(),
        };
        let inside = object.range.start + 1..object.range.end - 1;
        Self { inside, members: object.properties.iter().map(member).collect() }
    }
}

impl Object {
    fn member(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }

    /// Where the part before a member ends, and that behind it begins.
    fn around(&self, at: usize) -> Range<usize> {
        let before = at.checked_sub(1).map_or(self.inside.start, |at| self.members[at].value.end);
        let behind = self.members.get(at + 1).map_or(self.inside.end, |next| next.start);
        before..behind
    }

    /// The gap between two members that stand side by side.
    fn between(&self, previous: Option<&str>, next: Option<&str>) -> Option<Range<usize>> {
        let at = match previous {
            Some(previous) => self.member(previous)? + 1,
            None => 0,
        };
        let found = self.members.get(at).map(|member| member.name.as_str());
        let start = at.checked_sub(1).map_or(self.inside.start, |at| self.members[at].value.end);
        (found == next).then(|| start..self.members.get(at).map_or(self.inside.end, |member| member.start))
    }
}

/// The deepest object on a path, with the keys that are missing below it.
struct Place<'p> {
    object: Object,
    missing: &'p [&'p str],
}

/// `None` if the text has no value.
fn place<'p>(text: &str, path: &'p [&'p str]) -> Option<Place<'p>> {
    let root = parse(text).ok()??;
    let mut object = root.as_object()?;
    for (depth, key) in path.iter().enumerate() {
        match object.get(key) {
            Some(property) => object = property.value.as_object()?,
            None => return Some(Place { object: object.into(), missing: &path[depth..] }),
        }
    }
    Some(Place { object: object.into(), missing: &[] })
}

fn object(text: &str, path: &[&str]) -> Option<Object> {
    place(text, path).filter(|place| place.missing.is_empty()).map(|place| place.object)
}

pub(super) fn entry<'t>(text: &'t str, table: &[&str], name: &str) -> Option<&'t str> {
    let object = object(text, table)?;
    let at = object.member(name)?;
    text.get(object.members[at].value.clone())
}

/// A comma or comment between two values.
struct Trivia {
    is_comma: bool,
    range: Range<usize>,
}

/// The commas and comments in a range that has nothing else.
fn trivia(text: &str, range: Range<usize>) -> Vec<Trivia> {
    let (mut found, mut at) = (Vec::new(), range.start);
    while let Some(char) = text[at..range.end].chars().next() {
        let rest = &text[at..range.end];
        let length = if rest.starts_with("//") {
            rest.find(['\n', '\r']).unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            char.len_utf8()
        };
        if char == ',' || char == '/' {
            found.push(Trivia { is_comma: char == ',', range: at..at + length });
        }
        at += length;
    }
    found
}

/// A member with what belongs to it: comments above it and behind it, and its comma.
struct Extent {
    range: Range<usize>,
    comma: Option<Range<usize>>,
    /// Whether the member begins a line.
    begins_line: bool,
}

/// The end of the comments behind `place` on its line, if nothing else follows there.
fn comments_behind(text: &str, place: usize, end: usize) -> usize {
    let mut behind = place;
    for comment in trivia(text, place..end) {
        if comment.is_comma || !is_blank_line_part(&text[behind..comment.range.start]) {
            break;
        }
        behind = comment.range.end;
    }
    if ends_line(text, behind) { behind } else { place }
}

fn is_blank_line_part(text: &str) -> bool {
    is_blank(text) && !text.contains('\n')
}

fn extent(text: &str, object: &Object, at: usize) -> Extent {
    let (member, around) = (&object.members[at], object.around(at));
    let comma = trivia(text, member.value.end..around.end).into_iter().find(|trivia| trivia.is_comma);
    let comma = comma.map(|comma| comma.range);
    let end = comma.as_ref().map_or(member.value.end, |comma| comma.end);
    let begins = begins_line(text, member.start) && line_start(text, member.start) > around.start;
    if !begins {
        return Extent { range: member.start..end, comma, begins_line: false };
    }
    let mut start = member.start;
    for comment in trivia(text, around.start..member.start).into_iter().rev().filter(|trivia| !trivia.is_comma) {
        let gap = &text[comment.range.end..start];
        let is_alone = begins_line(text, comment.range.start) && line_start(text, comment.range.start) > around.start;
        if !is_blank(gap) || gap.matches('\n').count() > 1 || !is_alone {
            break;
        }
        start = comment.range.start;
    }
    Extent { range: start..comments_behind(text, end, around.end), comma, begins_line: true }
}

/// The parts to delete, so that a member is gone.
fn deletions(text: &str, object: &Object, at: usize) -> Vec<Range<usize>> {
    let (extent, around) = (extent(text, object, at), object.around(at));
    let is_last = at + 1 == object.members.len();
    let ends_line = ends_line(text, extent.range.end);
    let Range { mut start, mut end } = extent.range;
    let above = trivia(text, around.start..start).pop();
    let is_behind_line_comment = above.is_some_and(|trivia| text[trivia.range].starts_with("//"));
    if !is_last && !ends_line {
        end = skip_blanks(text, end);
    } else if extent.begins_line && begins_line(text, start) {
        // A brace on the line of the member must not become a part of the comment above.
        if ends_line || !is_behind_line_comment {
            start = before_line_end(text, line_start(text, start));
        }
        if ends_line {
            end = skip_blanks(text, end);
        }
    } else {
        start = skip_blanks_back(text, start);
    }
    let mut deletions = Vec::new();
    deletions.push(start..end);
    if is_last && at > 0 && extent.comma.is_none() {
        deletions.extend(trivia(text, around.start..start).into_iter().find(|trivia| trivia.is_comma).map(|t| t.range));
    }
    deletions
}

pub(super) fn remove(text: &str, table: &[&str], name: &str) -> Result<Cut, EditError> {
    let object = object(text, table).ok_or(EditError::Unsafe)?;
    let at = object.member(name).ok_or(EditError::Unsafe)?;
    let (around, extent) = (object.around(at), extent(text, &object, at));
    let deleted = |range: Range<usize>| Splice::new(range.start - around.start..range.end - around.start, "");
    let splices: Vec<_> = deletions(text, &object, at).into_iter().map(deleted).collect();
    let with = &text[around.clone()];
    let without = splice(with, &splices).ok_or(EditError::Unsafe)?;
    let mark = |at: usize| object.members.get(at).map(|member| vec![member.name.clone()]);
    let gap = Gap { previous: at.checked_sub(1).and_then(mark), next: mark(at + 1), with: with.to_owned(), without };
    // The comma is no part of it: `restore` writes one where it has to be.
    let value_end = object.members[at].value.end;
    let behind = extent.comma.as_ref().map_or(value_end, |comma| comma.end);
    let parts = [extent.range.start..value_end, behind..extent.range.end].map(|range| Part::from(&text[range]));
    Ok(Cut { parts: parts.to_vec(), gaps: vec![(gap, around)] })
}

pub(super) fn between(text: &str, table: &[&str], gap: &Gap) -> Option<Range<usize>> {
    let name = |mark: &Option<Mark>| mark.as_ref().and_then(|mark| mark.first().cloned());
    object(text, table)?.between(name(&gap.previous).as_deref(), name(&gap.next).as_deref())
}

/// A member to add.
struct NewMember {
    /// Its comments, name and value.
    source: String,
    /// What follows the comma on its line.
    comment: String,
}

impl NewMember {
    /// The comment, with the line end that it needs if more follows.
    fn closed_comment(&self, style: &Style) -> String {
        let line_end = if self.comment.contains("//") { style.line_end } else { "" };
        format!("{}{line_end}", self.comment)
    }
}

/// Adds a member behind the last one.
fn append(text: &str, object: &Object, style: &Style, member: &NewMember) -> Vec<Splice> {
    let source = &member.source;
    let Some(last) = object.members.len().checked_sub(1) else { return fill(text, object, style, member) };
    let (extent, value_end) = (extent(text, object, last), object.members[last].value.end);
    let comma = if extent.comma.is_some() { "," } else { "" };
    let mut splices = Vec::new();
    if comma.is_empty() {
        splices.push(Splice::at(value_end, ","));
    }
    if extent.begins_line {
        let end = extent.range.end;
        let (end, comment) = match ends_line(text, end) {
            true => (skip_blanks(text, end), member.comment.clone()),
            false => (end, member.closed_comment(style)),
        };
        let indentation = indentation(text, object.members[last].start);
        splices.push(Splice::at(end, format!("{}{indentation}{source}{comma}{comment}", style.line_end)));
    } else {
        let place = extent.comma.map_or(value_end, |comma| comma.end);
        let comment = member.closed_comment(style);
        splices.push(Splice::at(place, format!("{}{source}{comma}{comment}", style.space())));
    }
    splices
}

/// Adds a member to an empty object.
fn fill(text: &str, object: &Object, style: &Style, member: &NewMember) -> Vec<Splice> {
    let NewMember { source, comment } = member;
    let Range { start, end } = object.inside;
    let inside = &text[start..end];
    if style.is_one_line && !inside.contains('\n') {
        let (padding, comment) = (style.padding, member.closed_comment(style));
        return match is_blank(inside) {
            true => vec![Splice::new(start..end, format!("{padding}{source}{comment}{padding}"))],
            false => vec![Splice::at(start, format!("{padding}{source}{comment}"))],
        };
    }
    let place = comments_behind(text, start, end).min(end);
    let outer = indentation(text, start);
    let line_end = style.line_end;
    let line = format!("{line_end}{outer}{}{source}{comment}", style.unit);
    match text[place..end].contains('\n') {
        true => vec![Splice::at(place, line)],
        false => {
            let blanks = skip_blanks_back(text, end).max(place);
            let close = Splice::new(blanks..end, format!("{line_end}{outer}"));
            if blanks == place {
                return vec![Splice::new(place..end, line + &close.with)];
            }
            vec![Splice::at(place, line), close]
        }
    }
}

/// The value of the first key on a path that is missing.
fn nested(missing: &[&str], name: &str, value: &Value) -> (String, Value) {
    let keys = missing.iter().copied().chain([name]);
    let mut keys: Vec<_> = keys.map(str::to_owned).collect();
    let first = keys.remove(0);
    let value = keys.into_iter().rev().fold(value.clone(), |value, key| Value::Table(vec![(key, value)]));
    (first, value)
}

/// A file that has no value yet, with `value` behind its comments.
fn whole(text: &str, style: &Style, (name, value): (String, Value)) -> Vec<Splice> {
    let source = style.value(&Value::Table(vec![(name, value)]), "", true);
    let line_end = style.line_end;
    if is_blank(text) {
        return vec![Splice::new(0..text.len(), source + line_end)];
    }
    let separator = if text.ends_with('\n') { "" } else { line_end };
    vec![Splice::at(text.len(), format!("{separator}{source}{line_end}"))]
}

pub(super) fn insert(text: &str, table: &[&str], name: &str, value: &Value) -> Result<Vec<Splice>, EditError> {
    let style = Style::of(text, parse(text).map_err(|_| EditError::Unsafe)?.as_ref());
    let Some(Place { object, missing }) = place(text, table) else {
        return Ok(whole(text, &style, nested(table, name, value)));
    };
    let (name, value) = nested(missing, name, value);
    let indentation_of_lines = |object: &Object| match object.members.last() {
        Some(last) => {
            (indentation(text, last.start).to_owned(), extent(text, object, object.members.len() - 1).begins_line)
        }
        None => {
            let is_one_line = style.is_one_line && !text[object.inside.clone()].contains('\n');
            (format!("{}{}", indentation(text, object.inside.start), style.unit), !is_one_line)
        }
    };
    if let Some(at) = object.member(&name) {
        let member = &object.members[at];
        let has_lines = extent(text, &object, at).begins_line || text[member.value.clone()].contains('\n');
        let source = style.value(&value, indentation(text, member.start), has_lines);
        return Ok(vec![Splice::new(member.value.clone(), source)]);
    }
    let (indentation, has_lines) = indentation_of_lines(&object);
    let source = format!("{}{}", style.key(&name), style.value(&value, &indentation, has_lines));
    Ok(append(text, &object, &style, &NewMember { source, comment: String::new() }))
}

/// Puts a member next to one of its old neighbours, or at the end of its table.
pub(super) fn restore(text: &str, removed: &Removed) -> Result<Vec<Splice>, EditError> {
    let path = removed.table();
    let style = Style::of(text, parse(text).map_err(|_| EditError::Unsafe)?.as_ref());
    let [source, comment] = &removed.parts[..] else { return Err(EditError::Unsafe) };
    let member = NewMember { source: source.text.clone(), comment: comment.text.clone() };
    let Some(Place { object, missing }) = place(text, &path) else {
        let inside = nested_source(&style, &path, &member);
        return Ok(vec![Splice::at(text.len(), format!("{{{inside}}}{}", style.line_end))]);
    };
    if !missing.is_empty() {
        let source = format!("{}{{{}}}", style.key(missing[0]), nested_source(&style, &missing[1..], &member));
        return Ok(append(text, &object, &style, &NewMember { source, comment: String::new() }));
    }
    let gap = removed.gaps.first().ok_or(EditError::Unsafe)?;
    let at_mark = |mark: &Option<Mark>| mark.as_ref().and_then(|mark| object.member(mark.first()?));
    let next = at_mark(&gap.previous).map(|at| at + 1).or(at_mark(&gap.next)).unwrap_or(object.members.len());
    let Some(next_member) = object.members.get(next) else { return Ok(append(text, &object, &style, &member)) };
    let extent = extent(text, &object, next);
    let start = extent.range.start;
    if extent.begins_line {
        let indentation = indentation(text, next_member.start);
        let line_end = style.line_end;
        return Ok(vec![Splice::at(start, format!("{},{}{line_end}{indentation}", member.source, member.comment))]);
    }
    Ok(vec![Splice::at(start, format!("{},{}{}", member.source, member.closed_comment(&style), style.space()))])
}

/// The inside of an object that has a member below `keys`.
fn nested_source(style: &Style, keys: &[&str], NewMember { source, comment }: &NewMember) -> String {
    let line_end = style.line_end;
    let inside = format!("{line_end}{source}{comment}{line_end}");
    keys.iter().rev().fold(inside, |inside, key| format!("{line_end}{}{{{inside}}}{line_end}", style.key(key)))
}
