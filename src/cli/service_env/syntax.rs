//! The syntax of systemd's `EnvironmentFile=`. Pure.
//!
//! Source: systemd.exec(5), `EnvironmentFile=`. A value in double quotes may span lines; a backslash takes the meaning from `"`, `\`,
//! `` ` `` and `$`. Other control characters than tab and line feed make systemd drop a variable, and log its value.

use std::collections::BTreeMap;

/// Whether systemd accepts a variable with this name and value in a file.
pub(super) fn can_hold(name: &str, value: &str) -> bool {
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_forbidden = |c: char| (u32::from(c) < 0x20 || c == '\u{7f}') && !matches!(c, '\t' | '\n');
    is_name && !value.contains(is_forbidden)
}

/// One line with its line feed.
pub(super) fn assignment(name: &str, value: &str) -> String {
    let mut line = format!("{name}=\"");
    for c in value.chars() {
        if NEEDS_ESCAPE.contains(&c) {
            line.push('\\');
        }
        line.push(c);
    }
    line + "\"\n"
}

const NEEDS_ESCAPE: [char; 4] = ['"', '\\', '`', '$'];

/// Parses comments and [`assignment`]s. Skips other lines.
pub(super) fn parse(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = rest.split('\n').next().unwrap_or_default();
        let quoted = line.split_once("=\"").filter(|(name, _)| can_hold(name, ""));
        let Some((name, _)) = quoted else {
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            continue;
        };
        let (value, behind) = unquoted(&rest[name.len() + 2..]);
        variables.insert(name.to_owned(), value);
        rest = behind.split_once('\n').map_or("", |(_, rest)| rest);
    }
    variables
}

/// The text before the closing quote, and the text after it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, escaped)) if NEEDS_ESCAPE.contains(&escaped) => value.push(escaped),
                Some((_, '\n')) | None => {}
                Some((_, other)) => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_quoted_as_systemd_reads_them() {
        assert_eq!(assignment("A", r#"a "b" $c \d `e`"#), "A=\"a \\\"b\\\" \\$c \\\\d \\`e\\`\"\n");
        assert_eq!(assignment("B", "one\ntwo # three"), "B=\"one\ntwo # three\"\n");
    }

    #[test]
    fn values_that_systemd_would_drop_and_log_are_not_written() {
        for (name, value, expected) in [
            ("A", "tab\tand\nline feed, ä€😀", true),
            ("_a1", "", true),
            ("A", "\r", false),
            ("A", "\u{1b}[m", false),
            ("A", "\u{7f}", false),
            ("1A", "x", false),
            ("A-B", "x", false),
            ("", "x", false),
        ] {
            assert_eq!(can_hold(name, value), expected, "{name}={value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_read(
            variables in proptest::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", "([ -~\t\nä€😀]|[\"\\\\`$#;='\n]){0,40}", 0..6),
        ) {
            let text = variables.iter().fold("# A comment\n".to_owned(), |text, (name, value)| {
                text + &assignment(name, value)
            });
            prop_assert_eq!(parse(&text), variables);
        }

        #[test]
        fn any_text_can_be_read(text in any::<String>()) {
            parse(&text);
        }
    }
}
