//! Splits command lines that were written in place of a program and its arguments.
//!
//! Input is the text, output are the keys to write instead.

use std::path::Path;

use super::secret::in_arguments;
use super::serialize::toml_string;
use super::{json, yaml};
use crate::client_files::Syntax;

/// First words that require a shell.
const BUILTINS: [&str; 4] = [".", "cd", "export", "source"];
/// Shell operators that are separate words.
const OPERATORS: [&str; 5] = ["&", "&&", "|", "||", ";"];

/// The language of the configuration file at `path` with this `text`.
pub(super) fn syntax_of(path: &Path, text: &str) -> Syntax {
    if yaml::is_yaml(path) {
        Syntax::Yaml
    } else if json::is_json(path, text) {
        Syntax::Json
    } else {
        Syntax::Toml
    }
}

/// A key with its value.
pub(crate) fn assignment(syntax: Syntax, key: &str, value: &str) -> String {
    match syntax {
        Syntax::Toml => format!("`{key} = {value}`"),
        Syntax::Json => format!("`\"{key}\": {value}`"),
        Syntax::Yaml => format!("`{key}: {value}`"),
    }
}

/// Whether a word is the URL of a server.
pub(crate) fn is_url(word: &str) -> bool {
    ["https://", "http://", "unix:"].iter().any(|start| word.starts_with(start))
}

/// The words of `text`, if it is a command line with arguments. The first word is the program, or a shell if the text needs one.
pub(crate) fn command_line(text: &str) -> Option<Vec<String>> {
    if needs_shell(text) {
        return Some(["sh", "-c", text].map(str::to_owned).into());
    }
    shlex::split(text).filter(|words| words.len() > 1)
}

/// Why `command` cannot run, if it is a command line instead of a program.
pub(crate) fn mistaken_for_program(command: &str) -> Option<String> {
    let words = command_line(command)?;
    // A path with a blank is not a command line.
    let is_program = words.first().is_some_and(|first| !first.contains('/') || Path::new(first).is_file());
    let shown = without_secrets(&command.split_whitespace().collect::<Vec<_>>()).join(" ");
    is_program.then(|| format!("`{shown}` is a command line: `command` takes the program alone, `args` its arguments"))
}

/// The interpreter of a script whose first line ends with CRLF, so that no interpreter of that name exists.
///
/// `start`: the beginning of the script. An interpreter may ignore a CR after an argument.
pub(crate) fn interpreter_with_cr(start: &[u8]) -> Option<&str> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.strip_suffix(b"\r")?;
    let words: Vec<_> = str::from_utf8(line).ok()?.split_whitespace().collect();
    match words[..] {
        [interpreter] => Some(interpreter),
        [env, interpreter] if env.ends_with("/env") => Some(interpreter),
        _ => None,
    }
}

/// What [`interpreter_with_cr`] prevents, and the command that corrects it.
pub(crate) fn cr_complaint(interpreter: &str, script: &Path) -> (String, String) {
    let complaint = format!("has a first line that ends with CRLF, so its interpreter `{interpreter}\\r` is not found");
    (
        complaint,
        format!("`sed -i 's/\\r$//' {}` converts it", shlex::try_quote(&script.to_string_lossy()).unwrap_or_default()),
    )
}

/// Splits `text` into arguments.
pub(super) fn arguments(text: &str) -> Vec<String> {
    shlex::split(text).unwrap_or_else(|| vec![text.to_owned()])
}

/// `words` without likely secrets, for messages.
pub(crate) fn without_secrets<S: AsRef<str>>(words: &[S]) -> Vec<String> {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    let secrets = in_arguments(&words);
    let shown =
        |(index, word): (usize, &&str)| if secrets.contains(&index) { "…".to_owned() } else { (*word).to_owned() };
    words.iter().enumerate().map(shown).collect()
}

/// `command` and `args` with these words, for a help text. `has_more` means that further arguments follow.
pub(crate) fn keys<S: AsRef<str>>(words: &[S], has_more: bool, syntax: Syntax) -> String {
    let shown = without_secrets(words);
    let Some((program, args)) = shown.split_first() else { return assignment(syntax, "command", "\"npx\"") };
    let command = assignment(syntax, "command", &toml_string(program));
    if args.is_empty() && !has_more {
        return command;
    }
    format!("{command} and {}", assignment(syntax, "args", &list(args, has_more)))
}

/// A list of texts in the syntax of the file.
pub(super) fn list(texts: &[String], has_more: bool) -> String {
    let items = texts.iter().map(|text| toml_string(text)).chain(has_more.then(|| "…".to_owned()));
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn needs_shell(text: &str) -> bool {
    let words: Vec<_> = text.split_whitespace().collect();
    let [first, _, ..] = words[..] else { return false };
    let is_assignment = first
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let is_shells = |word: &&str| {
        OPERATORS.contains(word)
            || word.starts_with(['<', '>'])
            || word.ends_with(';')
            || word.contains('`')
            || word.contains("$(")
    };
    is_assignment || BUILTINS.contains(&first) || words.iter().any(is_shells)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn command_line_is_split_as_a_shell_splits_it_or_left_to_a_shell() {
        for (text, expected) in [
            ("npx", None),
            ("  npx  ", None),
            ("npx -y pkg", Some(&["npx", "-y", "pkg"][..])),
            ("npx  -y\t'a b' \"c d\" e\\ f", Some(&["npx", "-y", "a b", "c d", "e f"])),
            ("uvx x --dir ${HOME}/x", Some(&["uvx", "x", "--dir", "${HOME}/x"])),
            ("npx x https://x/?a=1&b=2;c", Some(&["npx", "x", "https://x/?a=1&b=2;c"])),
            ("cd /x && y", Some(&["sh", "-c", "cd /x && y"])),
            ("x 2 | y", Some(&["sh", "-c", "x 2 | y"])),
            ("A=b x", Some(&["sh", "-c", "A=b x"])),
            ("x >/dev/null", Some(&["sh", "-c", "x >/dev/null"])),
            ("x $(y)", Some(&["sh", "-c", "x $(y)"])),
            ("npx 'x", None),
            ("", None),
        ] {
            let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            assert_eq!(command_line(text), expected, "{text}");
        }
    }

    #[test]
    fn help_has_the_words_as_the_file_spells_them_and_no_secret() {
        let words = ["npx", "--token", "hunter22", "a\"b"];
        assert_eq!(keys(&words, false, Syntax::Toml), r#"`command = "npx"` and `args = ["--token", "…", "a\"b"]`"#);
        assert_eq!(keys(&words[..1], false, Syntax::Json), r#"`"command": "npx"`"#);
        assert_eq!(keys(&words[..1], true, Syntax::Toml), r#"`command = "npx"` and `args = […]`"#);
        assert_eq!(keys::<&str>(&[], false, Syntax::Toml), r#"`command = "npx"`"#);
    }

    proptest! {
        #[test]
        fn words_that_were_joined_for_a_shell_are_split_again(words in prop::collection::vec("[a-z =$\"'\\\\#é-]{1,8}", 2..6)) {
            let line = shlex::try_join(words.iter().map(String::as_str)).expect("no NUL");
            if !needs_shell(&line) {
                prop_assert_eq!(command_line(&line), Some(words));
            }
        }
    }
}
