//! Reads a client's file as servers that can be written into mcpd's configuration.

use std::path::Path;
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Level, SourceFile};
use super::super::interpolate::{Sources, UnusableValue};
use super::super::load::{located, parse_loosely};
use super::super::read::{Format, Pointer, Problems, TranslatedServer, has_servers, pointers, translated};
use super::super::serialize::Setting;
use super::super::tree::{Node, ParseTree, Value};

/// The keys of one server, in the order of output.
pub(super) type Settings = Vec<(String, Setting)>;

/// The order of keys in the output.
const ORDER: [&str; 12] = [
    "command",
    "args",
    "url",
    "headers",
    "env",
    "pass_env",
    "cwd",
    "allow",
    "deny",
    "sharing",
    "handshake_timeout",
    "call_timeout",
];

/// Maximum servers read from one file.
const MAX_SERVERS: usize = 200;

/// The contents of a client's file.
#[derive(Default)]
pub(crate) struct Foreign {
    /// In file order.
    pub(crate) servers: Vec<ForeignServer>,
    /// Warnings about ignored keys and skipped servers.
    pub(crate) warnings: Vec<Diagnostic>,
    /// Errors of the file, or of servers that are omitted for them.
    pub(crate) errors: Vec<Diagnostic>,
    /// The number of servers beyond the maximum.
    pub(crate) left_out: usize,
    /// The entries that connect to mcpd.
    pub(crate) pointers: Vec<Pointer>,
    /// Whether the file has a table for servers, possibly an empty one.
    pub(crate) is_about_servers: bool,
}

/// A server that can be written into mcpd's configuration.
pub(crate) struct ForeignServer {
    /// A valid name.
    pub(crate) name: String,
    /// Its name in the file.
    pub(crate) title: String,
    /// The directory of its project. `None` for all projects.
    pub(crate) project: Option<String>,
    /// Whether the user's own file defines it for that project only.
    pub(crate) is_private: bool,
    /// The keys that lead to its table of servers in the file.
    pub(crate) table: Vec<String>,
    /// Its keys, with translated references. `${input:ID}` is written as `$${input:ID}`.
    pub(super) settings: Settings,
    /// Why it cannot be expressed in mcpd's format.
    pub(super) impossible: Option<UnusableValue>,
    /// The prompts of its `${input:ID}` references.
    pub(super) prompts: Vec<Prompt>,
}

impl ForeignServer {
    /// A server from command line arguments, with native references.
    pub(super) fn new(name: &str, settings: Settings) -> Self {
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
            project: None,
            is_private: false,
            table: Vec::new(),
            settings,
            impossible: None,
            prompts: Vec::new(),
        }
    }

    /// Whether it runs in the directory of its project.
    pub(crate) fn runs_in_project(&self) -> bool {
        self.project.is_some() && self.cwd() == self.project.as_deref()
    }

    /// The working directory in the client's file.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.settings.iter().find_map(|(key, setting)| match setting {
            Setting::Text(cwd) if key == "cwd" => Some(&**cwd),
            _ => None,
        })
    }
}

/// A prompt for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// The id in the file.
    pub(crate) id: String,
    /// The text of the prompt.
    pub(crate) text: String,
    /// Whether the answer is a secret.
    pub(crate) hidden: bool,
    /// The choices. Empty for any text.
    pub(crate) options: Vec<String>,
    /// The value of an empty answer.
    pub(crate) default: Option<String>,
}

/// Reads the `text` of a client's file.
pub(crate) fn foreign(path: &Path, text: &str, sources: &dyn Sources) -> Foreign {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (format, parsed) = parse_loosely(path, text);
    let file = Arc::new(SourceFile::parsed(path, text, &parsed));
    let ParseTree { root, problems } = parsed;
    let mut found = Problems { errors: problems, warnings: Vec::new() };
    let (mut servers, mut here, mut left_out) = (Vec::new(), Vec::new(), 0);
    let is_about_servers =
        root.as_ref().is_some_and(|root| format != Format::Native && has_servers(root, path, format));
    if let Some(root) = root.filter(|_| is_about_servers) {
        here = pointers(&root, format, &file, sources);
        let (read, more) = translated(&root, format, &file, sources);
        left_out = read.len().saturating_sub(MAX_SERVERS);
        servers = read.iter().take(MAX_SERVERS).map(|server| described(server, &root)).collect();
        found.errors.extend(more.errors);
        found.warnings.extend(more.warnings);
    }
    let warnings = located(Level::Warning, &file, found.warnings).collect();
    let errors = located(Level::Error, &file, found.errors).collect();
    Foreign { servers, warnings, errors, left_out, pointers: here, is_about_servers }
}

fn described(server: &TranslatedServer, root: &Node) -> ForeignServer {
    let keys = ORDER.iter().filter_map(|key| server.entry.node.get(key));
    let settings = keys.filter_map(|entry| Some((entry.key.clone(), setting(&entry.node)?)));
    let settings = settings.filter(|(key, setting)| !is_empty(key, setting)).collect();
    let mut prompts: Vec<Prompt> = Vec::new();
    let mut impossible = None;
    for undefined in &server.missing {
        match undefined {
            UnusableValue::Input(id) if !prompts.iter().any(|prompt| prompt.id == *id) => {
                prompts.push(prompt(root, id))
            }
            UnusableValue::Input(_) => {}
            other => impossible = impossible.or_else(|| Some(other.clone())),
        }
    }
    let (name, title, project) = (server.entry.key.clone(), server.title.clone(), server.project.clone());
    let (is_private, table) = (server.is_private, server.table.clone());
    ForeignServer { name, title, project, is_private, table, settings, impossible, prompts }
}

/// `node` as a value of mcpd's format. `None` for types that no server key accepts.
fn setting(node: &Node) -> Option<Setting> {
    match &node.value {
        Value::String(text) => Some(Setting::Text(text.clone())),
        Value::Bool(truth) => Some(Setting::Flag(*truth)),
        Value::Array(_) => Some(Setting::List(node.texts().into_iter().map(str::to_owned).collect())),
        Value::Table(entries) => {
            let members = entries.iter().filter_map(|entry| Some((entry.key.clone(), entry.node.text()?.to_owned())));
            Some(Setting::Table(members.collect()))
        }
        _ => None,
    }
}

/// Whether the key can be omitted without a change. An empty `allow` or `pass_env` differs from an unset one.
fn is_empty(key: &str, setting: &Setting) -> bool {
    match setting {
        Setting::Table(members) => members.is_empty(),
        Setting::List(items) => key == "args" && items.is_empty(),
        _ => false,
    }
}

/// The prompt of `${input:ID}` in the file.
fn prompt(root: &Node, id: &str) -> Prompt {
    let list = root.get("inputs").or_else(|| root.get("mcp")?.node.get("inputs"));
    let items = if let Some(Value::Array(items)) = list.map(|list| &list.node.value) { &items[..] } else { &[] };
    let input = items.iter().find(|input| input.get("id").and_then(|entry| entry.node.text()) == Some(id));
    let get = |key| input.and_then(|input| input.get(key)).map(|entry| &entry.node);
    let text = |key| get(key).and_then(Node::text).map(str::to_owned);
    Prompt {
        id: id.to_owned(),
        text: text("description").unwrap_or_else(|| id.to_owned()),
        // Without a definition, it may be a secret.
        hidden: input.is_none() || matches!(get("password"), Some(Node { value: Value::Bool(true), .. })),
        options: get("options").map(|node| node.texts().into_iter().map(str::to_owned).collect()).unwrap_or_default(),
        default: text("default").filter(|default| !default.is_empty()),
    }
}
