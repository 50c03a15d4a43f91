//! Reads the formats of other clients. Each server is translated to a native table with the locations of the original, and is then read like
//! a native server.
//!
//! ```text
//! client file ─ Section (finds servers) ─ dialect (translates keys), variables (translates `${…}`) ─ Build ─► native table
//! ```
//!
//! Keys that mcpd does not know are ignored with a warning. An untranslatable reference is an error of its server only.

mod dialect;
mod variables;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::variables::TranslationFailures;
use super::native::NativeServer;
use super::reader::{Fields, Reader};
use super::values::fitted_name;
use super::{Format, Problems};
use crate::client_files::Syntax;
use crate::config::clients::{CLIENTS, COMMON, Client, Dialect, Part, Tables, Unlaunched, Variables, ZED, project_of};
use crate::config::diagnostic::SourceFile;
use crate::config::interpolate::{Sources, UnusableValue};
use crate::config::layer::{LaunchTemplate, Layer, ServerLayer};
use crate::config::tree::{Entry, MAX_PROBLEMS, Node, Problem, Value};
use crate::naming::is_server_name;
use crate::suggest::misspelt;

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
    /// The keys that lead to its table of servers.
    pub(in crate::config) table: Vec<String>,
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

/// An entry of a client's file that connects the client to mcpd.
pub(crate) struct Pointer {
    /// The keys that lead to its table of servers.
    pub(crate) table: Vec<String>,
    /// Its name in the file.
    pub(crate) name: String,
    /// The command with its arguments.
    pub(crate) words: Vec<String>,
}

/// The entries of a client's file that connect to mcpd.
pub(in crate::config) fn pointers(
    root: &Node,
    format: Format,
    file: &Arc<SourceFile>,
    sources: &dyn Sources,
) -> Vec<Pointer> {
    let mut reader = Reader::new(format, file, sources);
    let sections = reader.sections(root);
    let servers = sections.iter().flat_map(|section| section.servers.iter().map(move |server| (section, server)));
    let pointers = servers.filter_map(|(section, server)| {
        let words = pointer(server.node.entries(), section.dialect)?;
        Some(Pointer { table: section.table.clone(), name: server.key.clone(), words })
    });
    pointers.collect()
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
        let names = assigned(&titles);
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
        let mut build = Build::new(section.dialect, &entry.key_span);
        self.translate_keys(section, &mut fields, &mut build);
        self.finish_loosely(fields);
        for (location, shown) in build.literal_references() {
            self.warn(Problem::new(location, format!("`{shown}` is plain text in this file")).help(LITERAL_HELP));
        }
        let (table, missing) = build.finish();
        let node = Node { span: entry.node.span.clone(), value: Value::Table(table) };
        let translated = Entry { key: name.to_string(), key_span: entry.key_span.clone(), node };
        let project = section.project.as_ref().map(|project| project.to_string_lossy().into_owned());
        let (is_private, table) = (section.is_private, section.table.clone());
        Some(TranslatedServer { title: entry.key.clone(), project, is_private, table, entry: translated, missing })
    }

    /// Whether the server is skipped. An entry that connects to mcpd is skipped silently, all others with a warning.
    fn is_skipped(&mut self, section: &Section<'_>, server: &Entry) -> bool {
        let Value::Table(entries) = &server.node.value else { return false };
        if pointer(entries, section.dialect).is_some() {
            return true;
        }
        let get = |key: &str| entries.iter().find(|entry| entry.key == key);
        let says = |key: &str, truth: bool| {
            get(key).is_some_and(|entry| matches!(entry.node.value, Value::Bool(value) if value == truth))
        };
        let is_launched = [section.dialect.command_key()]
            .into_iter()
            .chain(section.dialect.key_of(Part::Url))
            .any(|key| get(key).is_some());
        let (label, help) = match section.dialect.unlaunched {
            Unlaunched::BuiltIn if !is_launched => return true,
            _ if says("disabled", true) || says("enabled", false) => ("it is disabled", "enable it to run it"),
            _ if section.excluded.contains(&server.key) => {
                ("another key of the file excludes it", "remove it from that list to run it")
            }
            Unlaunched::Elsewhere(reason, advice) if !is_launched => (reason, advice),
            _ => return false,
        };
        let problem = Problem::new(server.key_span.clone(), format!("server `{}` is skipped", server.key));
        self.warn(problem.label(label).help(help));
        true
    }
}

