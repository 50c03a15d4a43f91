//! TOML: the statements of an entry, wherever they stand, and how an entry is added or removed.
//!
//! An entry is a table with a header and possibly tables below it, or dotted keys, or a member of an inline table.

mod format;
mod inline;
mod statements;

use std::borrow::Cow;
use std::ops::Range;

use ::toml::de::{DeTable, DeValue};

use super::layout::{Splice, after_line_end, before_line_end, content_end, is_blank, line_end, line_start, splice};
use super::tree::Tree;
use super::{Cut, EditError, Gap, Mark, Part, Removed, SyntaxError, Value};

use inline::Inline;
use statements::{Kind, Statement, statements};

pub(super) fn read(text: &str) -> Result<Tree, SyntaxError> {
    if statements(text).is_none() {
        return Err(SyntaxError::at(text, 0, "too many tables inside of each other"));
    }
    match DeTable::parse(text) {
        Ok(table) => Ok(table_tree(table.into_inner())),
        Err(error) => {
            let place = error.span().map_or(text.len(), |span| span.start);
            Err(SyntaxError::at(text, place.min(text.len()), error.message()))
        }
    }
}

fn table_tree(table: DeTable<'_>) -> Tree {
    let member = |(key, value): (::toml::Spanned<_>, ::toml::Spanned<_>)| {
        let key: Cow<'_, str> = key.into_inner();
        (key.into_owned(), tree(value.into_inner()))
    };
    Tree::Table(table.into_iter().map(member).collect())
}

