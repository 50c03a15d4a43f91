//! The formats of other clients, said in our own words: each server becomes the table that one would write for mcpd, with
//! the places of the original, and is then read as ours are.
//!
//! ```text
//! their file ─ sections (which servers) ─ names (what they are called here) ─ dialect (which keys, what they say)
//!                                         variables (`${…}` that mean something else there) ─► a table of ours
//! ```
//!
//! Such a file is another program's: what it has beyond is ignored with a warning, and what cannot be done fails the one
//! server that needs it.

mod build;
mod dialect;
mod names;
mod remote;
mod sections;
mod variables;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::build::Build;
use self::sections::Section;
use self::variables::Variables;
use super::super::diagnostic::SourceFile;
use super::super::interpolate::{Sources, UndefinedValue};
use super::super::layer::{LaunchTemplate, Layer, ServerLayer};
use super::super::tree::{Entry, MAX_PROBLEMS, Node, Problem, Value};
use super::fields::Fields;
use super::native::NativeServer;
use super::{Format, Problems, Reader};

pub(in crate::config) use self::sections::{has_servers, is_codex};

const SERVER_EXAMPLE: &str = r#"write `{ "command": "npx" }`"#;

/// LaunchReading of a reference that mcpd would fill in, in a file whose client does not.
const LITERAL_HELP: &str = "in another program's file mcpd fills in only what that program does; write the server in TOML of mcpd's own to have it filled in";

/// Which keys a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// JSON as most have it: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf.
    Json,
    /// `context_servers`, whose command may be an object.
    Zed,
    /// JSON of Gemini CLI.
    Gemini,
    /// JSON of OpenCode.
    OpenCode,
    /// TOML of Codex.
    Codex,
}

/// A server of another client's file, in our words.
pub(in crate::config) struct TranslatedServer {
    /// What the file calls it.
    pub(in crate::config) title: String,
    /// The directory of the project that the file has it for, if it is not for all.
    pub(in crate::config) project: Option<String>,
    /// Its name here, with a table of keys that are ours.
    pub(in crate::config) entry: Entry,
    /// What of it has no words here, so that it cannot be run as the table reads.
    pub(in crate::config) missing: Vec<UndefinedValue>,
}

/// The servers of a client's file that can be read, and what there is to say about the rest.
pub(in crate::config) fn translated(
    root: &Node,
    format: Format,
    file: &Arc<SourceFile>,
    sources: &dyn Sources,
) -> (Vec<TranslatedServer>, Problems) {
    let mut reader = Reader::new(format, file, sources);
    let sections = reader.sections(root);
    let mut servers = reader.translated(&sections);
    servers.retain(|server| {
        let before = reader.problems.errors.len();
        let is_read = reader.translated_server(server).is_some();
        is_read && reader.problems.errors.len() == before && before < MAX_PROBLEMS
    });
    (servers, reader.problems)
}

/// What a client's file has its client run to reach mcpd: each a command and its arguments, as they are written.
pub(in crate::config) fn pointers(
    root: &Node,
    format: Format,
    file: &Arc<SourceFile>,
    sources: &dyn Sources,
) -> Vec<Vec<String>> {
    let mut reader = Reader::new(format, file, sources);
    let sections = reader.sections(root);
    let servers = sections.iter().flat_map(|section| section.servers);
    let tables = servers.filter_map(|server| match &server.node.value {
        Value::Table(entries) => Some(entries),
        _ => None,
    });
    tables.filter_map(|entries| pointer(entries)).collect()
}

