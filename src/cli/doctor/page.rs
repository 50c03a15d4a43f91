//! Prints the findings as text and as JSON.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde::Serialize;
use serde_with::skip_serializing_none;
use unicode_width::UnicodeWidthStr;

use super::finding::{Finding, Group, Verdict, count};
use crate::cli::outcome::try_print_report;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{self, one_line, searched_paths, split_searched_path, wrap};
use crate::config::Definition;

/// Maximum width of the subject column, in characters. A longer subject moves only its own line.
const MAX_SUBJECT_WIDTH: usize = 24;

/// Findings below the first problem from which on the problems are repeated at the end: more than a screen.
const MANY_BELOW: usize = 20;

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

/// `path_owner`: the process with the PATH on which commands were searched. `fix`: the command that changes what can be fixed.
pub(super) fn render(groups: &[Group], path_owner: &str, fix: &str, signs: Signs, style: OutputStyle) -> String {
    let findings = groups.iter().flat_map(|group| &group.findings);
    let is_long = findings.skip_while(|finding| !is_problem(finding)).count() > MANY_BELOW;
    let again = is_long.then(|| short("problems", groups, is_problem));
    let mut shown_paths = HashSet::new();
    let groups_with_any = groups.iter().chain(&again).filter(|group| !group.findings.is_empty());
    let text: String =
        groups_with_any.map(|group| group_text(group, path_owner, &mut shown_paths, signs, style) + "\n").collect();
    text + &last_line(groups, fix, style)
}

/// Prints what is left after `--fix`.
pub(super) fn render_left(groups: &[Group], path_owner: &str, fix: &str, signs: Signs, style: OutputStyle) -> String {
    let left = short("left", groups, |finding| finding.verdict.advice().is_some());
    let text = match left.findings.is_empty() {
        true => String::new(),
        false => group_text(&left, path_owner, &mut HashSet::new(), signs, style),
    };
    format!("\n{text}{}", last_line(groups, fix, style))
}

fn is_problem(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Problem { .. })
}

/// These findings of all groups, problems first, without quoted lines and places.
fn short(title: &'static str, groups: &[Group], is_shown: impl Fn(&Finding) -> bool) -> Group {
    let findings = groups.iter().flat_map(|group| &group.findings).filter(|finding| is_shown(finding));
    let short = |finding: &Finding| Finding { lines: Vec::new(), definition: None, ..finding.clone() };
    let mut findings: Vec<_> = findings.map(short).collect();
    findings.sort_by_key(|finding| !is_problem(finding));
    Group { title, findings }
}

fn last_line(groups: &[Group], fix: &str, style: OutputStyle) -> String {
    let (warnings, problems) = count(groups);
    let tone = match (problems, warnings) {
        (1.., _) => Tone::Bad,
        (0, 1..) => Tone::Doubtful,
        (0, 0) => Tone::Good,
    };
    let fixable = groups.iter().flat_map(|group| &group.findings).filter(|finding| finding.fix.is_some()).count();
    let fixes = if fixable > 0 { format!("; {fix} fixes {fixable}") } else { String::new() };
    format!("{}\n", style.paint(tone, &(summary(warnings, problems) + &fixes)))
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
    let Finding { about, found, verdict, code, lines, definition, .. } = finding;
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
    try_print_report(&JsonReport { version: env!("CARGO_PKG_VERSION"), problems, warnings, findings })
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
        let text = render(&groups(), "this shell", "`mcpd doctor --fix`", Signs::Words, OutputStyle::PLAIN);
        assert_eq!(
            text,
            "servers\n  ok      git    ready\n  problem notes  backoff: exited\\u{1b}[2J\n            | no\\nwords\n          → \
             `mcpd logs notes`\n  warning a name that is much too long for its column  slow\n          → wait\n\n1 problem, 1 warning\n"
        );
        let marked = render(&groups(), "this shell", "`mcpd doctor --fix`", Signs::Marks, OutputStyle::PLAIN);
        assert!(marked.contains("  ✗ notes  ") && marked.contains("\n    → wait"), "{marked}");
    }

    #[test]
    fn problems_of_a_long_report_are_repeated_at_its_end() {
        for (servers, expected) in [(MANY_BELOW - 3, 1), (MANY_BELOW, 2)] {
            let mut groups = groups();
            groups[0].findings.extend((0..servers).map(|server| Finding::fine(server.to_string(), "ready")));
            let text = render(&groups, "this shell", "", Signs::Words, OutputStyle::PLAIN);
            assert_eq!(text.matches("problem notes  backoff").count(), expected, "{text}");
        }
        let end = "problems\n  problem notes  backoff: exited\\u{1b}[2J\n          → `mcpd logs notes`\n\n1 problem, 1 warning\n";
        let mut groups = groups();
        groups[0].findings.extend((0..MANY_BELOW).map(|server| Finding::fine(server.to_string(), "ready")));
        let text = render(&groups, "this shell", "", Signs::Words, OutputStyle::PLAIN);
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn sentences_wrap_at_the_width_of_the_terminal() {
        let text = render(&groups(), "this shell", "`mcpd doctor --fix`", Signs::Marks, OutputStyle::of_width(24));
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
