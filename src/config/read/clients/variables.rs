//! Translates `${…}` references of other clients.
//!
//! Such a file can come from anyone, so only references that its own client expands are translated. References that only mcpd expands,
//! such as `${file:…}`, are escaped with a warning.

use super::super::super::clients::Variables;
use super::super::super::interpolate::{Template, UnusableValue, escaped, is_variable_name};
use crate::printable::excerpt;

/// Maximum printed characters of an unknown reference.
const MAX_SHOWN_LEN: usize = 40;

/// Editor references to the agent's directory.
const WORKSPACE: [&str; 4] = ["workspaceFolder", "workspaceRoot", "cwd", "CLAUDE_PROJECT_DIR"];

/// References that only an editor can expand. They look like environment variables.
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

impl Variables {
    /// Whether the client expands the environment variable `${body}`.
    fn include(self, body: &str) -> bool {
        let is_prefixed = body.strip_prefix("env:").is_some_and(|rest| !rest.starts_with('-'));
        match self {
            Self::Never | Self::Bare => false,
            Self::Braces | Self::Dollar => !is_prefixed,
            Self::Plain => !is_prefixed && !body.contains(":-"),
            Self::Prefixed => is_prefixed,
            Self::Unknown => true,
        }
    }
}

/// References that could not be translated.
#[derive(Debug, Default)]
pub(super) struct TranslationFailures {
    /// References that only the client can expand. The server cannot run.
    pub(super) missing: Vec<UnusableValue>,
    /// References that mcpd expands and the client does not, without their defaults. They become literal text.
    pub(super) literal: Vec<String>,
}

/// Translates the references of `text`. Untranslatable references become literal text and are added to `failures`.
pub(super) fn translated(text: &str, variables: Variables, failures: &mut TranslationFailures) -> String {
    if variables == Variables::Never {
        note_native(text, failures);
        return escaped(text);
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
                // It may be a part of a secret.
                None => (Err(Reference::Missing(foreign("…"))), after, ""),
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
            let name =
                if matches!(variables, Variables::Dollar | Variables::Plain) { bare_name(&rest[1..]) } else { "" };
            words.push_str(&if name.is_empty() { "$".to_owned() } else { format!("${{{name}}}") });
            rest = &rest[1 + name.len()..];
        }
    }
    words + rest
}

/// Like [`translated`], for references without `$`: `{env:NAME}`, and `{file:PATH}`, which mcpd does not read for the client.
fn bare(text: &str, failures: &mut TranslationFailures) -> String {
    note_native(text, failures);
    let (mut words, mut rest) = (String::new(), text);
    while let Some((before, body, after)) = next_bare(rest) {
        // After a `$` it would become a native reference in the result, so it stays text.
        if before.ends_with('$') {
            words.push_str(&escaped(&format!("{before}{{{body}}}")));
            rest = after;
            continue;
        }
        let variable = body.strip_prefix("env:").filter(|name| is_variable_name(name));
        words.push_str(&escaped(before));
        match variable {
            Some(name) => words.push_str(&format!("${{{name}}}")),
            None => {
                failures.missing.push(foreign(body));
                words.push_str(&format!("{{{body}}}"));
            }
        }
        rest = after;
    }
    words + &escaped(rest)
}

/// Records the native references in `text`, which stay literal text.
fn note_native(text: &str, failures: &mut TranslationFailures) {
    let bodies = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    failures.literal.extend(bodies.map(|(body, _)| body).filter(|body| native_template(body).is_some()).map(shown));
}

/// The text before the first reference, within it, and after it.
fn next_bare(text: &str) -> Option<(&str, &str, &str)> {
    let at = ["{env:", "{file:"].iter().filter_map(|start| text.find(start)).min()?;
    let (body, after) = text[at + 1..].split_once('}')?;
    Some((&text[..at], body, after))
}

/// Why a reference has no translation.
enum Reference {
    /// It is plain text to the client. The value is its printable form.
    Literal(String),
    /// Only the client can expand it.
    Missing(UnusableValue),
}

/// Translates `${body}`. Native forms are translated only for environment variables that the client also expands.
fn reference(body: &str, variables: Variables) -> Result<String, Reference> {
    let name = body.split_once(":-").map_or(body, |(name, _)| name);
    match body {
        _ if WORKSPACE.contains(&name) => Ok("${agent:cwd}".to_owned()),
        "userHome" => Ok("${HOME}".to_owned()),
        "pathSeparator" | "/" => Ok("/".to_owned()),
        _ if EDITOR_VARIABLES.contains(&body) => Err(Reference::Missing(foreign(body))),
        _ => match (body.strip_prefix("input:"), native_template(body)) {
            (Some(id), _) => Err(Reference::Missing(UnusableValue::Input(id.to_owned()))),
            (None, Some(template)) if template.is_variable() && variables.include(body) => Ok(format!("${{{body}}}")),
            (None, Some(_)) => Err(Reference::Literal(shown(body))),
            (None, None) => Err(Reference::Missing(foreign(body))),
        },
    }
}

/// `${body}`, if it is a native reference.
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

fn foreign(body: &str) -> UnusableValue {
    // `body` ends at the first brace, so a nested reference is incomplete.
    let shown = body.split_once("${").map_or_else(|| body.to_owned(), |(before, _)| format!("{before}…"));
    UnusableValue::Foreign(excerpt(&shown, MAX_SHOWN_LEN))
}

/// The name at the start of `text`. Empty if there is none.
fn bare_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|first: char| first.is_ascii_digit()) { "" } else { &text[..end] }
}
