//! Finds the tables of a client's file that define servers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::super::tree::{Entry, Node, Problem, Value};
use super::{Client, Dialect, Format, Reader, base, project_of};
use crate::suggest::misspelt;

const EXAMPLE: &str = r#"write `{ "mcpServers": { "files": { "command": "npx" } } }`"#;

/// A table of servers.
pub(super) struct Section<'t> {
    pub(super) servers: &'t [Entry],
    pub(super) dialect: Dialect,
    /// The directory of relative paths.
    pub(super) base: Option<PathBuf>,
    /// The directory of their project. `None` for all projects.
    pub(super) project: Option<PathBuf>,
    /// Whether the user's own file defines them for that project only.
    pub(super) is_private: bool,
    /// Names of disabled servers.
    pub(super) excluded: HashSet<String>,
}

/// Whether TOML is a Codex file: it has Codex's table of servers, or its directory, and no native table.
pub(in crate::config) fn is_codex(path: &Path, root: &Node) -> bool {
    let has = |key: &str| root.get(key).is_some();
    let native_keys = ["servers", "daemon", "defaults"];
    let named = path.parent().and_then(Path::file_name).is_some_and(|name| name == ".codex");
    (has("mcp_servers") || named) && !native_keys.into_iter().any(has)
}

/// Whether a file has a table for servers.
pub(in crate::config) fn has_servers(root: &Node) -> bool {
    let keys = ["mcpServers", "servers", "mcp.servers", "context_servers", "mcp_servers"];
    let in_settings = root.get("mcp").is_some_and(|mcp| mcp.node.get("servers").is_some());
    let projects = root.get("projects").map_or(&[][..], |projects| projects.node.entries());
    let in_projects = projects.iter().any(|project| project.node.get("mcpServers").is_some());
    let in_mcp =
        root.get("mcp").is_some_and(|mcp| mcp.node.entries().iter().any(|entry| entry.node.get("type").is_some()));
    in_settings || in_mcp || in_projects || keys.into_iter().any(|key| root.get(key).is_some())
}

impl Reader<'_> {
    pub(super) fn sections<'t>(&mut self, root: &'t Node) -> Vec<Section<'t>> {
        let project = project_of(&self.path, self.sources);
        let base = project.clone().or_else(|| base(&self.path));
        let dialect = self.dialect();
        let mut found = Vec::new();
        let mut add = |reader: &mut Self, entry: Option<&'t Entry>, dialect, private: Option<&str>| {
            let Some(entry) = entry else { return };
            let servers = reader.table(&entry.node, &format!("`{}`", entry.key), EXAMPLE);
            let (base, project) = match private.map(PathBuf::from) {
                Some(directory) => {
                    (Some(directory.clone()).filter(|directory| directory.is_absolute()), Some(directory))
                }
                None => (base.clone(), project.clone()),
            };
            let (excluded, is_private) = (excluded(root, servers), private.is_some());
            found.push(Section { servers, dialect, base, project, is_private, excluded });
        };
        if dialect == Dialect::OpenCode {
            // Version 2 has servers in `mcp.servers`, version 1 in `mcp` itself.
            let mcp = root.get("mcp");
            let nested =
                mcp.and_then(|mcp| mcp.node.get("servers")).filter(|servers| servers.node.get("type").is_none());
            add(self, nested.or(mcp), dialect, None);
            return found;
        }
        let key = if dialect == Dialect::Codex { "mcp_servers" } else { "mcpServers" };
        add(self, root.get(key), dialect, None);
        if dialect != Dialect::Codex {
            let in_settings = root.get("mcp").and_then(|mcp| mcp.node.get("servers"));
            for servers in [root.get("servers"), in_settings, root.get("mcp.servers")] {
                add(self, servers, dialect, None);
            }
            add(self, root.get("context_servers"), Dialect::Zed, None);
        }
        let projects = root.get("projects").filter(|_| dialect == Dialect::Json);
        for project in projects.map_or(&[][..], |projects| projects.node.entries()) {
            add(self, project.node.get("mcpServers"), dialect, Some(project.key.as_str()));
        }
        if found.is_empty() && projects.is_none() {
            self.no_servers(root);
        }
        found
    }

    /// The keys of the client whose file has this path.
    fn dialect(&self) -> Dialect {
        match self.format {
            Format::Codex => Dialect::Codex,
            _ => Client::of_file(&self.path).map_or(Dialect::Json, |client| client.dialect),
        }
    }

    fn no_servers(&mut self, root: &Node) {
        if !matches!(root.value, Value::Table(_)) {
            self.table(root, "the file", EXAMPLE);
        } else if self.format == Format::Codex {
            let help = "write `[mcp_servers.NAME]` for each server";
            self.error(Problem::new(0..0, "there is no `mcp_servers` in this file").help(help));
        } else {
            let start = root.span.start;
            let problem = Problem::new(start..start + 1, "there is no `mcpServers` in this file");
            let misspelt = root.entries().iter().find_map(|entry| misspelt(&entry.key, ["mcpServers"]));
            self.error(problem.help(match misspelt {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("{EXAMPLE}; `servers` and `context_servers` are taken, too"),
            }));
        }
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