impl Reader<'_> {
    /// Only the servers are read: whatever else is in such a file is another program's business.
    pub(super) fn clients_file(&mut self, root: &Node) -> Layer {
        let sections = self.sections(root);
        let translated = self.translated(&sections);
        let servers = translated.iter().filter_map(|server| self.translated_server(server)).collect();
        // A profile may name a server that is skipped.
        let titles = sections.iter().flat_map(|section| section.servers).map(|server| &server.key);
        let server_names = translated.iter().map(|server| &server.entry.key).chain(titles).cloned().collect();
        Layer { servers, server_names, ..Layer::default() }
    }

    /// Reads a server as if it stood in a file of ours.
    pub(super) fn translated_server(&mut self, server: &TranslatedServer) -> Option<ServerLayer> {
        let NativeServer::Configured(mut layer) = self.native_server(&server.entry)? else { return None };
        // One is enough to go and look.
        if let Some(undefined) = server.missing.first() {
            layer.launch = LaunchTemplate::Impossible(undefined.clone());
        }
        Some(*layer)
    }

    /// The servers that the file has for its client, but for those that are switched off or that mcpd cannot have.
    fn translated(&mut self, sections: &[Section<'_>]) -> Vec<TranslatedServer> {
        let mut found: Vec<(&Section<'_>, &Entry)> = Vec::new();
        let mut known: HashMap<&str, Vec<&Node>> = HashMap::new();
        for section in sections {
            for entry in section.servers {
                let same = known.entry(&entry.key).or_default();
                if !same.iter().any(|other| other.has_same_value(&entry.node)) && !self.is_skipped(section, entry) {
                    same.push(&entry.node);
                    found.push((section, entry));
                }
            }
        }
        let titles: Vec<_> = found.iter().map(|(_, entry)| entry.key.as_str()).collect();
        let names = names::assigned(&titles);
        let servers = found.iter().zip(names);
        servers.filter_map(|((section, entry), name)| self.translate(section, entry, name)).collect()
    }

    fn translate(&mut self, section: &Section<'_>, entry: &Entry, name: Arc<str>) -> Option<TranslatedServer> {
        let Value::Table(entries) = &entry.node.value else {
            self.wrong_type(&entry.node, &format!("`{}`", entry.key), self.word_for_table(), SERVER_EXAMPLE.to_owned());
            return None;
        };
        if *name != *entry.key {
            let message = format!("server `{}` is called `{name}` here", entry.key.escape_debug());
            let help = "a name is letters A to Z, digits and `-`, with single `_` between them, and one server's alone";
            self.warn(Problem::new(entry.key_span.clone(), message).help(help));
        }
        let mut fields = Fields::new(format!("`{}`", entry.key), entries);
        let variables = Variables::of(&self.path, section.dialect);
        let mut build = Build::new(section.dialect, variables, &entry.key_span);
        self.translate_keys(section, &mut fields, &mut build);
        self.finish_loosely(fields);
        for (location, shown) in build.literal_references() {
            self.warn(Problem::new(location, format!("`{shown}` is plain text in this file")).help(LITERAL_HELP));
        }
        let (table, missing) = build.finish();
        let node = Node { span: entry.node.span.clone(), value: Value::Table(table) };
        let translated = Entry { key: name.to_string(), key_span: entry.key_span.clone(), node };
        let project = section.project.map(str::to_owned);
        Some(TranslatedServer { title: entry.key.clone(), project, entry: translated, missing })
    }

    /// Whether the server is left out: its client does not run it, or it is the entry that points the client at mcpd. Warns of
    /// every server but the latter.
    fn is_skipped(&mut self, section: &Section<'_>, server: &Entry) -> bool {
        let Value::Table(entries) = &server.node.value else { return false };
        if pointer(entries).is_some() {
            return true;
        }
        let get = |key: &str| entries.iter().find(|entry| entry.key == key);
        let says = |key: &str, truth: bool| {
            get(key).is_some_and(|entry| matches!(entry.node.value, Value::Bool(value) if value == truth))
        };
        let (label, help) = if says("disabled", true) || says("enabled", false) {
            ("it is switched off", "switch it on to have it run")
        } else if section.excluded.contains(&server.key) {
            ("the file says elsewhere that it is not to run", "take it off that list to have it run")
        } else if section.dialect == Dialect::Zed && get("command").is_none() && get("url").is_none() {
            ("an extension says how it is run", "configure it with the `command` that the extension runs")
        } else {
            return false;
        };
        let problem = Problem::new(server.key_span.clone(), format!("server `{}` is skipped", server.key));
        self.warn(problem.label(label).help(help));
        true
    }
}

/// The command and its arguments, if this is how a client is pointed at mcpd.
fn pointer(entries: &[Entry]) -> Option<Vec<String>> {
    let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    let command = get("command")?;
    // One client has all of it in one list.
    let words =
        command.text().into_iter().chain(command.texts()).chain(get("args").map(Node::texts).unwrap_or_default());
    let words: Vec<_> = words.map(str::to_owned).collect();
    let (program, args) = words.split_first()?;
    let is_mcpd = Path::new(program).file_name().is_some_and(|name| name == "mcpd");
    (is_mcpd && args.iter().any(|arg| arg == "connect")).then_some(words)
}

/// The directory that relative paths of a client's file begin at: the one that the file is in, or above it where that is
/// the client's own, such as `.vscode`.
fn base(path: &Path) -> Option<PathBuf> {
    let directory = path.parent()?;
    let hidden = directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let base = if hidden { directory.parent()? } else { directory };
    base.is_absolute().then(|| base.to_owned())
}
