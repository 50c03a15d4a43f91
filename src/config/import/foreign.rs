//! A client's file, as servers that could be written into ours.

use std::path::Path;
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Level, SourceFile};
use super::super::edit::Setting;
use super::super::interpolate::{Sources, UndefinedValue};
use super::super::load::{located, parse};
use super::super::read::{Format, Problems, TranslatedServer, has_servers, pointers, translated};
use super::super::tree::{Node, ParseTree, Value};
use super::Settings;

/// The order in which settings are written.
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

/// Servers of one file that are looked at; nobody has so many.
const MAX_SERVERS: usize = 200;

/// What a client's file has.
#[derive(Default)]
pub(crate) struct Foreign {
    /// In file order.
    pub(crate) servers: Vec<ForeignServer>,
    /// What is ignored, and which servers are skipped.
    pub(crate) warnings: Vec<Diagnostic>,
    /// What is wrong with the file, or with servers that are left out for it.
    pub(crate) errors: Vec<Diagnostic>,
    /// Servers beyond the most that are looked at.
    pub(crate) left_out: usize,
    /// What it has the client run to reach mcpd: each a command and its arguments, as they are written.
    pub(crate) pointers: Vec<Vec<String>>,
    /// Whether it is a file in which a client has servers, if only none at present.
    pub(crate) is_about_servers: bool,
}

/// A server as it could be written into a configuration of ours.
pub(crate) struct ForeignServer {
    /// A name that fits.
    pub(crate) name: String,
    /// What the file calls it.
    pub(crate) title: String,
    /// The directory of the project that the file has it for, if it is not for all.
    pub(crate) project: Option<String>,
    /// Texts are in our words; an `${input:ID}` stands there as `$${input:ID}`.
    pub(super) settings: Settings,
    /// Why it cannot be written down.
    pub(super) impossible: Option<UndefinedValue>,
    /// What a person is asked for.
    pub(super) prompts: Vec<Prompt>,
}

impl ForeignServer {
    /// One that a person has described, in our words.
    pub(super) fn new(name: &str, settings: Settings) -> Self {
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
            project: None,
            settings,
            impossible: None,
            prompts: Vec::new(),
        }
    }

    /// The working directory that is written for it, if the client's file has one.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.settings.iter().find_map(|(key, setting)| match setting {
            Setting::Text(cwd) if key == "cwd" => Some(&**cwd),
            _ => None,
        })
    }
}

/// A question for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// What the file calls it.
    pub(crate) id: String,
    /// What is asked for.
    pub(crate) text: String,
    /// Whether nobody is to see the answer.
    pub(crate) hidden: bool,
    /// What there is to choose from; nothing: any text.
    pub(crate) options: Vec<String>,
    /// What an empty answer means.
    pub(crate) default: Option<String>,
}

/// Reads the `text` of a client's file.
pub(crate) fn foreign(path: &Path, text: &str, sources: &dyn Sources) -> Foreign {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (format, parsed) = parse(path, text);
    let file = Arc::new(SourceFile::parsed(path, text, &parsed));
    let ParseTree { root, problems } = parsed;
    let mut found = Problems { errors: problems, warnings: Vec::new() };
    let (mut servers, mut here, mut left_out) = (Vec::new(), Vec::new(), 0);
    let is_about_servers = root.as_ref().is_some_and(|root| format != Format::Native && has_servers(root));
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
            UndefinedValue::Input(id) if !prompts.iter().any(|prompt| prompt.id == *id) => {
                prompts.push(prompt(root, id))
            }
            UndefinedValue::Input(_) => {}
            other => impossible = impossible.or_else(|| Some(other.clone())),
        }
    }
    let (name, title, project) = (server.entry.key.clone(), server.title.clone(), server.project.clone());
    ForeignServer { name, title, project, settings, impossible, prompts }
}

/// How `node` is written in our format; what no key of a server takes is not.
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

/// Whether leaving the setting out means the same. An empty `allow` or `pass_env` differs from none.
fn is_empty(key: &str, setting: &Setting) -> bool {
    match setting {
        Setting::Table(members) => members.is_empty(),
        Setting::List(items) => key == "args" && items.is_empty(),
        _ => false,
    }
}

/// What the file says of `${input:ID}`.
fn prompt(root: &Node, id: &str) -> Prompt {
    let list = root.get("inputs").or_else(|| root.get("mcp")?.node.get("inputs"));
    let items = if let Some(Value::Array(items)) = list.map(|list| &list.node.value) { &items[..] } else { &[] };
    let input = items.iter().find(|input| input.get("id").and_then(|entry| entry.node.text()) == Some(id));
    let get = |key| input.and_then(|input| input.get(key)).map(|entry| &entry.node);
    let text = |key| get(key).and_then(Node::text).map(str::to_owned);
    Prompt {
        id: id.to_owned(),
        text: text("description").unwrap_or_else(|| id.to_owned()),
        // Where nothing is said of it, it may be a secret.
        hidden: input.is_none() || matches!(get("password"), Some(Node { value: Value::Bool(true), .. })),
        options: get("options").map(|node| node.texts().into_iter().map(str::to_owned).collect()).unwrap_or_default(),
        default: text("default").filter(|default| !default.is_empty()),
    }
}
