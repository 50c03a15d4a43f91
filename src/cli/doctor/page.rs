//! Prints the findings as text and as JSON.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde::Serialize;
use serde_with::skip_serializing_none;
use unicode_width::UnicodeWidthStr;

use super::finding::{Finding, Group, Verdict, count};
use crate::cli::json;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{self, one_line, searched_paths, split_searched_path, wrap};
use crate::config::Definition;

/// Maximum width of the subject column, in characters. A longer subject moves only its own line.
const MAX_SUBJECT_WIDTH: usize = 24;

/// How lines begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signs {
    /// One character each.
    Marks,
    /// A word each.
    Words,
}

impl Signs {
    /// Marks on a terminal, else words.
    pub(super) fn of_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Marks } else { Self::Words }
    }

    fn of(self, verdict: &Verdict) -> &'static str {
        match (self, verdict) {
            (Self::Words, verdict) => verdict.word(),
            (Self::Marks, Verdict::Fine) => "✓",
            (Self::Marks, Verdict::Warning { .. }) => "!",
            (Self::Marks, Verdict::Problem { .. }) => "✗",
        }
    }

    fn width(self) -> usize {
        if self == Self::Words { "problem".len() } else { 1 }
    }
}

/// `path_owner`: the process with the PATH on which commands were searched.
pub(super) fn render(groups: &[Group], path_owner: &str, signs: Signs, style: OutputStyle) -> String {
    let groups_with_any = groups.iter().filter(|group| !group.findings.is_empty());
    let mut shown_paths = HashSet::new();
    let mut text: String =
        groups_with_any.map(|group| group_text(group, path_owner, &mut shown_paths, signs, style) + "\n").collect();
    let (warnings, problems) = count(groups);
    let tone = match (problems, warnings) {
        (1.., _) => Tone::Bad,
        (0, 1..) => Tone::Doubtful,
        (0, 0) => Tone::Good,
    };
    text += &style.paint(tone, &summary(warnings, problems));
    text + "\n"
}

/// `shown_paths`: the lines about a searched PATH in the groups above.
fn group_text(
    group: &Group,
    path_owner: &str,
    shown_paths: &mut HashSet<String>,
    signs: Signs,
    style: OutputStyle,
) -> String {
    let length = |finding: &Finding| one_line(&finding.about).chars().count();
    let lengths = group.findings.iter().map(length);
    let width = lengths.filter(|length| *length <= MAX_SUBJECT_WIDTH).max().unwrap_or_default();
    let mut text = style.paint(Tone::Head, group.title) + "\n";
    let indent = 2 + signs.width() + 1;
    for finding in &group.findings {
        text += &line(finding, width, signs, style);
        for path in searched_paths([&*finding.found].into_iter(), path_owner) {
            if shown_paths.insert(path.clone()) {
                text += &format!("{}{}\n", " ".repeat(indent), wrap(&path, indent, indent, style.width()));
            }
        }
    }
    text
}

fn line(finding: &Finding, width: usize, signs: Signs, style: OutputStyle) -> String {
    let tone = match finding.verdict {
        Verdict::Fine => Tone::Good,
        Verdict::Warning { .. } => Tone::Doubtful,
        Verdict::Problem { .. } => Tone::Bad,
    };
    let sign = style.paint(tone, &format!("{:1$}", signs.of(&finding.verdict), signs.width()));
    let inner = 2 + signs.width() + 1;
    let indent = " ".repeat(inner);
    let about = format!("{:width$}", one_line(&finding.about));
    let found = one_line(split_searched_path(&finding.found).0);
    let first = inner + about.width() + 2;
    let is_apart = |width| first + found.split(' ').next().unwrap_or_default().width() > width;
    // A path that has no room there stands in a line of its own: one in pieces cannot be copied.
    let mut text = if style.width().is_some_and(is_apart) {
        let found = wrap(&found, inner + 4, inner + 4, style.width());
        format!("  {sign} {}\n{indent}    {found}\n", about.trim_end())
    } else {
        format!("  {sign} {about}  {}\n", wrap(&found, first, inner + 4, style.width()))
    };
    for line in &finding.lines {
        text += &style.paint(Tone::Faint, &format!("{indent}  | {}", one_line(line)));
        text += "\n";
    }
    if let Some(advice) = finding.verdict.advice() {
        if let Some(place) = place(finding) {
            text += &format!("{indent}at {}\n", wrap(&one_line(&place), inner + 3, inner + 3, style.width()));
        }
        text += &format!("{indent}→ {}\n", wrap(&one_line(advice), inner + 2, inner + 2, style.width()));
    }
    text
}

