//! `${…}` in texts of other clients, said in ours.

use super::super::super::interpolate::{Template, Undefined};
use super::Dialect;

/// Characters that are said of a reference that means nothing here.
const LONGEST_BODY: usize = 40;

/// What editors have for the agent's directory.
const WORKSPACE: [&str; 4] = ["workspaceFolder", "workspaceRoot", "cwd", "CLAUDE_PROJECT_DIR"];

/// What only an editor knows. They look like names of variables, and would be said to be undefined.
const EDITORS_OWN: [&str; 16] = [
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

/// `text` in our words. What has none there stays as it is, as a text that stands for itself, and is the reason in
/// `missing`.
pub(super) fn translated(text: &str, dialect: Dialect, missing: &mut Vec<Undefined>) -> String {
    if dialect == Dialect::Codex {
        return literal(text);
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
                Some((body, after)) => (reference(body), body, after),
                None => (Err(foreign(after)), after, ""),
            };
            words.push_str(&found.unwrap_or_else(|undefined| {
                missing.push(undefined);
                format!("$${{{body}}}")
            }));
            rest = after;
        } else {
            let name = if dialect == Dialect::Gemini { bare_name(&rest[1..]) } else { "" };
            words.push_str(&if name.is_empty() { "$".to_owned() } else { format!("${{{name}}}") });
            rest = &rest[1 + name.len()..];
        }
    }
    words + rest
}

/// A text that stands for itself, as our own format spells it.
pub(in crate::config) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// What `${body}` is in our words.
fn reference(body: &str) -> Result<String, Undefined> {
    let name = body.split_once(":-").map_or(body, |(name, _)| name);
    let ours = format!("${{{body}}}");
    match body {
        _ if WORKSPACE.contains(&name) => Ok("${agent:cwd}".to_owned()),
        "userHome" => Ok("${HOME}".to_owned()),
        "pathSeparator" | "/" => Ok("/".to_owned()),
        _ if EDITORS_OWN.contains(&body) => Err(foreign(body)),
        _ => match body.strip_prefix("input:") {
            Some(id) => Err(Undefined::Input(id.to_owned())),
            None if Template::parse(&ours).is_ok() => Ok(ours),
            None => Err(foreign(body)),
        },
    }
}

fn foreign(body: &str) -> Undefined {
    Undefined::Foreign(body.chars().take(LONGEST_BODY).collect())
}

/// The name that `text` begins with, if it begins with one.
fn bare_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|first: char| first.is_ascii_digit()) { "" } else { &text[..end] }
}
