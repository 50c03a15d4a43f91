//! `${…}` in texts of other clients.
//!
//! Such a file may be anybody's, so its text is literal but for what its own client would fill in. Nothing that only mcpd fills in, such
//! as `${file:…}`, is ever filled in for it: the text is escaped, and a warning says so.

use std::path::Path;

use super::super::super::interpolate::{Template, UndefinedValue, is_variable_name};
use super::Dialect;
use crate::printable::excerpt;

/// Characters that are said of a reference that means nothing here.
const MAX_SHOWN_LEN: usize = 40;

/// What editors have for the agent's directory.
const WORKSPACE: [&str; 4] = ["workspaceFolder", "workspaceRoot", "cwd", "CLAUDE_PROJECT_DIR"];

/// What only an editor knows. They look like names of variables, and would be said to be undefined.
const EDITOR_VARIABLES: [&str; 16] = [
    "workspaceFolderBasename",
    "file",
    "fileWorkspaceFolder",
    "relativeFile",
    "relativeFileDirname",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileExtname",
    "fileDirname",
    "fileDirnameBasename",
    "lineNumber",
    "columnNumber",
    "selectedText",
    "execPath",
    "defaultBuildTask",
    "extensionInstallFolder",
];

/// Which variables of the environment a client fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variables {
    /// None, and no other reference either: Codex, Claude Desktop, Zed.
    Never,
    /// `${NAME}` and `${NAME:-default}`: Claude Code.
    Braces,
    /// The same, and `$NAME`: Gemini CLI.
    Dollar,
    /// `${env:NAME}`: Cursor, VS Code, Windsurf.
    Prefixed,
    /// `{env:NAME}`: OpenCode. Source: opencode.ai/docs/config, "Variables".
    Bare,
    /// Each of these but `$NAME`: the file does not tell whose it is.
    Unknown,
}

impl Variables {
    /// Those of the client that has the file at `path`, with servers in this dialect.
    pub(super) fn of(path: &Path, dialect: Dialect) -> Self {
        let names: Vec<_> = path.iter().rev().map(|name| name.to_string_lossy()).collect();
        let (file, directory) = (names.first().map_or("", |name| name), names.get(1).map_or("", |name| name));
        let is_windsurf = names.iter().any(|name| name == ".codeium");
        let is_vs_code = directory == ".vscode" || path.parent().is_some_and(|parent| parent.ends_with("Code/User"));
        match dialect {
            Dialect::Codex | Dialect::Zed => Self::Never,
            Dialect::Gemini => Self::Dollar,
            Dialect::OpenCode => Self::Bare,
            Dialect::Json if file == "claude_desktop_config.json" => Self::Never,
            Dialect::Json if matches!(file, ".mcp.json" | ".claude.json") => Self::Braces,
            Dialect::Json if directory == ".cursor" || is_vs_code || is_windsurf => Self::Prefixed,
            Dialect::Json => Self::Unknown,
        }
    }

    /// Whether the client fills in `${body}`, which is a variable in the one form or the other.
    fn include(self, body: &str) -> bool {
        let is_prefixed = body.strip_prefix("env:").is_some_and(|rest| !rest.starts_with('-'));
        match self {
            Self::Never | Self::Bare => false,
            Self::Braces | Self::Dollar => !is_prefixed,
            Self::Prefixed => is_prefixed,
            Self::Unknown => true,
        }
    }
}

/// What could not be translated as it reads.
#[derive(Debug, Default)]
pub(super) struct TranslationFailures {
    /// References that only the client itself can fill in: the server cannot be run.
    pub(super) missing: Vec<UndefinedValue>,
    /// References that mcpd would fill in and the client does not, without their defaults: they are literal text.
    pub(super) literal: Vec<String>,
}

