//! The statements of a TOML file, in its order, with their places.

use std::ops::Range;

use toml_parser::Source;
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};

/// Nesting that is read, of brackets and of dotted keys. The parser has limits for both, but not for their product.
const MAX_DEPTH: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `[table]`
    Table,
    /// `[[table]]`
    Item,
    /// `key = value`
    Pair,
}

pub(super) struct Statement {
    pub(super) kind: Kind,
    /// Its keys, behind those of the last header.
    pub(super) path: Vec<String>,
    /// How many of the keys are those of the header above a pair.
    pub(super) inherited: usize,
    /// Without blanks and comments.
    pub(super) range: Range<usize>,
    pub(super) value: Place,
}

/// The place of a value.
#[derive(Default)]
pub(super) struct Place {
    pub(super) range: Range<usize>,
    /// The members of an inline table.
    pub(super) members: Option<Vec<Member>>,
}

/// A member of an inline table.
pub(super) struct Member {
    pub(super) path: Vec<String>,
    pub(super) start: usize,
    pub(super) value: Place,
}

impl Member {
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.value.range.end
    }
}

/// An inline table or list that is not closed yet.
struct Open {
    start: usize,
    /// `None` in a list.
    members: Option<Vec<Member>>,
    /// The keys of the value to come.
    keys: Keys,
}

#[derive(Default)]
struct Keys {
    path: Vec<String>,
    start: usize,
}

struct Scan<'t> {
    source: Source<'t>,
    statements: Vec<Statement>,
    header: Vec<String>,
    /// Where the header begins that is not closed yet.
    open_header: Option<usize>,
    open: Vec<Open>,
    keys: Keys,
    depth: usize,
    deepest: usize,
}

/// The statements of a valid `text`. `None` if it is nested too deeply.
pub(super) fn statements(text: &str) -> Option<Vec<Statement>> {
    let source = Source::new(text);
    let mut scan = Scan {
        source,
        statements: Vec::new(),
        header: Vec::new(),
        open_header: None,
        open: Vec::new(),
        keys: Keys::default(),
        depth: 0,
        deepest: 0,
    };
    let tokens = source.lex().into_vec();
    let mut receiver = |event: Event| scan.event(&event);
    let max_depth = u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX);
    parse_document(&tokens, &mut RecursionGuard::new(&mut receiver, max_depth), &mut ());
    (scan.deepest <= MAX_DEPTH).then_some(scan.statements)
}

impl Scan<'_> {
    fn event(&mut self, event: &Event) {
        let range = event.span().start()..event.span().end();
        match event.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                self.header.clear();
                self.open_header = Some(range.start);
            }
            EventKind::StdTableClose => self.close_header(Kind::Table, range.end),
            EventKind::ArrayTableClose => self.close_header(Kind::Item, range.end),
            EventKind::SimpleKey => self.key(event, range.start),
            EventKind::InlineTableOpen => self.open(range.start, Some(Vec::new())),
            EventKind::ArrayOpen => self.open(range.start, None),
            EventKind::InlineTableClose | EventKind::ArrayClose => {
                if let Some(Open { start, members, .. }) = self.open.pop() {
                    self.depth = self.depth.saturating_sub(1);
                    self.value(Place { range: start..range.end, members });
                }
            }
            EventKind::Scalar => self.value(Place { range, members: None }),
            _ => {}
        }
    }

    fn close_header(&mut self, kind: Kind, end: usize) {
        let Some(start) = self.open_header.take() else { return };
        let path = self.header.clone();
        self.deepest = self.deepest.max(path.len());
        self.statements.push(Statement { kind, path, inherited: 0, range: start..end, value: Place::default() });
    }

    fn key(&mut self, event: &Event, start: usize) {
        let mut key = String::new();
        if let Some(raw) = self.source.get(event) {
            raw.decode_key(&mut key, &mut ());
        }
        if self.open_header.is_some() {
            self.header.push(key);
            return;
        }
        let keys = self.open.last_mut().map_or(&mut self.keys, |open| &mut open.keys);
        if keys.path.is_empty() {
            keys.start = start;
        }
        keys.path.push(key);
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth + self.header.len());
    }

    fn open(&mut self, start: usize, members: Option<Vec<Member>>) {
        self.open.push(Open { start, members, keys: Keys::default() });
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth + self.header.len());
    }

    /// A value with its keys is complete.
    fn value(&mut self, value: Place) {
        let keys = std::mem::take(self.open.last_mut().map_or(&mut self.keys, |open| &mut open.keys));
        self.depth = self.depth.saturating_sub(keys.path.len());
        let Keys { path, start } = keys;
        match self.open.last_mut() {
            Some(Open { members: Some(members), .. }) => members.push(Member { path, start, value }),
            Some(_) => {}
            None => {
                let inherited = self.header.len();
                let path = [&self.header[..], &path].concat();
                let range = start..value.range.end;
                self.statements.push(Statement { kind: Kind::Pair, path, inherited, range, value });
            }
        }
    }
}