/// The command and its arguments, if this entry connects the client to mcpd.
fn pointer(entries: &[Entry], dialect: &Dialect) -> Option<Vec<String>> {
    let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    if let Some(Node { value: Value::Table(inner), .. }) = get("transport") {
        return pointer(inner, dialect);
    }
    let command = get(dialect.command_key())?;
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

const EXAMPLE: &str = r#"write `{ "mcpServers": { "files": { "command": "npx" } } }`"#;

/// A table of servers.
struct Section<'t> {
    servers: &'t [Entry],
    /// The keys that lead to it.
    table: Vec<String>,
    dialect: &'static Dialect,
    /// The directory of relative paths.
    base: Option<PathBuf>,
    /// The directory of their project. `None` for all projects.
    project: Option<PathBuf>,
    /// Whether the user's own file defines them for that project only.
    is_private: bool,
    /// Names of disabled servers.
    excluded: HashSet<String>,
}

/// Whether TOML is a Codex file: it has Codex's table of servers, or its directory, and no native table.
pub(in crate::config) fn is_codex(path: &Path, root: &Node) -> bool {
    let has = |key: &str| root.get(key).is_some();
    let native_keys = ["servers", "daemon", "defaults"];
    let named = path.parent().and_then(Path::file_name).is_some_and(|name| name == ".codex");
    (has("mcp_servers") || named) && !native_keys.into_iter().any(has)
}

/// Whether a file has a table for servers.
pub(in crate::config) fn has_servers(root: &Node, path: &Path, format: Format) -> bool {
    let dialect = dialect(path, format);
    let table = at_path(root, dialect.table);
    match dialect.tables {
        Tables::One => table.is_some(),
        Tables::Nested(inner) => table.is_some_and(|table| table.node.get(inner).is_some() || has_types(table)),
        Tables::Common => {
            let projects = root.get("projects").map_or(&[][..], |projects| projects.node.entries());
            let in_projects = projects.iter().any(|project| project.node.get("mcpServers").is_some());
            COMMON_TABLES.iter().any(|keys| at_path(root, keys).is_some())
                || in_projects
                || root.get("mcp").is_some_and(has_types)
        }
    }
}

/// The tables of servers of all clients with JSON. Zed's has a dialect of its own.
const COMMON_TABLES: [&[&str]; 5] = [&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"], ZED.table];

/// Whether an entry of `table` has a `type`.
fn has_types(table: &Entry) -> bool {
    table.node.entries().iter().any(|entry| entry.node.get("type").is_some())
}

/// The entry to which `keys` lead.
fn at_path<'t>(root: &'t Node, keys: &[&str]) -> Option<&'t Entry> {
    let (last, path) = keys.split_last()?;
    path.iter().try_fold(root, |node, key| Some(&node.get(key)?.node))?.get(last)
}

/// How the client whose file has this path writes servers, or else the first one with such files.
fn dialect(path: &Path, format: Format) -> &'static Dialect {
    let Format::Foreign(syntax) = format else { return &COMMON };
    let is_its = |client: &&Client| client.syntax() == syntax;
    let client = Client::of_file(path).filter(is_its);
    let client = client.or_else(|| CLIENTS.iter().find(is_its).filter(|_| syntax != Syntax::Json));
    client.map_or(&COMMON, |client| &client.dialect)
}

