//! The program of a `${cmd:PROGRAM ARGS}`, which prints a secret. Only a start of its server runs it.
//!
//! Until then the text has a placeholder. Pure.

use std::fmt;

use super::interpolate::{TemplateError, malformed};
use crate::printable::one_line;

/// A program and its arguments, split without a shell. `Debug` prints no argument.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretCommand {
    /// As written.
    line: String,
    words: Vec<String>,
}

/// What programs have printed, to replace the placeholders of their references. No `Debug`.
#[derive(Default)]
pub(crate) struct CommandOutputs(Vec<(String, String)>);

impl SecretCommand {
    /// Splits `line` at blanks that are not quoted.
    pub(super) fn parse(line: &str) -> Result<Self, TemplateError> {
        let words = shlex::split(line).ok_or_else(|| {
            malformed("`${cmd:…}` has an open quote", "close it, or write `\\` before a literal quote")
        })?;
        if words.first().is_none_or(String::is_empty) {
            return Err(malformed(
                "`${cmd:…}` needs a program",
                "write its name and arguments, such as `${cmd:op read op://vault/item}`",
            ));
        }
        Ok(Self { line: line.to_owned(), words })
    }

    /// The length of the command line at the start of `text`, which ends before the first `}` outside of quotes.
    pub(super) fn end_in(text: &str) -> Option<usize> {
        let (mut quote, mut is_escaped) = (None, false);
        for (at, c) in text.char_indices() {
            match (quote, c) {
                _ if std::mem::take(&mut is_escaped) => {}
                (Some('"') | None, '\\') => is_escaped = true,
                (None, '}') => return Some(at),
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                _ => {}
            }
        }
        None
    }

    /// The program's name or path, as written.
    pub(crate) fn program(&self) -> &str {
        &self.words[0]
    }

    pub(crate) fn args(&self) -> &[String] {
        &self.words[1..]
    }

    /// The reference for messages, without arguments, which may be secrets.
    pub(crate) fn reference(&self) -> String {
        format!("${{cmd:{}{}}}", one_line(self.program()), if self.args().is_empty() { "" } else { " …" })
    }

    /// Stands in texts for the output. No other text can contain a NUL.
    pub(super) fn placeholder(&self) -> String {
        format!("\0{{cmd:{}\0}}", self.line)
    }
}

impl fmt::Debug for SecretCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reference())
    }
}

impl CommandOutputs {
    pub(crate) fn add(&mut self, command: &SecretCommand, output: String) {
        self.0.push((command.placeholder(), output));
    }

    /// `text` with these outputs.
    pub(super) fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (placeholder, output)| text.replace(placeholder, output))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, output)| output.as_str())
    }
}
