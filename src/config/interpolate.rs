//! `${…}` references in texts of the configuration: parsed once, expanded from [`Sources`].
//!
//! ```text
//! ${NAME}  ${env:NAME}      an environment variable of the daemon
//! ${NAME:-default}          with a default (possibly empty) if the variable is unset or empty
//! ${file:PATH}              the text of a file, without its last line break; PATH begins with / or ~/
//! ${cred:NAME}              a systemd credential: the file NAME in $CREDENTIALS_DIRECTORY
//! ${cmd:PROGRAM ARGS}       what the program prints, without its last line break; it runs at each start of the server
//! ${agent:cwd}              the working directory of the instance's agents
//! $${                       a literal ${
//! ```
//!
//! Without a default, an unset or empty value is an error, so that no server starts with an empty secret.
//!
//! References do not nest, and values are not expanded again: a `${` in a value stays.

mod sources;
#[cfg(test)]
pub(crate) mod tests;
mod unusable;

use std::path::{Path, PathBuf};

pub(crate) use self::sources::Environment;
pub use self::sources::{FileId, FileText, Permissions, Process, Sources};
pub use self::unusable::UnusableValue;
pub(super) use self::unusable::{TemplateError, malformed};
use super::secret::{is_secret_name, is_secret_value, secrets_of_variable};
use super::secret_values::SecretCommand;
use super::{AGENT_CWD, Secrets};

/// Maximum size of the file of a `${file:…}` or `${cred:…}`: more than an argument or a variable can hold.
const MAX_FILE: u64 = 1 << 20;

/// The text in the configuration that stands for exactly `text`.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// A text with parsed references. `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// The source text.
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Variable { name: String, default: Option<String> },
    File(String),
    Credential(String),
    Command(SecretCommand),
    AgentCwd,
    Home,
}

impl Template {
    /// Parses the references in `text`.
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$${") {
                literal.push_str("${");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let (body, after) = split_reference(after).ok_or_else(unclosed)?;
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(reference(body)?);
                rest = after;
            } else {
                literal.push('$');
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        pieces.push(Piece::Literal(literal));
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// Parses a path. A leading `~/` is the home directory.
    pub(super) fn parse_path(text: &str) -> Result<Self, TemplateError> {
        let Some(rest) = text.strip_prefix("~/") else { return Self::parse(text) };
        let Self { mut pieces, .. } = Self::parse(rest)?;
        pieces.insert(0, Piece::Home);
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// The text, if it has no reference.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it is one reference to an environment variable and nothing else.
    pub(super) fn is_variable(&self) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Literal(before), Piece::Variable { .. }, Piece::Literal(after)]
            if before.is_empty() && after.is_empty())
    }

    /// The environment variables that it refers to.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// The source text.
    pub(crate) fn source(&self) -> &str {
        &self.text
    }

    /// The references of the text, without literal text and defaults, which may be secrets.
    pub(super) fn references(&self) -> String {
        self.pieces.iter().map(Piece::reference).collect()
    }

    /// The text for messages: the source text, or only its references if it looks like a secret or runs programs.
    pub(crate) fn shown(&self) -> String {
        if is_secret_value(&self.text) || self.runs_programs() { self.references() } else { self.text.clone() }
    }

    /// The source text with literal parts replaced. `None` if `replaced` changes none of them.
    pub(super) fn with_literals(&self, mut replaced: impl FnMut(&str) -> Option<String>) -> Option<String> {
        let mut is_changed = false;
        let sources: Option<String> = self
            .pieces
            .iter()
            .map(|piece| {
                piece.source(|text| {
                    let new = replaced(text);
                    is_changed |= new.is_some();
                    new
                })
            })
            .collect();
        sources.filter(|_| is_changed)
    }

    /// Expands every reference. Adds to `secrets` the values of `${file:…}`, `${cred:…}` and variables that look like secrets, and the programs of
    /// `${cmd:…}`, which have placeholders.
    pub(super) fn interpolate(&self, sources: &dyn Sources, secrets: &mut Secrets) -> Result<String, UnusableValue> {
        let mut filled = String::new();
        for piece in &self.pieces {
            let value = piece.interpolate(sources)?;
            match piece {
                Piece::File(_) | Piece::Credential(_) => secrets.add(&value),
                Piece::Command(command) => secrets.add_command(command),
                Piece::Variable { name, .. } => {
                    secrets_of_variable(name, &value).iter().for_each(|secret| secrets.add(secret))
                }
                _ => {}
            }
            filled.push_str(&value);
        }
        Ok(filled)
    }

    /// This template with only its `${file:…}` and `${cmd:…}` left to be read; `None` if it has none.
    pub(super) fn rotating(&self, sources: &dyn Sources) -> Result<Option<Self>, UnusableValue> {
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::File(_) | Piece::Command(_))) {
            return Ok(None);
        }
        let resolved = |piece: &Piece| match piece {
            Piece::Command(_) => Ok(piece.clone()),
            Piece::File(path) => whole(path, sources).map(|path| Piece::File(path.to_string_lossy().into_owned())),
            other => other.interpolate(sources).map(Piece::Literal),
        };
        let pieces = self.pieces.iter().map(resolved).collect::<Result<_, _>>()?;
        Ok(Some(Self { text: self.text.clone(), pieces }))
    }

    /// The first reference without a value. Runs no program, but looks for it.
    pub(crate) fn undefined(&self, sources: &dyn Sources) -> Option<UnusableValue> {
        let filled = self.interpolate(sources, &mut Secrets::default());
        filled.err().or_else(|| self.commands().find_map(|command| missing(command, sources)))
    }

    /// Whether it has a `${cmd:…}`.
    pub(super) fn runs_programs(&self) -> bool {
        self.commands().next().is_some()
    }

    /// The programs of its `${cmd:…}` references.
    pub(super) fn commands(&self) -> impl Iterator<Item = &SecretCommand> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Command(command) => Some(command),
            _ => None,
        })
    }

    /// The files of its `${file:…}` references.
    pub(crate) fn files(&self, sources: &dyn Sources) -> Vec<PathBuf> {
        let of_piece = |piece: &Piece| match piece {
            Piece::File(path) => whole(path, sources).ok(),
            _ => None,
        };
        self.pieces.iter().filter_map(of_piece).collect()
    }

    /// Whether a reference is secret by its source or its name.
    pub(crate) fn names_secret(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::File(_) | Piece::Credential(_) | Piece::Command(_) => true,
            Piece::Variable { name, .. } => is_secret_name(name),
            Piece::Literal(_) | Piece::AgentCwd | Piece::Home => false,
        })
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.pieces.len()).finish()
    }
}

