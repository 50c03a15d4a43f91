//! Servers that stand in lines of their own: `[servers.NAME]` and its sub-tables, or keys `servers.NAME.…`.

use std::ops::Range;

use super::super::tree::{Entry, Node, Value};

/// What a line of the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Blank,
    Comment,
    /// Said by somebody else.
    Kept,
    /// A header of the server's.
    Header,
    /// All else of the server.
    Cut,
}

impl Line {
    fn is_cut(self) -> bool {
        matches!(self, Self::Header | Self::Cut)
    }

    fn says_nothing(self) -> bool {
        matches!(self, Self::Blank | Self::Comment)
    }
}

/// `text`, whose tree is `root`, without the lines of `server`.
pub(super) fn without(text: &str, root: &Node, server: &Entry) -> String {
    let source: Vec<&str> = text.split_inclusive('\n').collect();
    let mut lines = classify(text, &source, root, server);
    join(&mut lines);
    let mut from = 0;
    while let Some(start) = (from..lines.len()).find(|at| lines[*at].is_cut()) {
        let end = (start..lines.len()).find(|at| !lines[*at].is_cut()).unwrap_or(lines.len());
        from = widen(&mut lines, start..end).end;
    }
    let is_cut_at_end = lines.last().is_some_and(|line| line.is_cut());
    let kept = source.iter().zip(&lines).filter(|(_, line)| !line.is_cut()).map(|(text, _)| *text);
    let mut kept: String = kept.collect();
    // The file ends as it ended.
    if is_cut_at_end && !text.ends_with('\n') && kept.ends_with('\n') {
        kept.pop();
        kept.truncate(kept.strip_suffix('\r').map_or(kept.len(), str::len));
    }
    kept
}

fn classify(text: &str, source: &[&str], root: &Node, server: &Entry) -> Vec<Line> {
    let plain = |line: &&str| match line.trim_start() {
        "" => Line::Blank,
        line if line.starts_with('#') => Line::Comment,
        _ => Line::Kept,
    };
    let mut lines: Vec<_> = source.iter().map(plain).collect();
    let starts: Vec<usize> = source.iter().scan(0, |at, line| Some(std::mem::replace(at, *at + line.len()))).collect();
    let number = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
    // What looks like a comment may be a line of somebody's text.
    let mut mark = |place: &Range<usize>, line| lines[number(place.start)..=number(place.end - 1)].fill(line);
    walk(root, &mut |entry| {
        mark(&entry.key_span, Line::Kept);
        mark(&entry.node.span, Line::Kept);
    });
    let mut cut = |entry: &Entry| {
        let is_header = matches!(entry.node.value, Value::Table(_)) && text[entry.node.span.clone()].starts_with('[');
        mark(&entry.key_span, Line::Cut);
        mark(&entry.node.span, if is_header { Line::Header } else { Line::Cut });
    };
    cut(server);
    walk(&server.node, &mut cut);
    lines
}

/// Every entry below `node`, from the outside in.
fn walk(node: &Node, see: &mut impl FnMut(&Entry)) {
    if let Value::Table(entries) = &node.value {
        for entry in entries {
            see(entry);
            walk(&entry.node, see);
        }
    }
}

/// Cuts what stands between two lines of the server, if nobody else says something there.
fn join(lines: &mut [Line]) {
    let mut last = None;
    for at in 0..lines.len() {
        if lines[at].is_cut() {
            if let Some(last) = last {
                lines[last + 1..at].fill(Line::Cut);
            }
            last = Some(at);
        } else if !lines[at].says_nothing() {
            last = None;
        }
    }
}

/// Cuts the comments of the lines of the server at `block`, and of a table one blank line.
///
/// A comment belongs to what stands directly below it; if that is a blank line or nothing, to what stands directly above.
fn widen(lines: &mut [Line], block: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = block;
    let is_table = lines[start..end].contains(&Line::Header);
    while start > 0 && lines[start - 1] == Line::Comment {
        start -= 1;
    }
    if is_table {
        let below = lines[end..].iter().take_while(|line| **line == Line::Comment).count();
        if lines.get(end + below).is_none_or(|next| *next == Line::Blank) {
            end += below;
        }
        if start > 0 && lines[start - 1] == Line::Blank {
            start -= 1;
        } else if start == 0 && lines.get(end) == Some(&Line::Blank) {
            end += 1;
        }
    }
    lines[start..end].fill(Line::Cut);
    start..end
}
