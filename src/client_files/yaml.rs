//! YAML in block style: the lines of an entry, and how an entry is added or removed. Tables in flow style are refused, but for `{}`, and so
//! are files with several documents.

mod document;
mod format;

use std::ops::Range;

use super::layout::{
    Splice, after_line_end, before_line_end, begins_line, content_end, indentation, is_blank, line_start, skip_blanks,
};
use super::tree::Tree;
use super::{Cut, EditError, Gap, Mark, Part, Removed, SyntaxError, Value};

use document::{Document, Entry, Kind, Node, load};
use format::Style;

pub(super) fn read(text: &str) -> Result<Tree, SyntaxError> {
    Ok(load(text)?.tree)
}

const FLOW: EditError = EditError::Unsupported("its table is in flow style");
const UNUSUAL: EditError = EditError::Unsupported("its YAML is too unusual to be edited");

/// The deepest table on a path, with the keys that are missing below it.
struct Place<'d, 'p> {
    /// The key whose value the table is, but of the table of all.
    key: Option<&'d Entry>,
    table: Option<&'d Node>,
    missing: &'p [&'p str],
}

impl<'d> Place<'d, '_> {
    fn entries(&self) -> &'d [Entry] {
        match self.table.map(|table| &table.kind) {
            Some(Kind::Block(entries)) => entries,
            _ => &[],
        }
    }
}

fn load_single(text: &str) -> Result<Document, EditError> {
    let document = load(text).map_err(|_| EditError::Unsafe)?;
    match document.documents {
        0 | 1 => Ok(document),
        _ => Err(EditError::Unsupported("it has several YAML documents")),
    }
}

fn place<'d, 'p>(document: &'d Document, path: &'p [&'p str]) -> Result<Place<'d, 'p>, EditError> {
    let mut place = Place { key: None, table: document.root.as_ref(), missing: path };
    loop {
        match place.table.map(|table| &table.kind) {
            None | Some(Kind::Nothing | Kind::Flow { is_empty: true }) => return Ok(place),
            Some(Kind::Block(entries)) => {
                let Some((key, rest)) = place.missing.split_first() else { return Ok(place) };
                let Some(entry) = entries.iter().find(|entry| entry.name == *key) else { return Ok(place) };
                place = Place { key: Some(entry), table: Some(&entry.value), missing: rest };
            }
            Some(Kind::Flow { .. }) => return Err(FLOW),
            Some(Kind::List | Kind::Other) => return Err(UNUSUAL),
        }
    }
}

/// The lines of an entry with its comments, without the line end before and behind them.
fn lines(text: &str, entries: &[Entry], at: usize) -> Result<Range<usize>, EditError> {
    let Entry { key, .. } = &entries[at];
    let is_usual = begins_line(text, key.start) && text[key.end..].trim_start_matches([' ', '\t']).starts_with(':');
    if !is_usual {
        return Err(UNUSUAL);
    }
    let column = indentation(text, key.start);
    // Nothing above the first line of the file, nor above the end of the entry before.
    let least = at.checked_sub(1).map_or(0, |before| value_end(text, &entries[before]));
    let mut start = line_start(text, key.start);
    while start > least {
        let above = line_start(text, before_line_end(text, start));
        let is_comment = text[above..start].strip_prefix(column).is_some_and(|line| line.starts_with('#'));
        if above < least || above == start || !is_comment {
            break;
        }
        start = above;
    }
    let mut end = content_end(text, value_end(text, &entries[at]));
    loop {
        let next = after_line_end(text, end);
        let line = text[next..content_end(text, next)].strip_prefix(column);
        let is_own = line.is_some_and(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('#'));
        if next == end || !is_own {
            return Ok(start..end);
        }
        end = content_end(text, next);
    }
}

/// The end of an entry's value, or of its key if there is none.
fn value_end(text: &str, Entry { key, value, .. }: &Entry) -> usize {
    let value = match value.kind {
        Kind::Nothing => key.end,
        _ => text[..value.range.end].trim_end_matches([' ', '\t', '\r', '\n']).len(),
    };
    value.max(key.end)
}

/// The place behind the colon of a key.
fn colon_end(text: &str, key: &Entry) -> Result<usize, EditError> {
    let blanks = text[key.key.end..].find(|char| char != ' ' && char != '\t').unwrap_or(0);
    let colon = key.key.end + blanks;
    if text[colon..].starts_with(':') { Ok(colon + 1) } else { Err(UNUSUAL) }
}

/// The place behind the anchor and the tag that begin at `place`, on its line.
fn properties_end(text: &str, place: usize) -> usize {
    let mut end = place;
    loop {
        let next = skip_blanks(text, end);
        let line = &text[next..content_end(text, next)];
        if !line.starts_with(['&', '!']) {
            return end;
        }
        end = next + line.find([' ', '\t']).unwrap_or(line.len());
    }
}

pub(super) fn entry<'t>(text: &'t str, table: &[&str], name: &str) -> Option<&'t str> {
    let document = load(text).ok()?;
    let mut node = document.root.as_ref()?;
    for key in table.iter().copied().chain([name]) {
        let Kind::Block(entries) = &node.kind else { return None };
        node = &entries.iter().find(|entry| entry.name == key)?.value;
    }
    Some(text.get(node.range.clone())?.trim_end())
}

