//! A unified diff of two texts that differ in one place.

use std::fmt::Write as _;
use std::path::Path;

use crate::cli::text::one_line;
use crate::printable;

/// Unchanged lines before and after the change.
const CONTEXT: usize = 3;

/// The diff from `old` to `new`, both texts of the file at `path`. Empty if they are equal.
pub(in crate::cli) fn unified(old: &str, new: &str, path: &Path, colour: bool) -> String {
    let (olds, news): (Vec<_>, Vec<_>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = olds.iter().zip(&news).take_while(|(old, new)| old == new).count();
    let (olds_left, news_left) = (&olds[same..], &news[same..]);
    let same_end = olds_left.iter().rev().zip(news_left.iter().rev()).take_while(|(old, new)| old == new).count();
    let (removed, added) = (&olds_left[..olds_left.len() - same_end], &news_left[..news_left.len() - same_end]);
    if removed.is_empty() && added.is_empty() {
        return String::new();
    }
    let before = &olds[same.saturating_sub(CONTEXT)..same];
    let after = &olds[same + removed.len()..olds.len().min(same + removed.len() + CONTEXT)];
    let start = same - before.len();
    let range = |changed: usize| {
        let lines = before.len() + changed + after.len();
        format!("{},{lines}", if lines == 0 { start } else { start + 1 })
    };
    let path = one_line(&path.display().to_string());
    let mut text = String::new();
    let from = if old.is_empty() { "/dev/null".to_owned() } else { path.clone() };
    push(&mut text, colour, "1", &format!("--- {from}\n"));
    push(&mut text, colour, "1", &format!("+++ {path}\n"));
    push(&mut text, colour, "36", &format!("@@ -{} +{} @@\n", range(removed.len()), range(added.len())));
    for (lines, sign, code) in [(before, ' ', ""), (removed, '-', "31"), (added, '+', "32"), (after, ' ', "")] {
        for line in lines {
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            push(&mut text, colour, code, &format!("{sign}{}{end}", printable::lines(line)));
        }
    }
    text
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
    fn colours_are_for_terminals() {
        let shown = unified("", "a\u{1b}[2J\n", Path::new("/c"), true);
        assert!(shown.contains("\u{1b}[32m+a\\u{1b}[2J\u{1b}[0m\n"), "{shown:?}");
    }
}