impl Reader<'_> {
    fn sections<'t>(&mut self, root: &'t Node) -> Vec<Section<'t>> {
        let project = project_of(&self.path, self.sources);
        let base = project.clone().or_else(|| base(&self.path));
        let dialect = dialect(&self.path, self.format);
        let mut found = Vec::new();
        let mut add = |reader: &mut Self, keys: &[&str], entry: Option<&'t Entry>, dialect, private: Option<&str>| {
            let Some(entry) = entry else { return };
            let table = keys.iter().map(|&key| key.to_owned()).collect();
            let servers = reader.table(&entry.node, &format!("`{}`", entry.key), EXAMPLE);
            let (base, project) = match private.map(PathBuf::from) {
                Some(directory) => {
                    (Some(directory.clone()).filter(|directory| directory.is_absolute()), Some(directory))
                }
                None => (base.clone(), project.clone()),
            };
            let (excluded, is_private) = (excluded(root, servers), private.is_some());
            found.push(Section { servers, table, dialect, base, project, is_private, excluded });
        };
        let table = at_path(root, dialect.table);
        match dialect.tables {
            Tables::One => add(self, dialect.table, table, dialect, None),
            Tables::Nested(inner) => {
                let nested = table.and_then(|table| table.node.get(inner));
                // A server may have this name.
                let nested = nested.filter(|servers| servers.node.get("type").is_none());
                let inner = nested.map(|_| inner);
                let keys: Vec<_> = dialect.table.iter().copied().chain(inner).collect();
                add(self, &keys, nested.or(table), dialect, None);
                return found;
            }
            Tables::Common => {
                for keys in COMMON_TABLES {
                    let dialect = if keys == ZED.table { &ZED } else { dialect };
                    add(self, keys, at_path(root, keys), dialect, None);
                }
            }
        }
        let projects = root.get("projects").filter(|_| dialect.tables == Tables::Common);
        for project in projects.map_or(&[][..], |projects| projects.node.entries()) {
            let keys = ["projects", &project.key, "mcpServers"];
            add(self, &keys, project.node.get("mcpServers"), dialect, Some(project.key.as_str()));
        }
        if found.is_empty() && projects.is_none() {
            self.no_servers(root, dialect);
        }
        found
    }

    fn no_servers(&mut self, root: &Node, dialect: &Dialect) {
        if !matches!(root.value, Value::Table(_)) {
            self.table(root, "the file", EXAMPLE);
            return;
        }
        let key = dialect.table.join(".");
        let missing = |place: Range<usize>| Problem::new(place, format!("there is no `{key}` in this file"));
        let start = root.span.start;
        let problem = match dialect.syntax {
            Syntax::Toml => missing(0..0).help(format!("write `[{key}.NAME]` for each server")),
            Syntax::Yaml => missing(start..start).help(format!("write `{key}:`, and below it a name for each server")),
            Syntax::Json => {
                let misspelt = root.entries().iter().find_map(|entry| misspelt(&entry.key, ["mcpServers"]));
                Problem::new(start..start + 1, "there is no `mcpServers` in this file").help(match misspelt {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("{EXAMPLE}; `servers` and `context_servers` are taken, too"),
                })
            }
        };
        self.error(problem);
    }
}

/// The servers that Gemini CLI lists in `mcp.excluded`, or omits from `mcp.allowed`.
fn excluded(root: &Node, servers: &[Entry]) -> HashSet<String> {
    let list = |key| {
        let texts = root.get("mcp").and_then(|mcp| mcp.node.get(key)).map(|entry| entry.node.texts());
        texts.map(HashSet::<&str>::from_iter)
    };
    let (allowed, excluded) = (list("allowed"), list("excluded").unwrap_or_default());
    let is_out =
        |name: &str| excluded.contains(name) || allowed.as_ref().is_some_and(|allowed| !allowed.contains(name));
    servers.iter().map(|server| server.key.clone()).filter(|name| is_out(name)).collect()
}

/// The reference to an agent's directory.
const AGENT_CWD: &str = "${agent:cwd}";

/// A table that grows key by key.
pub(super) struct Build {
    pub(super) dialect: &'static Dialect,
    /// The location of values that the file implies.
    server: Range<usize>,
    entries: Vec<Entry>,
    missing: Vec<UnusableValue>,
    /// References that are plain text to the client, each with its location.
    literal: Vec<(Range<usize>, String)>,
    needs_agent_cwd: bool,
}