fn tree(value: DeValue<'_>) -> Tree {
    match value {
        DeValue::String(text) => Tree::Text(text.into_owned()),
        DeValue::Integer(number) => Tree::Word(match number.radix() {
            10 => number.as_str().to_owned(),
            radix => format!("{}, base {radix}", number.as_str()),
        }),
        DeValue::Float(number) => Tree::Word(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Tree::Word(flag.to_string()),
        DeValue::Datetime(time) => Tree::Word(time.to_string()),
        DeValue::Array(items) => Tree::List(items.into_iter().map(|item| tree(item.into_inner())).collect()),
        DeValue::Table(table) => table_tree(table),
    }
}

/// The statements of a text, with questions on their lines.
struct Document<'t> {
    text: &'t str,
    statements: Vec<Statement>,
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Statements that stand side by side.
type Run = Range<usize>;

fn starts_with(path: &[String], start: &[&str]) -> bool {
    path.len() >= start.len() && path.iter().zip(start).all(|(one, other)| one == other)
}

impl<'t> Document<'t> {
    fn of(text: &'t str) -> Result<Self, EditError> {
        Ok(Self { text, statements: statements(text).ok_or(EditError::Unsafe)? })
    }

    /// The statements below a path, as runs.
    fn runs(&self, path: &[&str]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (at, _) in self.statements.iter().enumerate().filter(|(_, it)| starts_with(&it.path, path)) {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end = at + 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }

    /// The inline table that is at this path.
    fn inline(&self, table: &[&str]) -> Option<Inline<'_>> {
        let is_above = |it: &&Statement| it.path.len() <= table.len() && starts_with(&it.path, &table[..it.path.len()]);
        self.statements
            .iter()
            .filter(is_above)
            .find_map(|it| Inline::below(self.text, &it.value, &table[it.path.len()..]))
    }

    fn is_header(&self, at: usize) -> bool {
        self.statements[at].kind != Kind::Pair
    }

    /// The last statement of the section of a statement.
    fn section_last(&self, at: usize) -> usize {
        let next = self.statements[at + 1..].iter().position(|it| it.kind != Kind::Pair);
        next.map_or(self.statements.len(), |length| at + 1 + length) - 1
    }

    /// The beginning of a statement, with the comments right above it.
    fn start(&self, at: usize) -> usize {
        let least = at.checked_sub(1).map_or(0, |before| self.statements[before].range.end);
        let mut start = line_start(self.text, self.statements[at].range.start);
        while start > least {
            let above = line_start(self.text, before_line_end(self.text, start));
            if above < least || above == start || !self.text[above..start].trim_start().starts_with('#') {
                break;
            }
            start = above;
        }
        start
    }

    /// The end of the line of a statement.
    fn end(&self, at: usize) -> usize {
        content_end(self.text, self.statements[at].range.end)
    }

    /// The end of a section that ends with this statement, with comments right below it, but not those right above the next section.
    fn section_end(&self, at: usize) -> usize {
        let mut end = self.end(at);
        loop {
            let next = after_line_end(self.text, end);
            let line = self.text[next..content_end(self.text, next)].trim();
            if next == end || line.is_empty() {
                return end;
            }
            if !line.starts_with('#') {
                return self.end(at);
            }
            end = content_end(self.text, next);
        }
    }

    fn mark(&self, at: usize) -> Mark {
        let Statement { kind, path, .. } = &self.statements[at];
        let kind = match kind {
            Kind::Table => "[",
            Kind::Item => "[[",
            Kind::Pair => "=",
        };
        [&[kind.to_owned()], &path[..]].concat()
    }

    fn between(&self, previous: Option<&Mark>, next: Option<&Mark>) -> Option<Range<usize>> {
        let at = (0..=self.statements.len()).find(|&at| {
            let mark = |at: Option<usize>| at.filter(|at| *at < self.statements.len()).map(|at| self.mark(at));
            mark(at.checked_sub(1)).as_ref() == previous && mark(Some(at)).as_ref() == next
        })?;
        Some(self.around(&(at..at)))
    }

    /// The range between the neighbours of a run.
    fn around(&self, run: &Run) -> Range<usize> {
        let start = run.start.checked_sub(1).map_or(0, |at| self.statements[at].range.end);
        start..self.statements.get(run.end).map_or(self.text.len(), |next| next.range.start)
    }

    /// The range of a run, with its comments.
    fn extent(&self, run: &Run) -> Range<usize> {
        let last = run.end - 1;
        let end =
            if (run.start..run.end).any(|at| self.is_header(at)) { self.section_end(last) } else { self.end(last) };
        self.start(run.start)..end
    }

    /// What to delete, so that a run is gone.
    fn deletion(&self, run: &Run) -> Range<usize> {
        let Range { start, end } = self.extent(run);
        if self.is_header(run.start) {
            let before = self.text[..start].trim_end_matches(BLANKS);
            if before.is_empty() {
                let behind = self.text[end..].trim_start_matches(BLANKS);
                return 0..line_start(self.text, self.text.len() - behind.len()).max(end);
            }
            return content_end(self.text, before.len())..end;
        }
        match line_start(self.text, start) {
            0 => 0..after_line_end(self.text, end),
            start => before_line_end(self.text, start)..end,
        }
    }

    /// The runs of one kind that a run consists of.
    fn parts(&self, run: &Run) -> Vec<Part> {
        let header = run.clone().find(|&at| self.is_header(at)).unwrap_or(run.end);
        let parts = [run.start..header, header..run.end].into_iter().filter(|part| !part.is_empty());
        let part = |part: Run| {
            let first = &self.statements[part.start];
            let range = self.extent(&part);
            Part { section: first.path[..first.inherited].to_vec(), text: self.text[range].to_owned() }
        };
        parts.map(part).collect()
    }

    /// Where the last section of a table ends, or the file.
    fn table_end(&self, table: &[&str]) -> usize {
        match self.runs(table).last() {
            Some(run) => self.section_end(self.section_last(run.end - 1)),
            None => content_end(self.text, self.text.trim_end_matches(BLANKS).len()),
        }
    }

    /// Adds a section at `place`, which is the end of a section or of the file.
    fn add_section(&self, place: usize, section: &str) -> Splice {
        let line_end = line_end(self.text);
        if is_blank(self.text) {
            return Splice::new(0..self.text.len(), format!("{section}{line_end}"));
        }
        if self.text[..place].trim().is_empty() {
            return Splice::at(place, format!("{section}{line_end}{line_end}"));
        }
        Splice::at(place, format!("{line_end}{line_end}{section}"))
    }
}

pub(super) fn entry<'t>(text: &'t str, table: &[&str], name: &str) -> Option<Cow<'t, str>> {
    let document = Document::of(text).ok()?;
    if let Some(inline) = document.inline(table) {
        return text.get(inline.member(name)?.value.range.clone()).map(Cow::Borrowed);
    }
    let path = [table, &[name]].concat();
    let runs = document.runs(&path);
    let range_of = |run: &Run| {
        let (first, last) = (&document.statements[run.start], &document.statements[run.end - 1]);
        let is_value = first.kind == Kind::Pair && first.path.len() == path.len();
        (if is_value { first.value.range.start } else { first.range.start })..last.range.end
    };
    match &runs[..] {
        [run] => text.get(range_of(run)).map(Cow::Borrowed),
        runs => {
            let parts: Vec<_> = runs.iter().map(|run| &text[range_of(run)]).collect();
            Some(Cow::Owned(parts.join(&line_end(text).repeat(2))))
        }
    }
}