/// Lines to add to a table, each without its line end.
struct NewLines {
    lines: Vec<String>,
}

impl NewLines {
    /// Of `source`, whose lines may be indented by `indentation`.
    fn of(source: &str, indentation: &str) -> Self {
        let line = |line: &str| line.strip_prefix(indentation).unwrap_or(line).to_owned();
        Self { lines: source.lines().map(line).collect() }
    }

    /// With another key above them.
    fn below(self, key: &str, unit: &str) -> Self {
        let inner = self.lines.into_iter().map(|line| if line.is_empty() { line } else { format!("{unit}{line}") });
        Self { lines: [format!("{}:", format::string(key))].into_iter().chain(inner).collect() }
    }

    fn text(&self, indentation: &str, line_end: &str) -> String {
        let line = |line: &String| if line.is_empty() { String::new() } else { format!("{indentation}{line}") };
        self.lines.iter().map(line).collect::<Vec<_>>().join(line_end)
    }
}

/// Adds lines at the end of a table, which may be missing.
fn append(text: &str, place: &Place<'_, '_>, style: &Style, lines_of: NewLines) -> Result<Vec<Splice>, EditError> {
    let new = place.missing.iter().rev().fold(lines_of, |lines, key| lines.below(key, &style.unit));
    let (entries, line_end) = (place.entries(), style.line_end);
    if let Some(last) = entries.len().checked_sub(1) {
        let end = lines(text, entries, last)?.end;
        let indentation = indentation(text, entries[last].key.start);
        return Ok(vec![Splice::at(end, format!("{line_end}{}", new.text(indentation, line_end)))]);
    }
    let Some(key) = place.key else { return fill_file(text, place.table, &new, line_end) };
    let inner = format!("{}{}", indentation(text, key.key.start), style.unit);
    let source = format!("{line_end}{}", new.text(&inner, line_end));
    let open = properties_end(text, colon_end(text, key)?);
    Ok(match key.value.kind {
        Kind::Flow { .. } if text[skip_blanks(text, open)..].starts_with('{') => {
            vec![Splice::new(open..key.value.range.end, ""), Splice::at(content_end(text, key.value.range.end), source)]
        }
        Kind::Flow { .. } => return Err(FLOW),
        _ => vec![Splice::at(content_end(text, open), source)],
    })
}

/// Writes lines into a file that has nothing but comments, or `{}`.
fn fill_file(text: &str, root: Option<&Node>, new: &NewLines, line_end: &str) -> Result<Vec<Splice>, EditError> {
    let source = new.text("", line_end);
    if let Some(Node { range, kind: Kind::Flow { .. } }) = root {
        return match begins_line(text, range.start) && text[range.start..].starts_with('{') {
            true => Ok(vec![Splice::new(range.clone(), source)]),
            false => Err(FLOW),
        };
    }
    if is_blank(text) {
        return Ok(vec![Splice::new(0..text.len(), format!("{source}{line_end}"))]);
    }
    let end = content_end(text, text.trim_end().len());
    Ok(vec![Splice::at(end, format!("{line_end}{source}"))])
}

