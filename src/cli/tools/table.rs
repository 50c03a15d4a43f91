//! The table of `mcpd tools`: tools by server, with their cost in tokens.

use std::process::ExitCode;

use globset::GlobMatcher;
use unicode_width::UnicodeWidthStr;

use crate::admin::report::ToolServer;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{count, one_line, truncate};
use crate::cli::tool_names::suggestion;
use crate::cli::{USAGE, fail};
use crate::policy::pattern;

/// Width of descriptions on a narrow terminal.
pub(super) const MIN_TEXT_WIDTH: usize = 20;

/// Consecutive tools of one server.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` if it is unknown.
    pub(super) server: Option<String>,
    pub(super) note: Option<String>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    name: String,
    /// The description, or what hides the tool.
    text: String,
    tokens: usize,
    is_hidden: bool,
}

impl Row {
    /// A tool that agents see.
    pub(super) fn visible(name: &str, description: Option<&str>, tokens: usize) -> Self {
        let text =
            one_line(description.unwrap_or_default().lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
        Self { name: one_line(name), text: text.trim().to_owned(), tokens, is_hidden: false }
    }

    /// A tool that agents do not see.
    pub(super) fn hidden(name: &str, reason: String, tokens: usize) -> Self {
        Self { name: one_line(name), text: reason, tokens, is_hidden: true }
    }
}

/// The servers and tools that the user selects by a name or pattern.
pub(super) struct Selection<'w> {
    word: Option<&'w str>,
    pattern: Option<GlobMatcher>,
}

impl<'w> Selection<'w> {
    /// `None` selects everything.
    pub(super) fn parse(word: Option<&'w str>) -> Result<Self, ExitCode> {
        let pattern = word.map(pattern).transpose().map_err(|error| fail(USAGE, error))?;
        Ok(Self { word, pattern: pattern.map(|pattern| pattern.compile_matcher()) })
    }

    /// Whether it selects the server, or a tool with one of these names.
    pub(super) fn matches(&self, server: Option<&str>, names: &[&str]) -> bool {
        let is_match = |name: &str| self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(name));
        server.is_some_and(is_match) || names.iter().any(|name| Some(*name) == self.word || is_match(name))
    }

    /// Fails because nothing is selected. `tools` has exposed and qualified names for a suggestion.
    pub(super) fn unknown<'k>(
        &self,
        message: &str,
        tools: impl Iterator<Item = (&'k str, Option<String>)>,
        servers: &'k [ToolServer],
    ) -> ExitCode {
        let word = self.word.unwrap_or_default();
        let servers = || servers.iter().map(|server| &*server.name);
        let known = servers().map(|server| (server, None)).chain(tools);
        fail(USAGE, format!("{message} `{}`{}", word.escape_debug(), suggestion(word, known, servers())))
    }
}

/// Descriptions are cut at the width of the terminal, and complete in a pipe.
pub(super) fn render(groups: &[Group], style: OutputStyle) -> String {
    if groups.is_empty() {
        return "no tools: `mcpd status` shows why\n".to_owned();
    }
    let rows = groups.iter().flat_map(|group| &group.rows);
    let names = rows.clone().map(|row| row.name.width()).max().unwrap_or_default();
    let indent = if groups.iter().any(|group| group.server.is_some()) { "  " } else { "" };
    let room = style.width().map(|width| width.saturating_sub(indent.len() + names + 2).max(MIN_TEXT_WIDTH));
    let line = |row: &Row| {
        let padding = " ".repeat(names - row.name.width());
        let tone = if row.is_hidden { Tone::Faint } else { Tone::Plain };
        let text = room.map_or_else(|| row.text.clone(), |room| truncate(&row.text, room));
        let line = format!("{indent}{}{padding}  {text}", row.name);
        style.paint(tone, line.trim_end()) + "\n"
    };
    let texts = groups.iter().map(|group| heading(group, style) + &group.rows.iter().map(line).collect::<String>());
    let all: Vec<_> = texts.chain(total(rows.clone(), groups, style)).collect();
    all.join(if indent.is_empty() { "" } else { "\n" })
}