/// `text` in our words. What has none there stays as it is, as a text that stands for itself, and is noted in `failures`.
pub(super) fn translated(text: &str, variables: Variables, failures: &mut TranslationFailures) -> String {
    if variables == Variables::Never {
        note_native(text, failures);
        return literal(text);
    }
    if variables == Variables::Bare {
        return bare(text, failures);
    }
    let (mut words, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        words.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$${") {
            words.push_str("$${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let (found, body, after) = match after.split_once('}') {
                Some((body, after)) => (reference(body, variables), body, after),
                None => (Err(Reference::Missing(foreign(after))), after, ""),
            };
            words.push_str(&found.unwrap_or_else(|undefined| {
                match undefined {
                    Reference::Literal(shown) => failures.literal.push(shown),
                    Reference::Missing(undefined) => failures.missing.push(undefined),
                }
                format!("$${{{body}}}")
            }));
            rest = after;
        } else {
            let name = if variables == Variables::Dollar { bare_name(&rest[1..]) } else { "" };
            words.push_str(&if name.is_empty() { "$".to_owned() } else { format!("${{{name}}}") });
            rest = &rest[1 + name.len()..];
        }
    }
    words + rest
}

/// The same for a client that has its references without `$`: `{env:NAME}`, and `{file:PATH}`, which is not read for it.
fn bare(text: &str, failures: &mut TranslationFailures) -> String {
    note_native(text, failures);
    let (mut words, mut rest) = (String::new(), text);
    while let Some((before, body, after)) = next_bare(rest) {
        // One behind a `$` would be ours in the result, so it stays text.
        if before.ends_with('$') {
            words.push_str(&literal(&format!("{before}{{{body}}}")));
            rest = after;
            continue;
        }
        let variable = body.strip_prefix("env:").filter(|name| is_variable_name(name));
        words.push_str(&literal(before));
        match variable {
            Some(name) => words.push_str(&format!("${{{name}}}")),
            None => {
                failures.missing.push(foreign(body));
                words.push_str(&format!("{{{body}}}"));
            }
        }
        rest = after;
    }
    words + &literal(rest)
}

/// Notes the references of mcpd's own in `text`, which stay text.
fn note_native(text: &str, failures: &mut TranslationFailures) {
    let bodies = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    failures.literal.extend(bodies.map(|(body, _)| body).filter(|body| native_template(body).is_some()).map(shown));
}

/// What stands before the first reference, within it, and behind it.
fn next_bare(text: &str) -> Option<(&str, &str, &str)> {
    let at = ["{env:", "{file:"].iter().filter_map(|start| text.find(start)).min()?;
    let (body, after) = text[at + 1..].split_once('}')?;
    Some((&text[..at], body, after))
}

/// A text that stands for itself, as our own format spells it.
pub(in crate::config) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// Why a reference has no translation.
enum Reference {
    /// The client takes it for text. This is what may be shown of it.
    Literal(String),
    /// Only the client knows what it stands for.
    Missing(UndefinedValue),
}

/// What `${body}` is in our words. Of our own forms only variables of the environment are, where the client has the same.
fn reference(body: &str, variables: Variables) -> Result<String, Reference> {
    let name = body.split_once(":-").map_or(body, |(name, _)| name);
    match body {
        _ if WORKSPACE.contains(&name) => Ok("${agent:cwd}".to_owned()),
        "userHome" => Ok("${HOME}".to_owned()),
        "pathSeparator" | "/" => Ok("/".to_owned()),
        _ if EDITOR_VARIABLES.contains(&body) => Err(Reference::Missing(foreign(body))),
        _ => match (body.strip_prefix("input:"), native_template(body)) {
            (Some(id), _) => Err(Reference::Missing(UndefinedValue::Input(id.to_owned()))),
            (None, Some(template)) if template.is_variable() && variables.include(body) => Ok(format!("${{{body}}}")),
            (None, Some(_)) => Err(Reference::Literal(shown(body))),
            (None, None) => Err(Reference::Missing(foreign(body))),
        },
    }
}

/// `${body}`, if mcpd would fill it in.
fn native_template(body: &str) -> Option<Template> {
    Template::parse(&format!("${{{body}}}")).ok()
}

/// `${body}` without a default, which may be a secret.
fn shown(body: &str) -> String {
    match body.split_once(":-") {
        Some((name, _)) => format!("${{{name}:-…}}"),
        None => format!("${{{body}}}"),
    }
}

fn foreign(body: &str) -> UndefinedValue {
    UndefinedValue::Foreign(excerpt(body, MAX_SHOWN_LEN))
}

/// The name that `text` begins with, if it begins with one.
fn bare_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|first: char| first.is_ascii_digit()) { "" } else { &text[..end] }
}