impl Piece {
    /// The source text of the reference without its default, which may be a secret.
    fn reference(&self) -> String {
        match self {
            Self::Literal(text) if text.is_empty() => String::new(),
            Self::Literal(_) => "…".to_owned(),
            Self::Variable { name, default: None } => format!("${{{name}}}"),
            Self::Variable { name, default: Some(_) } => format!("${{{name}:-…}}"),
            Self::File(path) => format!("${{file:{path}}}"),
            Self::Credential(name) => format!("${{cred:{name}}}"),
            Self::Command(command) => command.reference(),
            Self::AgentCwd => "${agent:cwd}".to_owned(),
            Self::Home => "~/".to_owned(),
        }
    }

    /// The source text, with another one for a literal. `None` for a program, whose arguments are not kept as written.
    fn source(&self, replaced: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Literal(text) => Some(replaced(text).unwrap_or_else(|| escaped(text))),
            Self::Variable { name, default: Some(default) } => Some(format!("${{{name}:-{default}}}")),
            Self::Command(_) => None,
            other => Some(other.reference()),
        }
    }

    fn interpolate(&self, sources: &dyn Sources) -> Result<String, UnusableValue> {
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::Variable { name, default } => match (sources.var(name), default) {
                (Some(value), _) if !value.is_empty() => Ok(value),
                (_, Some(default)) => Ok(default.clone()),
                (Some(_), None) => Err(UnusableValue::Empty(name.clone())),
                (None, None) => Err(UnusableValue::Variable(name.clone())),
            },
            Self::File(path) => self.contents(&whole(path, sources)?, sources),
            Self::Credential(name) => match sources.var("CREDENTIALS_DIRECTORY") {
                Some(directory) if !directory.is_empty() => self.contents(&Path::new(&directory).join(name), sources),
                _ => Err(UnusableValue::Credential(name.clone())),
            },
            Self::Command(command) => Ok(command.placeholder()),
            Self::AgentCwd => Ok(AGENT_CWD.to_owned()),
            Self::Home => Ok(home(sources)? + "/"),
        }
    }

    /// The text of the file that the reference leads to.
    fn contents(&self, path: &Path, sources: &dyn Sources) -> Result<String, UnusableValue> {
        let failed = |reason| UnusableValue::File { reference: self.reference(), path: path.to_owned(), reason };
        let mut text = sources.read(path, MAX_FILE).map_err(|error| failed(error.to_string()))?;
        if text.contains('\0') {
            return Err(failed("it contains a NUL character, which arguments and variables cannot contain".to_owned()));
        }
        trim_line_break(&mut text);
        if text.is_empty() {
            return Err(failed("it is empty".to_owned()));
        }
        Ok(text)
    }
}

