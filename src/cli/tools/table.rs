//! Tools under their servers, with what their lists cost.

use std::process::ExitCode;

use globset::GlobMatcher;
use unicode_width::UnicodeWidthStr;

use crate::admin::report::ToolServer;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{count, one_line, truncate};
use crate::cli::tool_names::suggestion;
use crate::cli::{USAGE, fail};
use crate::policy::pattern;

/// Characters of a text that are shown on however narrow a terminal.
pub(super) const NARROWEST: usize = 20;

/// Tools that stand together.
#[derive(Debug)]
pub(super) struct Group {
    /// The server that they are of, if that is known.
    pub(super) server: Option<String>,
    /// What there is to say of it.
    pub(super) note: Option<String>,
    pub(super) rows: Vec<Row>,
}

/// One tool.
#[derive(Debug, Clone)]
pub(super) struct Row {
    name: String,
    /// What it does, or why it is hidden.
    text: String,
    tokens: usize,
    is_hidden: bool,
}

impl Row {
    /// One that agents see.
    pub(super) fn shown(name: &str, description: Option<&str>, tokens: usize) -> Self {
        let text =
            one_line(description.unwrap_or_default().lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
        Self { name: one_line(name), text: text.trim().to_owned(), tokens, is_hidden: false }
    }

    /// One that they do not see.
    pub(super) fn hidden(name: &str, why: String, tokens: usize) -> Self {
        Self { name: one_line(name), text: why, tokens, is_hidden: true }
    }
}

/// What somebody wants to see.
pub(super) struct Wanted<'w> {
    word: Option<&'w str>,
    pattern: Option<GlobMatcher>,
}

impl<'w> Wanted<'w> {
    /// What `word` names, or matches.
    pub(super) fn of(word: Option<&'w str>) -> Result<Self, ExitCode> {
        let pattern = word.map(pattern).transpose().map_err(|error| fail(USAGE, error))?;
        Ok(Self { word, pattern: pattern.map(|pattern| pattern.compile_matcher()) })
    }

    /// Whether that is a tool with one of these names.
    pub(super) fn has(&self, server: Option<&str>, names: &[&str]) -> bool {
        let is_it = |name: &str| self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(name));
        server.is_some_and(is_it) || names.iter().any(|name| Some(*name) == self.word || is_it(name))
    }

    /// Says that there is nothing of the kind, in these words. `tools` are exposed names with the form `SERVER/TOOL`.
    pub(super) fn unknown<'k>(
        &self,
        words: &str,
        tools: impl Iterator<Item = (&'k str, Option<String>)>,
        servers: &'k [ToolServer],
    ) -> ExitCode {
        let word = self.word.unwrap_or_default();
        let servers = || servers.iter().map(|server| &*server.name);
        let known = servers().map(|server| (server, None)).chain(tools);
        fail(USAGE, format!("{words} `{}`{}", word.escape_debug(), suggestion(word, known, servers())))
    }
}

/// In as much room as there is on what it is shown on: whole lines, if that is no terminal.
pub(super) fn render(groups: &[Group], style: OutputStyle) -> String {
    if groups.is_empty() {
        return "no tools: `mcpd status` shows why\n".to_owned();
    }
    let rows = groups.iter().flat_map(|group| &group.rows);
    let names = rows.clone().map(|row| row.name.width()).max().unwrap_or_default();
    let indent = if groups.iter().any(|group| group.server.is_some()) { "  " } else { "" };
    let room = style.width().map(|width| width.saturating_sub(indent.len() + names + 2).max(NARROWEST));
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

/// How many, and what they cost.
fn counts<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> String {
    let shown = rows.clone().filter(|row| !row.is_hidden);
    let tokens: usize = shown.clone().map(|row| row.tokens).sum();
    let hidden = rows.filter(|row| row.is_hidden).count();
    let mut text = count(shown.count(), "tool");
    if hidden > 0 {
        text += &format!(" · {hidden} not seen");
    }
    if tokens > 0 {
        text += &format!(" · ~{tokens} tokens");
    }
    text
}

/// Of all together, if that is not said already.
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
        let read = Row::shown("files__read", Some("\nReads a file\nof any size"), 30);
        let server = |name: &str| Some(name.to_owned());
        vec![
            Group { server: server("files"), note: None, rows: vec![read, hidden] },
            Group { server: server("web"), note: Some("backoff".to_owned()), rows: Vec::new() },
        ]
    }

    #[test]
    fn tools_stand_under_their_servers_with_what_they_cost() {
        let expected = "files · 1 tool · 1 not seen · ~30 tokens\n  files__read  Reads a file\n  write        denied\n\n\
            web · 0 tools · backoff\n\n1 tool of 2 servers · 1 not seen · ~30 tokens\n";
        assert_eq!(render(&groups(), OutputStyle::PLAIN), expected);
    }

    #[test]
    fn one_server_needs_no_total_and_an_unknown_one_no_heading() {
        let mut groups = groups();
        groups.truncate(1);
        assert!(render(&groups, OutputStyle::PLAIN).ends_with("denied\n"));
        groups[0].server = None;
        let expected = "files__read  Reads a file\nwrite        denied\n1 tool · 1 not seen · ~30 tokens\n";
        assert_eq!(render(&groups, OutputStyle::PLAIN), expected);
    }

    #[test]
    fn what_a_tool_says_is_cut_where_the_terminal_ends() {
        let mut groups = groups();
        groups[0].rows[0].text = "x".repeat(200);
        for width in [60, 100] {
            let text = render(&groups, OutputStyle::of_width(width));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert_eq!(longest, Some(width), "{text}");
        }
        assert!(render(&groups, OutputStyle::of_width(1)).contains(&format!("{}…\n", "x".repeat(19))));
    }

    #[test]
    fn a_word_names_a_server_or_a_tool_or_matches_them() {
        let has = |word| Wanted::of(Some(word)).expect("a pattern").has(Some("files"), &["files__read", "read"]);
        for word in ["files", "files__read", "read", "files__*", "*read*", "f?les"] {
            assert!(has(word), "{word}");
        }
        for word in ["file", "Files", "files__", "*write*"] {
            assert!(!has(word), "{word}");
        }
        assert!(
            Wanted::of(None).expect("nothing").has(None, &[]) || Wanted::of(None).expect("nothing").has(None, &["x"])
        );
    }
}