pub(super) fn insert(text: &str, table: &[&str], name: &str, value: &Value) -> Result<Vec<Splice>, EditError> {
    let document = Document::of(text)?;
    if let Some(inline) = document.inline(table) {
        return match inline.member(name) {
            Some(member) => Ok(vec![Splice::new(member.value.range.clone(), format::value(value))]),
            None => inline.append(&format!("{} = {}", format::path([name]), format::value(value))),
        };
    }
    let Value::Table(members) = value else {
        return Err(EditError::Unsupported("an entry of this file has to be a table"));
    };
    let path = [table, &[name]].concat();
    let section = format::section(&format::path(path.iter().copied()), members, line_end(text));
    let runs = document.runs(&path);
    let Some((run, others)) = runs.split_first() else {
        return Ok(vec![document.add_section(document.table_end(table), &section)]);
    };
    let (first, last) = (&document.statements[run.start], &document.statements[run.end - 1]);
    let mut splices: Vec<_> = others.iter().map(|run| Splice::new(document.deletion(run), "")).collect();
    let range = first.range.start..last.range.end;
    splices.push(if first.kind != Kind::Pair {
        Splice::new(range, section)
    } else if first.inherited < path.len() {
        let key = format::path(path[first.inherited..].iter().copied());
        Splice::new(range, format!("{key} = {}", format::value(value)))
    } else {
        return Err(EditError::Unsafe);
    });
    Ok(splices)
}

pub(super) fn remove(text: &str, table: &[&str], name: &str) -> Result<Cut, EditError> {
    let document = Document::of(text)?;
    if let Some(inline) = document.inline(table) {
        return inline.remove(table, name);
    }
    let runs = document.runs(&[table, &[name]].concat());
    let gap_of = |run: &Run| {
        let (around, deletion) = (document.around(run), document.deletion(run));
        let with = &text[around.clone()];
        let deleted = deletion.start.checked_sub(around.start)?..deletion.end.checked_sub(around.start)?;
        let without = splice(with, &[Splice::new(deleted, "")]);
        let previous = run.start.checked_sub(1).map(|at| document.mark(at));
        let next = (run.end < document.statements.len()).then(|| document.mark(run.end));
        Some((Gap { previous, next, with: with.to_owned(), without: without? }, around))
    };
    let gaps: Option<Vec<_>> = runs.iter().map(gap_of).collect();
    let parts = runs.iter().flat_map(|run| document.parts(run)).collect();
    Ok(Cut { parts, gaps: gaps.ok_or(EditError::Unsafe)? })
}

pub(super) fn between(text: &str, table: &[&str], gap: &Gap) -> Option<Range<usize>> {
    let document = Document::of(text).ok()?;
    match document.inline(table) {
        Some(inline) => inline.between(gap.previous.as_ref()?, gap.next.as_ref()?),
        None => document.between(gap.previous.as_ref(), gap.next.as_ref()),
    }
}

/// Puts sections behind their old neighbours, or at the end of the table, and pairs into their old sections.
pub(super) fn restore(text: &str, removed: &Removed) -> Result<Vec<Splice>, EditError> {
    let (document, table) = (Document::of(text)?, removed.table());
    if let Some(inline) = document.inline(&table) {
        return match &removed.parts[..] {
            [Part { text, .. }] if inline::is_member(text) => inline.append(text),
            _ => Err(EditError::Unsupported("its table was written in another style")),
        };
    }
    let line_end = line_end(text);
    let is_section =
        |part: &&Part| Document::of(&part.text).is_ok_and(|part| !part.statements.is_empty() && part.is_header(0));
    let (sections, pairs): (Vec<_>, Vec<_>) = removed.parts.iter().partition(is_section);
    let mut splices = Vec::new();
    let mut new_sections: Vec<String> = Vec::new();
    for Part { section, text: pairs } in pairs {
        let keys: Vec<_> = section.iter().map(String::as_str).collect();
        let header = document.statements.iter().position(|it| it.kind == Kind::Table && it.path == *section);
        splices.push(match header {
            Some(header) => Splice::at(document.end(document.section_last(header)), format!("{line_end}{pairs}")),
            None if section.is_empty() => {
                let last = document.statements.iter().take_while(|it| it.kind == Kind::Pair).count().checked_sub(1);
                match last {
                    Some(last) => Splice::at(document.end(last), format!("{line_end}{pairs}")),
                    None => Splice::at(0, format!("{pairs}{line_end}")),
                }
            }
            None => {
                new_sections.push(format!("[{}]{line_end}{pairs}", format::path(keys)));
                continue;
            }
        });
    }
    new_sections.extend(sections.into_iter().map(|part| part.text.clone()));
    if !new_sections.is_empty() {
        let previous = removed.gaps.first().and_then(|gap| gap.previous.as_ref());
        let neighbour = previous.and_then(|mark| (0..document.statements.len()).find(|&at| document.mark(at) == *mark));
        let place = match neighbour {
            Some(at) => document.section_end(document.section_last(at)),
            None => document.table_end(&table),
        };
        splices.push(document.add_section(place, &new_sections.join(&line_end.repeat(2))));
    }
    Ok(splices)
}
