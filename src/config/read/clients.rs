//! Reads the formats of other clients. Each server is translated to a native table with the locations of the original, and is then read like
//! a native server.
//!
//! ```text
//! client file ─ sections (finds servers) ─ names (makes valid names) ─ dialect (translates keys)
//!                                          variables (translates `${…}`) ─► native table
//! ```
//!
//! Keys that mcpd does not know are ignored with a warning. An untranslatable reference is an error of its server only.

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
use super::super::clients::{Client, Dialect, Variables, project_of};
use super::super::diagnostic::SourceFile;
use super::super::interpolate::{Sources, UnusableValue};
use super::super::layer::{LaunchTemplate, Layer, ServerLayer};
use super::super::tree::{Entry, MAX_PROBLEMS, Node, Problem, Value};
use super::fields::Fields;
use super::native::NativeServer;
use super::{Format, Problems, Reader};

pub(in crate::config) use self::sections::{has_servers, is_codex};

const SERVER_EXAMPLE: &str = r#"write `{ "command": "npx" }`"#;

/// Help for a reference that mcpd expands and the file's client does not.
const LITERAL_HELP: &str = "in another client's file mcpd expands only what that client expands; to expand it, write the server in mcpd's TOML";

/// A server of another client's file, translated to a native table.
pub(in crate::config) struct TranslatedServer {
    /// Its name in the file.
    pub(in crate::config) title: String,
    /// The directory of its project. `None` for all projects.
    pub(in crate::config) project: Option<String>,
    /// Whether the user's own file defines it for that project only.
    pub(in crate::config) is_private: bool,
    /// Its name in mcpd, with a native table.
    pub(in crate::config) entry: Entry,
    /// Untranslatable references, which prevent a launch.
    pub(in crate::config) missing: Vec<UnusableValue>,
}

/// The readable servers of a client's file, and the problems of the others.
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

/// The entries of a client's file that connect to mcpd: each a command with its arguments.
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
    /// Reads only the servers. All other tables belong to the client.
    pub(super) fn clients_file(&mut self, root: &Node) -> Layer {
        let sections = self.sections(root);
        let translated = self.translated(&sections);
        let servers = translated.iter().filter_map(|server| self.translated_server(server)).collect();
        // A profile may name a server that is skipped.
        let titles = sections.iter().flat_map(|section| section.servers).map(|server| &server.key);
        let server_names = translated.iter().map(|server| &server.entry.key).chain(titles).cloned().collect();
        Layer { servers, server_names, ..Layer::default() }
    }

    /// Reads a translated server like a native one.
    pub(super) fn translated_server(&mut self, server: &TranslatedServer) -> Option<ServerLayer> {
        let NativeServer::Configured(mut layer) = self.native_server(&server.entry)? else { return None };
        // Report only the first.
        if let Some(undefined) = server.missing.first() {
            layer.launch = LaunchTemplate::Impossible(undefined.clone());
        }
        Some(*layer)
    }

    /// The servers of the file, without disabled ones and those that mcpd cannot run.
    fn translated(&mut self, sections: &[Section<'_>]) -> Vec<TranslatedServer> {
        let mut found: Vec<(&Section<'_>, &Entry)> = Vec::new();
        let mut known: HashMap<&str, Vec<(&Node, Option<&Path>)>> = HashMap::new();
        for section in sections {
            for entry in section.servers {
                let same = known.entry(&entry.key).or_default();
                // A command runs in the directory of its project. A definition for all projects includes that of one.
                let directory = section.project.as_deref().filter(|_| entry.node.get("command").is_some());
                let is_there = |at: &Option<&Path>| at.is_none() || *at == directory;
                let is_known = same.iter().any(|(node, at)| is_there(at) && node.has_same_value(&entry.node));
                if !is_known && !self.is_skipped(section, entry) {
                    same.push((&entry.node, directory));
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
            let help = "a name is letters A to Z, digits and `-`, with single `_` between them, and must be unique";
            self.warn(Problem::new(entry.key_span.clone(), message).help(help));
        }
        let mut fields = Fields::new(format!("`{}`", entry.key), entries);
        let variables = match section.dialect {
            Dialect::Codex | Dialect::Zed => Variables::Never,
            _ => Client::of_file(&self.path).map_or(Variables::Unknown, |client| client.variables),
        };
        let mut build = Build::new(section.dialect, variables, &entry.key_span);
        self.translate_keys(section, &mut fields, &mut build);
        self.finish_loosely(fields);
        for (location, shown) in build.literal_references() {
            self.warn(Problem::new(location, format!("`{shown}` is plain text in this file")).help(LITERAL_HELP));
        }
        let (table, missing) = build.finish();
        let node = Node { span: entry.node.span.clone(), value: Value::Table(table) };
        let translated = Entry { key: name.to_string(), key_span: entry.key_span.clone(), node };
        let project = section.project.as_ref().map(|project| project.to_string_lossy().into_owned());
        let is_private = section.is_private;
        Some(TranslatedServer { title: entry.key.clone(), project, is_private, entry: translated, missing })
    }

    /// Whether the server is skipped. An entry that connects to mcpd is skipped silently, all others with a warning.
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
            ("it is disabled", "enable it to run it")
        } else if section.excluded.contains(&server.key) {
            ("another key of the file excludes it", "remove it from that list to run it")
        } else if section.dialect == Dialect::Zed && get("command").is_none() && get("url").is_none() {
            ("an extension defines its command", "configure it with the `command` that the extension runs")
        } else {
            return false;
        };
        let problem = Problem::new(server.key_span.clone(), format!("server `{}` is skipped", server.key));
        self.warn(problem.label(label).help(help));
        true
    }
}

/// The command and its arguments, if this entry connects the client to mcpd.
fn pointer(entries: &[Entry]) -> Option<Vec<String>> {
    let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    let command = get("command")?;
    // One client has command and arguments in one list.
    let words =
        command.text().into_iter().chain(command.texts()).chain(get("args").map(Node::texts).unwrap_or_default());
    let words: Vec<_> = words.map(str::to_owned).collect();
    let (program, args) = words.split_first()?;
    let is_mcpd = Path::new(program).file_name().is_some_and(|name| name == "mcpd");
    (is_mcpd && args.iter().any(|arg| arg == "connect")).then_some(words)
}

/// The directory of relative paths in a client's file: the file's directory, or its parent if the directory belongs to the client, such as
/// `.vscode`.
fn base(path: &Path) -> Option<PathBuf> {
    let directory = path.parent()?;
    let hidden = directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let base = if hidden { directory.parent()? } else { directory };
    base.is_absolute().then(|| base.to_owned())
}
