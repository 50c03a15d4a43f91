//! The nodes of a YAML file, with their places.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::super::SyntaxError;
use super::super::tree::Tree;

/// Nesting that is read.
const MAX_DEPTH: usize = 80;

/// A node, with its range from its anchor or tag to the end of its last descendant.
pub(super) struct Node {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Nothing is written, which means an empty table where one is expected.
    Nothing,
    /// A table in block style.
    Block(Vec<Entry>),
    /// A table in flow style.
    Flow {
        is_empty: bool,
    },
    /// A list in block style that is the value of a key.
    List,
    Other,
}

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) key: Range<usize>,
    pub(super) value: Node,
}

/// What a file has. Its tree is that of the first document.
pub(super) struct Document {
    pub(super) root: Option<Node>,
    pub(super) tree: Tree,
    pub(super) documents: usize,
}

/// A collection that is not complete yet.
struct Open {
    start: usize,
    is_table: bool,
    tag: Option<String>,
    items: Vec<Tree>,
    members: Vec<(String, Tree)>,
    entries: Vec<Entry>,
    /// The key of the value to come.
    key: Option<(String, Range<usize>)>,
    /// The end of the last complete node in it.
    end: usize,
}

struct Load<'t> {
    text: &'t str,
    /// The place of each character.
    places: Vec<usize>,
    open: Vec<Open>,
    /// The path of each anchor, by its number.
    anchors: HashMap<usize, String>,
    document: Document,
}

pub(super) fn load(text: &str) -> Result<Document, SyntaxError> {
    let places = text.char_indices().map(|(place, _)| place).chain([text.len()]).collect();
    let document = Document { root: None, tree: Tree::empty(), documents: 0 };
    let mut load = Load { text, places, open: Vec::new(), anchors: HashMap::new(), document };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => load.event(event, &span)?,
            Err(error) => {
                let place = load.place(error.marker().index());
                return Err(SyntaxError::at(text, place, error.info()));
            }
        }
    }
    Ok(load.document)
}

/// Whether other readers might take a plain scalar for something else than text.
pub(super) fn is_special(plain: &str) -> bool {
    const WORDS: [&str; 10] = ["", "~", "null", "true", "false", "yes", "no", "on", "off", "="];
    let is_number = plain.starts_with(|char: char| char.is_ascii_digit() || "+-.".contains(char));
    is_number || plain.len() == 1 && "yYnN".contains(plain) || WORDS.contains(&plain.to_lowercase().as_str())
}

/// The length of the quoted text at the beginning, whose span has the comment behind it, too.
fn quoted_end(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|char| "'\"".contains(*char))?;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        let is_doubled = quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == quote);
        if char == quote && !is_doubled {
            return Some(at + 1);
        }
        if char == quote || char == '\\' && quote == '"' {
            chars.next();
        }
    }
    None
}

impl Load<'_> {
    fn place(&self, index: usize) -> usize {
        self.places.get(index).copied().unwrap_or(self.text.len())
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), SyntaxError> {
        let range = self.place(span.start.index())..self.place(span.end.index());
        match event {
            Event::DocumentStart(_) => self.document.documents += 1,
            Event::Alias(anchor) => {
                let path = self.anchors.get(&anchor).cloned().unwrap_or_default();
                self.complete(Node { range, kind: Kind::Other }, Tree::Word(format!("*{path}")));
            }
            Event::Scalar(value, style, anchor, tag) => {
                self.note(anchor);
                let is_plain = style == ScalarStyle::Plain;
                if is_plain && range.is_empty() && self.open.last().is_none_or(|open| open.key.is_some()) {
                    self.complete(Node { range, kind: Kind::Nothing }, Tree::empty());
                    return Ok(());
                }
                let tree = match tag {
                    Some(tag) => Tree::Word(format!("{tag} {value}")),
                    None if is_plain && is_special(&value) => Tree::Word(value.into_owned()),
                    None => Tree::Text(value.into_owned()),
                };
                let end = quoted_end(&self.text[range.clone()]).map_or(range.end, |length| range.start + length);
                self.complete(Node { range: range.start..end, kind: Kind::Other }, tree);
            }
            Event::SequenceStart(anchor, tag) => self.start(range.start, false, anchor, tag.as_deref())?,
            Event::MappingStart(anchor, tag) => self.start(range.start, true, anchor, tag.as_deref())?,
            Event::SequenceEnd | Event::MappingEnd => self.end(range),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    /// Keeps the path of an anchor, which names the anchor in whatever refers to it.
    fn note(&mut self, anchor: usize) {
        if anchor > 0 {
            let step = |open: &Open| match &open.key {
                Some((key, _)) => format!("/{key}"),
                None => format!("/{}/{}", open.items.len(), open.members.len()),
            };
            self.anchors.insert(anchor, self.open.iter().map(step).collect());
        }
    }

    fn start(&mut self, start: usize, is_table: bool, anchor: usize, tag: Option<&Tag>) -> Result<(), SyntaxError> {
        self.note(anchor);
        if self.open.len() == MAX_DEPTH {
            return Err(SyntaxError::at(self.text, start, "too many tables or lists inside of each other"));
        }
        let tag = tag.map(Tag::to_string);
        let (items, members, entries) = (Vec::new(), Vec::new(), Vec::new());
        self.open.push(Open { start, is_table, tag, items, members, entries, key: None, end: start });
        Ok(())
    }

    fn end(&mut self, range: Range<usize>) {
        let Some(open) = self.open.pop() else { return };
        let is_flow = !range.is_empty();
        // The span of a bracket has the comment behind it, too.
        let range = open.start..if is_flow { range.start + 1 } else { open.end };
        let kind = match (open.is_table, is_flow) {
            (true, true) => Kind::Flow { is_empty: open.entries.is_empty() },
            (true, false) => Kind::Block(open.entries),
            (false, false) => Kind::List,
            (false, true) => Kind::Other,
        };
        let tree = if open.is_table { Tree::Table(open.members) } else { Tree::List(open.items) };
        // With a tag it is something of another type.
        let tree = match open.tag {
            Some(tag) => Tree::List(vec![Tree::Word(tag), tree]),
            None => tree,
        };
        self.complete(Node { range, kind }, tree);
    }

    fn complete(&mut self, value: Node, tree: Tree) {
        let Some(open) = self.open.last_mut() else {
            if self.document.root.is_none() && self.document.documents == 1 {
                (self.document.root, self.document.tree) = (Some(value), tree);
            }
            return;
        };
        match open.key.take() {
            _ if !open.is_table => {
                open.end = open.end.max(value.range.end);
                open.items.push(tree);
            }
            None => {
                open.end = open.end.max(value.range.end);
                let name = match tree {
                    Tree::Text(name) | Tree::Word(name) => name,
                    _ => self.text[value.range.clone()].to_owned(),
                };
                open.key = Some((name, value.range));
            }
            Some((name, key)) => {
                if !matches!(value.kind, Kind::Nothing) {
                    open.end = open.end.max(value.range.end);
                }
                open.members.push((name.clone(), tree));
                open.entries.push(Entry { name, key, value });
            }
        }
    }
}