impl Build {
    pub(super) fn new(dialect: &'static Dialect, server: &Range<usize>) -> Self {
        let (entries, missing, literal) = Default::default();
        Self { dialect, server: server.clone(), entries, missing, literal, needs_agent_cwd: false }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Whether the server needs one instance per workspace.
    pub(super) fn needs_agent_cwd(&self) -> bool {
        self.needs_agent_cwd
    }

    /// Adds a native key whose value is at `span` in the file.
    pub(super) fn put(&mut self, key: &str, span: &Range<usize>, node: Node) {
        self.entries.push(Entry { key: key.to_owned(), key_span: span.clone(), node });
    }

    /// Adds a key with the file's value and translated references.
    pub(super) fn put_texts(&mut self, key: &str, entry: &Entry) {
        let node = self.node(key, &entry.node);
        self.put(key, &entry.key_span, node);
    }

    /// Adds a text that the file implies.
    pub(super) fn put_here(&mut self, key: &str, text: String) {
        let span = self.server.clone();
        self.put(key, &span, Node { span: span.clone(), value: Value::String(text) });
    }

    /// Replaces a text that was added before.
    pub(super) fn replace(&mut self, key: &str, with: impl FnOnce(&str) -> Option<String>) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) else { return };
        if let Some(text) = entry.node.text().and_then(with) {
            entry.node.value = Value::String(text);
        }
    }

    /// Adds items to a list.
    pub(super) fn extend(&mut self, key: &str, entry: &Entry, more: Vec<Node>) {
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node.value) {
            Some(Value::Array(items)) => items.extend(more),
            Some(_) => {}
            None => {
                let node = Node { span: entry.node.span.clone(), value: Value::Array(more) };
                self.put(key, &entry.key_span, node);
            }
        }
    }

    /// Adds entries to a table.
    pub(super) fn extend_table(&mut self, key: &str, entry: &Entry, more: Vec<Entry>) {
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node.value) {
            Some(Value::Table(entries)) => entries.extend(more),
            Some(_) => {}
            None => {
                let node = Node { span: entry.node.span.clone(), value: Value::Table(more) };
                self.put(key, &entry.key_span, node);
            }
        }
    }

    /// `node`, a value or a part of the native `key`, with translated references.
    pub(super) fn node(&mut self, key: &str, node: &Node) -> Node {
        let is_literal = self.dialect.literal_keys.contains(&key);
        self.translated(if is_literal { Variables::Never } else { self.dialect.variables }, node)
    }

    fn translated(&mut self, variables: Variables, node: &Node) -> Node {
        let value = match &node.value {
            Value::String(text) => Value::String(self.text(variables, text, &node.span)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.translated(variables, item)).collect()),
            Value::Table(entries) => {
                let entry = |entry: &Entry| Entry {
                    key: entry.key.clone(),
                    key_span: entry.key_span.clone(),
                    node: self.translated(variables, &entry.node),
                };
                Value::Table(entries.iter().map(entry).collect())
            }
            Value::Integer(number) => Value::Integer(*number),
            Value::Float => Value::Float,
            Value::Bool(truth) => Value::Bool(*truth),
            Value::Other(name) => Value::Other(name),
        };
        Node { span: node.span.clone(), value }
    }

    fn text(&mut self, variables: Variables, text: &str, span: &Range<usize>) -> String {
        let mut failures = TranslationFailures::default();
        let words = variables::translated(text, variables, &mut failures);
        self.missing.extend(failures.missing);
        self.literal.extend(failures.literal.into_iter().map(|shown| (span.clone(), shown)));
        self.needs_agent_cwd |= words.contains(AGENT_CWD);
        words
    }

    /// References that are plain text to the client, each with its location.
    pub(super) fn literal_references(&mut self) -> Vec<(Range<usize>, String)> {
        std::mem::take(&mut self.literal)
    }

    /// The table, and the references that prevent a launch. A server that depends on the agent's directory gets `sharing = "workspace"`,
    /// because other clients have no key for it.
    pub(super) fn finish(mut self) -> (Vec<Entry>, Vec<UnusableValue>) {
        if self.needs_agent_cwd && !self.has("sharing") {
            self.put_here("sharing", "workspace".to_owned());
        }
        (self.entries, self.missing)
    }
}

/// A valid name for each title. A valid title is used as it is, unless an earlier server has the name. Any other gets a similar name, with
/// a number if that name is taken.
pub(super) fn assigned(titles: &[&str]) -> Vec<Arc<str>> {
    let mut taken: HashSet<Arc<str>> = HashSet::new();
    let mut names: Vec<Option<Arc<str>>> = Vec::new();
    for title in titles {
        let unchanged = is_server_name(title).then(|| Arc::from(*title)).filter(|name| !taken.contains(name));
        taken.extend(unchanged.clone());
        names.push(unchanged);
    }
    let mut numbers = HashMap::new();
    let fill = |(unchanged, title): (Option<Arc<str>>, &&str)| {
        unchanged.unwrap_or_else(|| {
            let fitted = fitted_name(title, "server");
            let name = free(&fitted, numbers.entry(fitted.clone()).or_insert(1), &taken);
            taken.insert(Arc::clone(&name));
            name
        })
    };
    names.into_iter().zip(titles).map(fill).collect()
}

/// `name`, or `name-2` and so on. `number` is the last number tried.
fn free(name: &str, number: &mut usize, taken: &HashSet<Arc<str>>) -> Arc<str> {
    loop {
        let candidate = if *number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        *number += 1;
        if !taken.contains(candidate.as_str()) {
            return candidate.into();
        }
    }
}