/// The path of a `${file:…}`.
fn whole(path: &str, sources: &dyn Sources) -> Result<PathBuf, UnusableValue> {
    path.strip_prefix("~/").map_or_else(|| Ok(path.into()), |rest| Ok(Path::new(&home(sources)?).join(rest)))
}

/// Removes the last line break, which files and outputs of programs end with.
pub(crate) fn trim_line_break(text: &mut String) {
    if let Some(line) = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')) {
        text.truncate(line.len());
    }
}

/// Why the program cannot be run, if it is not there.
fn missing(command: &SecretCommand, sources: &dyn Sources) -> Option<UnusableValue> {
    let program = command.program();
    let is_there = if program.contains('/') {
        whole(program, sources).is_ok_and(|path| sources.is_program(&path))
    } else {
        sources.on_path(program, &sources.var("PATH").unwrap_or_default()).is_some()
    };
    let reason = format!("`{program}` is not found");
    (!is_there).then(|| UnusableValue::Command { reference: command.reference(), reason })
}

fn home(sources: &dyn Sources) -> Result<String, UnusableValue> {
    sources.home().and_then(|home| home.into_os_string().into_string().ok()).ok_or(UnusableValue::Home)
}

/// Splits the text after `${` at the `}` that closes the reference.
fn split_reference(text: &str) -> Option<(&str, &str)> {
    let Some(line) = text.strip_prefix("cmd:") else { return text.split_once('}') };
    let end = text.len() - line.len() + SecretCommand::end_in(line).or_else(|| line.find('}'))?;
    Some((&text[..end], &text[end + 1..]))
}

fn reference(body: &str) -> Result<Piece, TemplateError> {
    if body.contains("${") {
        return Err(malformed(
            "a reference cannot contain another `${`",
            "write one reference after the other, such as `${A}${B:-b}`",
        ));
    }
    let variable = body.strip_prefix("env:").filter(|rest| !rest.starts_with('-')).unwrap_or(body);
    let (name, default) = variable.split_once(":-").map_or((variable, None), |(name, text)| (name, Some(text)));
    if is_variable_name(name) {
        return Ok(Piece::Variable { name: name.to_owned(), default: default.map(str::to_owned) });
    }
    match body.split_once(':') {
        Some(("file", path)) if path.starts_with('/') || path.starts_with("~/") => Ok(Piece::File(path.to_owned())),
        Some(("file", path)) => Err(malformed(
            format!("`${{file:{path}}}` needs an absolute path"),
            "begin it with `/` or `~/`, such as `${file:~/.secrets/token}`",
        )),
        Some(("cred", name)) if is_credential_name(name) => Ok(Piece::Credential(name.to_owned())),
        Some(("cred", name)) => Err(malformed(
            format!("`${{cred:{name}}}` needs the name of a credential"),
            "write a name without `/`, such as `${cred:token}`",
        )),
        Some(("cmd", line)) => SecretCommand::parse(line).map(Piece::Command),
        Some(("agent", "cwd")) => Ok(Piece::AgentCwd),
        _ => Err(malformed(
            format!("`${{{body}}}` is not a valid reference"),
            "write `${NAME}`, `${NAME:-default}`, `${file:PATH}`, `${cred:NAME}`, `${cmd:PROGRAM}` or `${agent:cwd}`; a literal `${` is `$${`",
        )),
    }
}

fn unclosed() -> TemplateError {
    malformed("`${` is never closed", "close it with `}`; a literal `${` is written `$${`")
}

/// Whether `${NAME}` can refer to a variable of this name.
pub(super) fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_credential_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}