fn heading(group: &Group, style: OutputStyle) -> String {
    let Some(server) = &group.server else { return String::new() };
    let parts = [Some(style.paint(Tone::Head, server)), Some(counts(group.rows.iter())), group.note.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ") + "\n"
}

/// The number of tools and their cost.
fn counts<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> String {
    let shown = rows.clone().filter(|row| !row.is_hidden);
    let tokens: usize = shown.clone().map(|row| row.tokens).sum();
    let hidden = rows.filter(|row| row.is_hidden).count();
    let mut text = count(shown.count(), "tool");
    if hidden > 0 {
        text += &format!(" · {hidden} hidden");
    }
    if tokens > 0 {
        text += &format!(" · ~{tokens} tokens");
    }
    text
}

/// The sum of all groups; `None` if there is only one.
fn total<'r>(rows: impl Iterator<Item = &'r Row> + Clone, groups: &[Group], style: OutputStyle) -> Option<String> {
    let of = match groups.iter().filter(|group| group.server.is_some()).count() {
        0 | 1 if groups.len() == 1 && groups[0].server.is_some() => return None,
        0 => String::new(),
        servers => format!(" of {}", count(servers, "server")),
    };
    let counted = counts(rows);
    let (tools, rest) = counted.split_once(" · ").unwrap_or((&counted, ""));
    let rest = if rest.is_empty() { String::new() } else { format!(" · {rest}") };
    Some(style.paint(Tone::Head, &format!("{tools}{of}{rest}")) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group> {
        let hidden = Row::hidden("write", "denied".to_owned(), 7);
        let read = Row::visible("files__read", Some("\nReads a file\nof any size"), 30);
        let server = |name: &str| Some(name.to_owned());
        vec![
            Group { server: server("files"), note: None, rows: vec![read, hidden] },
            Group { server: server("web"), note: Some("backoff".to_owned()), rows: Vec::new() },
        ]
    }

    #[test]
    fn tools_are_grouped_by_server_with_their_cost() {
        let expected = "files · 1 tool · 1 hidden · ~30 tokens\n  files__read  Reads a file\n  write        denied\n\n\
            web · 0 tools · backoff\n\n1 tool of 2 servers · 1 hidden · ~30 tokens\n";
        assert_eq!(render(&groups(), OutputStyle::PLAIN), expected);
    }

    #[test]
    fn one_server_needs_no_total_and_an_unknown_one_no_heading() {
        let mut groups = groups();
        groups.truncate(1);
        assert!(render(&groups, OutputStyle::PLAIN).ends_with("denied\n"));
        groups[0].server = None;
        let expected = "files__read  Reads a file\nwrite        denied\n1 tool · 1 hidden · ~30 tokens\n";
        assert_eq!(render(&groups, OutputStyle::PLAIN), expected);
    }

    #[test]
    fn descriptions_are_cut_at_the_width_of_the_terminal() {
        let mut groups = groups();
        groups[0].rows[0].text = "x".repeat(200);
        for width in [60, 100] {
            let text = render(&groups, OutputStyle::of_width(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(width), "{text}");
        }
        assert!(render(&groups, OutputStyle::of_width(1)).contains(&format!("{}…\n", "x".repeat(19))));
    }

    #[test]
    fn selection_matches_names_and_patterns_of_servers_and_tools() {
        let matches =
            |word| Selection::parse(Some(word)).expect("a pattern").matches(Some("files"), &["files__read", "read"]);
        for word in ["files", "files__read", "read", "files__*", "*read*", "f?les"] {
            assert!(matches(word), "{word}");
        }
        for word in ["file", "Files", "files__", "*write*"] {
            assert!(!matches(word), "{word}");
        }
        assert!(
            Selection::parse(None).expect("nothing").matches(None, &[])
                || Selection::parse(None).expect("nothing").matches(None, &["x"])
        );
    }
}
