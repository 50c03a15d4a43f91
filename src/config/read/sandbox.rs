//! Reads `sandbox`: a level, or a table with a level and its exceptions.

use std::path::PathBuf;

use super::super::sandbox::{Network, ProtectedDirectories, Sandbox, SandboxLevel};
use super::super::tree::{Entry, Problem, Value};
use super::reader::{Fields, Reader};

const EXAMPLE: &str = "{ level = \"files\", write = [\"/srv/notes\"] }";
const NETWORK: &str = "true, \"none\" or a list of TCP ports";

impl Reader<'_> {
    pub(super) fn sandbox(&mut self, entry: &Entry) -> Option<Sandbox> {
        let Value::Table(entries) = &entry.node.value else {
            let Value::String(_) = entry.node.value else {
                let help = self.assignment("sandbox", "\"scope\"");
                self.wrong_type(&entry.node, "`sandbox`", "a level or a table", help);
                return None;
            };
            return self.choice(&entry.node, "sandbox").map(Sandbox::of_level);
        };
        let mut fields = Fields::new("`sandbox`", entries);
        let Some(level) = fields.take("level") else {
            let message = "`sandbox` has no `level`";
            self.error(Problem::new(entry.node.span.clone(), message).help(self.assignment("sandbox", EXAMPLE)));
            return None;
        };
        let mut sandbox = Sandbox::of_level(self.choice(&level.node, "sandbox")?);
        let is_files = sandbox.level == SandboxLevel::Files;
        if let Some(paths) = fields.take("read") {
            sandbox.read = self.sandbox_paths(paths, is_files);
        }
        if let Some(paths) = fields.take("write") {
            sandbox.write = self.sandbox_paths(paths, is_files);
        }
        if let Some(unix) = fields.take("unix") {
            sandbox.unix = Some(self.boolean(unix)?);
        }
        if let Some(namespaces) = fields.take("namespaces").filter(|entry| self.expect_files(entry, is_files)) {
            sandbox.namespaces = self.choice(&namespaces.node, "namespaces")?;
        }
        if let Some(nested) = fields.take("nested_namespaces").filter(|entry| self.expect_files(entry, is_files)) {
            sandbox.nested_namespaces = self.boolean(nested)?;
        }
        if let Some(network) = fields.take("network") {
            sandbox.network = self.network(network)?;
        }
        self.finish(fields);
        if sandbox.level == SandboxLevel::None && sandbox != Sandbox::of_level(SandboxLevel::None) {
            let problem = Problem::new(level.node.span.clone(), "level `none` restricts nothing".to_owned());
            self.error(problem.help("remove the other keys of `sandbox`, or choose level `scope` or `files`"));
            return None;
        }
        Some(sandbox)
    }

    /// Refuses a key that has an effect only at level `files`, at another level.
    fn expect_files(&mut self, entry: &Entry, is_files: bool) -> bool {
        if !is_files {
            let problem =
                Problem::new(entry.key_span.clone(), format!("`{}` has an effect only at level `files`", entry.key));
            self.error(problem.help("remove it, or write `level = \"files\"`"));
        }
        is_files
    }

    fn sandbox_paths(&mut self, entry: &Entry, is_files: bool) -> Vec<PathBuf> {
        if !self.expect_files(entry, is_files) {
            return Vec::new();
        }
        let what = format!("each item of `{}`", entry.key);
        let protected = ProtectedDirectories::of(self.sources);
        let mut paths = Vec::new();
        for (node, _) in self.strings(entry, r#"["/srv/notes"]"#) {
            let help = "begin it with `/`, `~/` or a variable such as `${HOME}/notes`";
            let Some(path) = self.absolute_interpolated_path(node, &what, help) else { continue };
            if let Some(directory) = protected.opened_by(&path) {
                let message = format!("`{}` would open `{}` to the server", path.display(), directory.display());
                let help = "name the files or directories below it that the server needs";
                self.error(Problem::new(node.span.clone(), message).help(help));
                continue;
            }
            paths.push(path);
        }
        paths
    }

    fn network(&mut self, entry: &Entry) -> Option<Network> {
        let ports = match &entry.node.value {
            Value::Bool(true) => return Some(Network::Any),
            Value::String(text) if text == "none" => Some(Vec::new()),
            Value::Array(items) => items
                .iter()
                .map(|item| match item.value {
                    Value::Integer(port @ 1..=65_535) => u16::try_from(port).ok(),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        if ports.is_none() {
            let help = self.assignment("network", "[443]");
            self.wrong_type(&entry.node, "`network`", NETWORK, help);
        }
        ports.map(Network::Ports)
    }
}
