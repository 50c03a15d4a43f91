//! A unified diff of two texts.

use std::fmt::Write as _;
use std::path::Path;

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices, group_diff_ops};

use crate::cli::text::one_line;
use crate::config;
use crate::printable;

/// Unchanged lines before and after a change.
const CONTEXT: usize = 3;

/// The diff from `old` to `new`, both texts of the configuration file at `path`, without secrets. Of a text that does not parse, nothing is
/// shown.
pub(in crate::cli) fn masked(old: &str, new: &str, path: &Path, colour: bool) -> String {
    let shown = |text: &str| config::masked(path, text.trim_start_matches('\u{feff}'));
    match (shown(old), shown(new)) {
        (Some(old), Some(new)) => unified(&old, &new, path, colour),
        _ => {
            let path = one_line(&path.display().to_string());
            format!("--- {path}\n+++ {path}\n(not shown, as secrets cannot be found in a text that does not parse)\n")
        }
    }
}

/// The diff from `old` to `new`, both texts of the file at `path`. Empty if they are equal.
pub(in crate::cli) fn unified(old: &str, new: &str, path: &Path, colour: bool) -> String {
    let (olds, news): (Vec<_>, Vec<_>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    if old == new {
        return String::new();
    }
    let path = one_line(&path.display().to_string());
    let (mut text, none) = (String::new(), "/dev/null".to_owned());
    let [from, to] = [old, new].map(|side| if side.is_empty() { &none } else { &path });
    push(&mut text, colour, "1", &format!("--- {from}\n"));
    push(&mut text, colour, "1", &format!("+++ {to}\n"));
    for hunk in group_diff_ops(capture_diff_slices(Algorithm::Myers, &olds, &news), CONTEXT) {
        push(&mut text, colour, "36", &header(&hunk));
        for change in hunk.iter().flat_map(|op| op.iter_changes(&olds, &news)) {
            let (sign, code) = match change.tag() {
                ChangeTag::Equal => (' ', ""),
                ChangeTag::Delete => ('-', "31"),
                ChangeTag::Insert => ('+', "32"),
            };
            let line = change.value();
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            push(&mut text, colour, code, &format!("{sign}{}{end}", printable::lines(line)));
        }
    }
    text
}

/// The line above a hunk, with its ranges of lines in both texts.
fn header(hunk: &[DiffOp]) -> String {
    let range = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = hunk.first().map_or(0, |op| of(op).start);
        let lines = hunk.last().map_or(0, |op| of(op).end) - start;
        format!("{},{lines}", if lines == 0 { start } else { start + 1 })
    };
    format!("@@ -{} +{} @@\n", range(DiffOp::old_range), range(DiffOp::new_range))
}

/// Appends a line, in colour if `colour` is set and `code` is not empty.
fn push(text: &mut String, colour: bool, code: &str, line: &str) {
    let _ = match line.strip_suffix('\n').filter(|_| colour && !code.is_empty()) {
        Some(line) => writeln!(text, "\u{1b}[{code}m{line}\u{1b}[0m"),
        None => write!(text, "{line}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified(old, new, Path::new("/c"), false), expected);
    }

    #[test]
    fn added_lines_are_shown_with_the_lines_above_them() {
        check("", "a\n", "--- /dev/null\n+++ /c\n@@ -0,0 +1,1 @@\n+a\n");
        check("a\n", "a\n", "");
        let old = "1\n2\n3\n4\n";
        check(old, "1\n2\n3\n4\n5\n", "--- /c\n+++ /c\n@@ -2,3 +2,4 @@\n 2\n 3\n 4\n+5\n");
        check(old, "1\nx\n3\n4\n", "--- /c\n+++ /c\n@@ -1,4 +1,4 @@\n 1\n-2\n+x\n 3\n 4\n");
        let unended =
            "--- /c\n+++ /c\n@@ -1,1 +1,2 @@\n-1\n\\ No newline at end of file\n+1\n+2\n\\ No newline at end of file\n";
        check("1", "1\n2", unended);
    }

    #[test]
    fn distant_changes_have_hunks_of_their_own() {
        let old: String = (1..=12).map(|line| format!("{line}\n")).collect();
        let new = old.replace("2\n3\n", "2\nx\n3\n").replace("11\n", "");
        let expected =
            "--- /c\n+++ /c\n@@ -1,5 +1,6 @@\n 1\n 2\n+x\n 3\n 4\n 5\n@@ -8,5 +9,4 @@\n 8\n 9\n 10\n-11\n 12\n";
        check(&old, &new, expected);
    }

    #[test]
    fn colours_are_for_terminals() {
        let shown = unified("", "a\u{1b}[2J\n", Path::new("/c"), true);
        assert!(shown.contains("\u{1b}[32m+a\\u{1b}[2J\u{1b}[0m\n"), "{shown:?}");
    }
}