/// Where the server is configured, with its name there if mcpd uses another.
fn place(finding: &Finding) -> Option<String> {
    let Definition { title, location: place, .. } = finding.definition.as_ref()?;
    Some(if *title == finding.about { place.clone() } else { format!("{place}, where it is called `{title}`") })
}

fn summary(warnings: usize, problems: usize) -> String {
    match (problems, warnings) {
        (0, 0) => "no problem found".to_owned(),
        (0, _) => format!("no problem found, {}", text::count(warnings, "warning")),
        (_, 0) => text::count(problems, "problem"),
        _ => format!("{}, {}", text::count(problems, "problem"), text::count(warnings, "warning")),
    }
}

/// All checks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// Version of this `mcpd`.
    version: &'static str,
    /// Number of problems.
    problems: usize,
    /// Number of warnings.
    warnings: usize,
    /// In the order of the printed report.
    findings: Vec<JsonFinding<'a>>,
}

/// One check.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonFinding<'a> {
    /// Title of the group.
    group: &'static str,
    /// `ok`, `warning` or `problem`.
    level: &'static str,
    /// What was checked.
    about: &'a str,
    /// What was found.
    found: &'a str,
    /// For a server that is down, as in `mcpd status`.
    code: Option<&'a str>,
    /// What to do; absent if the level is `ok`.
    advice: Option<&'a str>,
    /// Quoted text, such as the last stderr lines of a server.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    lines: &'a [String],
    /// For a server, `FILE:LINE` of its definition.
    place: Option<&'a str>,
    /// For a server, its name in that file.
    title: Option<&'a str>,
}

fn json_finding<'a>(group: &'static str, finding: &'a Finding) -> JsonFinding<'a> {
    let Finding { about, found, verdict, code, lines, definition } = finding;
    let (place, title) = definition.as_ref().map(|one| (&*one.location, &*one.title)).unzip();
    JsonFinding {
        group,
        level: verdict.word(),
        about,
        found,
        code: code.as_deref(),
        advice: verdict.advice(),
        lines,
        place,
        title,
    }
}

pub(super) fn print_json(groups: &[Group]) -> Result<(), ExitCode> {
    let (warnings, problems) = count(groups);
    let findings =
        groups.iter().flat_map(|group| group.findings.iter().map(|finding| json_finding(group.title, finding)));
    let findings = findings.collect();
    json::try_print_page(&JsonReport { version: env!("CARGO_PKG_VERSION"), problems, warnings, findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group> {
        let findings = vec![
            Finding::fine("git", "ready"),
            Finding::problem("notes", "backoff: exited\u{1b}[2J", "`mcpd logs notes`")
                .with_lines(["no\nwords".to_owned()]),
            Finding::warning("a name that is much too long for its column", "slow", "wait"),
        ];
        vec![Group { title: "servers", findings }, Group { title: "nothing", findings: Vec::new() }]
    }

    #[test]
    fn each_line_has_a_subject_and_its_advice_on_the_next_line() {
        let text = render(&groups(), "this shell", Signs::Words, OutputStyle::PLAIN);
        assert_eq!(
            text,
            "servers\n  ok      git    ready\n  problem notes  backoff: exited\\u{1b}[2J\n            | no\\nwords\n          → \
             `mcpd logs notes`\n  warning a name that is much too long for its column  slow\n          → wait\n\n1 problem, 1 warning\n"
        );
        let marked = render(&groups(), "this shell", Signs::Marks, OutputStyle::PLAIN);
        assert!(marked.contains("  ✗ notes  ") && marked.contains("\n    → wait"), "{marked}");
    }

    #[test]
    fn sentences_wrap_at_the_width_of_the_terminal() {
        let text = render(&groups(), "this shell", Signs::Marks, OutputStyle::of_width(24));
        assert!(text.contains("  ✗ notes  backoff:\n        exited\\u{1b}[2J\n"), "{text}");
        assert!(text.contains("    → `mcpd logs notes`\n"), "{text}");
        assert!(text.contains("its column\n        slow\n"), "{text}");
    }

    #[test]
    fn last_line_counts_problems_and_warnings() {
        for (warnings, problems, expected) in [
            (0, 0, "no problem found"),
            (1, 0, "no problem found, 1 warning"),
            (0, 2, "2 problems"),
            (3, 1, "1 problem, 3 warnings"),
        ] {
            assert_eq!(summary(warnings, problems), expected);
        }
    }
}
