//! Texts that stay unexpanded: undefined references, which prevent their server from starting, and arguments that only a shell expands, such as
//! `$HOME/x`, in servers that no shell runs.

use std::collections::HashSet;
use std::path::Path;

use super::Context;
use crate::client_files::Syntax;
use crate::config::ServerConfig;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::{Template, UnusableValue};
use crate::config::notes::{Note, Use};

/// Programs that expand arguments themselves, or pass them to a program that does.
const SHELLS: [&str; 14] = [
    "ash",
    "bash",
    "cmd",
    "cmd.exe",
    "dash",
    "eval",
    "fish",
    "ksh",
    "nix-shell",
    "powershell",
    "pwsh",
    "sh",
    "ssh",
    "zsh",
];
/// Options whose value is a program text.
const CODE: [&str; 6] = ["-c", "-e", "--eval", "-p", "--print", "--command"];

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let texts = context.texts().filter(|(_, _, purpose, _)| matches!(purpose, Use::Command | Use::Arg));
    let texts: Vec<_> = texts.collect();
    texts.chunk_by(|one, next| one.0.name == next.0.name).flat_map(of_server).collect()
}

/// `words`: the command of a server and its arguments.
fn of_server(words: &[(&ServerConfig, &Note<'_>, Use<'_>, &Template)]) -> Vec<Diagnostic> {
    let is_shell =
        |word: &str| Path::new(word).file_name().is_some_and(|name| SHELLS.iter().any(|shell| name == *shell));
    if words.iter().any(|(.., template)| is_shell(template.source())) {
        return Vec::new();
    }
    let warning = |pair: &[(&ServerConfig, &Note<'_>, Use<'_>, &Template)]| {
        let [(.., before), (server, note, _, template)] = pair else { return None };
        let (found, reference) = unexpanded(template.source()).filter(|_| !CODE.contains(&before.source()))?;
        let message = format!("an argument of `{}` has `{found}`, and no shell expands it", server.name);
        let help = match (note.syntax(), reference) {
            (Syntax::Toml, Some(name)) => format!("write `${{{name}}}`, which mcpd expands"),
            _ => "write its value".to_owned(),
        };
        Some(note.warning(message, help))
    };
    words.windows(2).filter_map(warning).collect()
}

/// What a shell would expand in `text`, and the variable that has the same value.
fn unexpanded(text: &str) -> Option<(String, Option<&str>)> {
    let value = text.strip_prefix('-').and_then(|option| option.split_once('=')).map_or(text, |(_, value)| value);
    if value == "~" || value.starts_with("~/") {
        return Some(("~".to_owned(), Some("HOME")));
    }
    if value.starts_with("$(") && value.contains(')') {
        return Some(("$(…)".to_owned(), None));
    }
    if value.len() > 2 && value.starts_with('`') && value.ends_with('`') {
        return Some(("`…`".to_owned(), None));
    }
    value.split([',', ':', '=']).find_map(variable)
}

/// `$NAME` and `%NAME%`, alone or at the beginning of a path.
fn variable(value: &str) -> Option<(String, Option<&str>)> {
    let (name, rest, shown) = if let Some(rest) = value.strip_prefix('$') {
        let end = rest.find('/').unwrap_or(rest.len());
        (&rest[..end], &rest[end..], format!("${}", &rest[..end]))
    } else {
        let (name, rest) = value.strip_prefix('%')?.split_once('%')?;
        (name, rest, format!("%{name}%"))
    };
    let is_name = name.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    let is_name = is_name && name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    let is_path = rest.is_empty() || rest.starts_with(['/', '\\']);
    let name = if name == "USERPROFILE" { "HOME" } else { name };
    (is_name && is_path).then_some((shown, Some(name)))
}

pub(super) fn undefined_references(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut failing = HashSet::new();
    let mut warnings = Vec::new();
    for (server, note, _, template) in context.texts() {
        if let Some(undefined) = template.undefined(context.sources) {
            failing.insert(&server.name);
            warnings.push(note.warning(
                format!("server `{}` cannot be started: {undefined}", server.name),
                undefined_help(&undefined, context),
            ));
        }
    }
    // Servers that fail for another reason.
    for server in context.servers().iter().filter(|server| !failing.contains(&server.name)) {
        if let (Err(reason), Some(note)) = (&server.launch, context.name_of(server)) {
            let message = format!("server `{}` cannot be started: {reason}", server.name);
            warnings.push(note.warning(message, "the other servers are not affected"));
        }
    }
    warnings
}

/// Only a variable may have a default.
fn undefined_help(undefined: &UnusableValue, context: &Context<'_>) -> &'static str {
    let is_credential =
        |path: &Path| context.sources.var("CREDENTIALS_DIRECTORY").is_some_and(|directory| path.starts_with(directory));
    match undefined {
        UnusableValue::Variable(_) | UnusableValue::Empty(_) => {
            "set it where mcpd runs, and restart the daemon; under systemd, `mcpd reload --environment` takes it from the login shell"
        }
        UnusableValue::File { path, .. } if is_credential(path) => "add `LoadCredential=NAME:PATH` to the unit of mcpd",
        UnusableValue::File { .. } => "write that file, or name another",
        UnusableValue::Command { .. } => "run that program in a terminal, and correct it or its reference",
        UnusableValue::Home => "set `HOME` where mcpd runs, or write an absolute path",
        _ => "the other servers are not affected",
    }
}
