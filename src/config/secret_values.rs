//! Secrets of a launch, and the programs of `${cmd:PROGRAM ARGS}`, which print secrets. No `Debug` in this module prints a value.
//!
//! Only a start of its server runs a program. Until then the text has a placeholder. Pure.

use std::fmt;
use std::sync::{Arc, PoisonError};
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one copy or change, without waiting")]
use std::sync::{Mutex, MutexGuard};

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

/// The values of `${file:…}` and `${cred:…}`, and the programs of `${cmd:…}`. `Debug` prints the number of values.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
    commands: Vec<SecretCommand>,
    /// The values that were read since. Copies share them.
    #[expect(clippy::disallowed_types, reason = "see the import")]
    later: Arc<Mutex<Vec<String>>>,
}

/// The placeholder for an agent's working directory in texts of [`Launch`]. No other text can contain a NUL.
pub(crate) const AGENT_CWD: &str = "\0{cwd}";

impl Secrets {
    /// Adds a secret.
    pub(super) fn add(&mut self, secret: &str) {
        add_new(&mut self.values, secret);
    }

    /// Adds the program of a `${cmd:…}`.
    pub(super) fn add_command(&mut self, command: &SecretCommand) {
        if !self.commands.contains(command) {
            self.commands.push(command.clone());
        }
    }

    /// The programs of `${cmd:…}`.
    pub(super) fn commands(&self) -> &[SecretCommand] {
        &self.commands
    }

    /// Adds a secret to this and all its copies.
    pub(super) fn add_later(&self, secret: &str) {
        add_new(&mut self.later(), secret);
    }

    /// The values that were known when the configuration was loaded.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// All values that are known by now.
    pub(super) fn all(&self) -> Vec<String> {
        self.values.iter().cloned().chain(self.later().iter().cloned()).collect()
    }

    /// `text` without the placeholders of programs.
    pub(super) fn without_placeholders(&self, text: &str) -> String {
        self.commands.iter().fold(text.to_owned(), |text, command| text.replace(&command.placeholder(), ""))
    }

    /// Whether there are programs of `${cmd:…}`.
    pub(crate) fn runs_programs(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether it has neither values nor programs.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.commands.is_empty()
    }

    /// `text` with all secrets masked.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut all = self.later().clone();
        if all.is_empty() {
            return self.masked_as_loaded(text);
        }
        self.values.iter().for_each(|secret| add_new(&mut all, secret));
        self.mask(&all, text)
    }

    /// `text` with the secrets masked that were known when the configuration was loaded.
    pub(crate) fn masked_as_loaded(&self, text: &str) -> String {
        self.mask(&self.values, text)
    }

    fn mask(&self, values: &[String], text: &str) -> String {
        let text =
            self.commands.iter().fold(text.to_owned(), |text, command| text.replace(&command.placeholder(), "…"));
        values.iter().fold(text, |text, secret| text.replace(secret, "…"))
    }

    fn later(&self) -> MutexGuard<'_, Vec<String>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares what was known when the configuration was loaded.
impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        (&self.values, &self.commands) == (&other.values, &other.commands)
    }
}

impl Eq for Secrets {}

fn add_new(secrets: &mut Vec<String>, secret: &str) {
    if !secret.is_empty() && !secrets.iter().any(|known| known == secret) {
        secrets.push(secret.to_owned());
        // Mask long secrets first: a short one may be a part of a long one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&(self.values.len() + self.later().len())).finish()
    }
}