pub(super) fn insert(text: &str, table: &[&str], name: &str, value: &Value) -> Result<Vec<Splice>, EditError> {
    let document = load_single(text)?;
    let place = place(&document, table)?;
    let style = Style::of(text, document.root.as_ref());
    let entries = place.entries();
    let old = entries.iter().position(|entry| entry.name == name).filter(|_| place.missing.is_empty());
    let Some(at) = old else {
        return append(text, &place, &style, NewLines::of(&style.entry(name, value, ""), ""));
    };
    let Range { end, .. } = lines(text, entries, at)?;
    let start = entries[at].key.start;
    Ok(vec![Splice::new(start..end, style.entry(name, value, indentation(text, start)))])
}

/// Where the gap behind an entry begins, or that at the beginning of a table.
fn gap_start(text: &str, place: &Place<'_, '_>, behind: Option<usize>) -> Result<usize, EditError> {
    match (behind, place.key) {
        (Some(at), _) => Ok(lines(text, place.entries(), at)?.end),
        (None, Some(key)) => colon_end(text, key),
        (None, None) => Ok(0),
    }
}

pub(super) fn remove(text: &str, table: &[&str], name: &str) -> Result<Cut, EditError> {
    let document = load_single(text)?;
    let place = place(&document, table)?;
    let entries = place.entries();
    let at = entries.iter().position(|entry| entry.name == name).ok_or(EditError::Unsafe)?;
    let own = lines(text, entries, at)?;
    let gap_start = gap_start(text, &place, at.checked_sub(1))?;
    let deletion = match own.start {
        0 => 0..after_line_end(text, own.end),
        start => before_line_end(text, start)..own.end,
    };
    let kept = text.get(gap_start..deletion.start).ok_or(UNUSUAL)?;
    let mut without = kept.to_owned();
    if entries.len() == 1 && place.key.is_some() {
        // Otherwise the key would have no value at all.
        without.insert_str(properties_end(text, gap_start).min(deletion.start) - gap_start, " {}");
    }
    let mark = |at: usize| entries.get(at).map(|entry| vec![entry.name.clone()]);
    let gap = Gap {
        previous: at.checked_sub(1).and_then(mark),
        next: mark(at + 1),
        with: text[gap_start..deletion.end].to_owned(),
        without,
    };
    Ok(Cut { parts: vec![Part::from(&text[own])], gaps: vec![(gap, gap_start..deletion.end)] })
}

/// The gap between two entries that stand side by side, if it begins as it was.
pub(super) fn between(text: &str, table: &[&str], gap: &Gap) -> Option<Range<usize>> {
    let document = load_single(text).ok()?;
    let place = place(&document, table).ok().filter(|place| place.missing.is_empty())?;
    let entries = place.entries();
    let index = |mark: &Mark| entries.iter().position(|entry| Some(&entry.name) == mark.first());
    let previous = match &gap.previous {
        Some(mark) => Some(index(mark)?),
        None => None,
    };
    let at = previous.map_or(0, |at| at + 1);
    let next = entries.get(at).map(|entry| vec![entry.name.clone()]);
    let start = gap_start(text, &place, previous).ok()?;
    (next == gap.next && text[start..].starts_with(&gap.without)).then(|| start..start + gap.without.len())
}

/// Puts the lines next to one of their old neighbours, or at the end of the table.
pub(super) fn restore(text: &str, removed: &Removed) -> Result<Vec<Splice>, EditError> {
    let (document, path) = (load_single(text)?, removed.table());
    let place = place(&document, &path)?;
    let style = Style::of(text, document.root.as_ref());
    let ([part], [gap]) = (&removed.parts[..], &removed.gaps[..]) else { return Err(EditError::Unsafe) };
    let new = NewLines::of(&part.text, indentation(&part.text, 0));
    let entries = if place.missing.is_empty() { place.entries() } else { &[] };
    let index = |mark: &Option<Mark>| {
        let name = mark.as_ref()?.first()?;
        entries.iter().position(|entry| entry.name == *name)
    };
    let next = index(&gap.previous).map(|at| at + 1).or(index(&gap.next)).filter(|at| *at < entries.len());
    let Some(next) = next else { return append(text, &place, &style, new) };
    let start = lines(text, entries, next)?.start;
    let indentation = indentation(text, entries[next].key.start);
    Ok(vec![Splice::at(start, format!("{}{}", new.text(indentation, style.line_end), style.line_end))])
}
