//! Reads `[servers.NAME.tool.TOOL]`: what agents see of single tools.

use std::sync::Arc;

use super::super::diagnostic::Spanned;
use super::super::layer::{FixedArgument, ToolOverrideLayer, ToolOverridesLayer};
use super::super::serialize::{toml_key, toml_string};
use super::super::tree::{Entry, Node, Problem, Value};
use super::reader::{Fields, Reader};
use crate::tool_overrides::is_tool_name;

const EXAMPLE: &str = "name = \"find\"";

/// A value as JSON, and as TOML without likely secrets.
struct Spellings {
    json: String,
    toml: String,
}

impl Reader<'_> {
    /// The overrides of a server's tools.
    pub(super) fn tool_overrides(&mut self, server: &Entry, fields: &mut Fields<'_>) -> ToolOverridesLayer {
        let Some(entry) = fields.take("tool") else { return ToolOverridesLayer::default() };
        let table = format!("servers.{}.tool", server.key);
        let help = format!("write `[{table}.TOOL]` for each tool");
        let tools = self.table(&entry.node, "`tool`", &help);
        ToolOverridesLayer(tools.iter().filter_map(|tool| self.tool_override(&table, tool)).collect())
    }

    fn tool_override(&mut self, table: &str, entry: &Entry) -> Option<ToolOverrideLayer> {
        let table = format!("[{table}.{}]", toml_key(&entry.key));
        let entries = self.table(
            &entry.node,
            &format!("`{}`", entry.key.escape_debug()),
            &format!("write `{table}`, and its keys on the next lines"),
        );
        let mut fields = Fields::new(format!("`{table}`"), entries);
        let name = self.key(&mut fields, "name", |reader, entry| reader.tool_name(entry));
        let description = self.key(&mut fields, "description", |reader, entry| {
            reader.string(&entry.node, "`description`").map(str::to_owned)
        });
        let arguments = self.key(&mut fields, "arguments", |reader, entry| Some(reader.fixed_arguments(entry)));
        let hide_arguments = self.key(&mut fields, "hide_arguments", |reader, entry| {
            let names = reader.strings(entry, r#"["debug"]"#);
            Some(names.into_iter().map(|(node, name)| reader.spanned(node, name.to_owned())).collect::<Vec<_>>())
        });
        self.finish(fields);
        if let (Value::Table(entries), true) = (&entry.node.value, !entry.key.is_empty()) {
            if entries.is_empty() {
                let problem = Problem::new(entry.key_span.clone(), format!("`{table}` is empty"));
                self.error(
                    problem.help(format!("write what agents should see, such as `{EXAMPLE}`, or remove the table")),
                );
            }
            let tool: Spanned<Arc<str>> = self.spanned_at(entry.key_span.clone(), entry.key.as_str().into());
            return Some(ToolOverrideLayer { tool, name, description, arguments, hide_arguments });
        }
        if entry.key.is_empty() {
            let problem = Problem::new(entry.key_span.clone(), "the name of a tool is empty");
            self.error(problem.help("write the server's own name of the tool"));
        }
        None
    }

    fn tool_name(&mut self, entry: &Entry) -> Option<Arc<str>> {
        let name = self.string(&entry.node, "`name`")?;
        if is_tool_name(name) {
            return Some(name.into());
        }
        let message = format!("`{}` cannot name a tool", name.escape_debug());
        let help = "a name has 1 to 128 characters: letters A to Z, digits, `_`, `-` and `.`";
        self.error(Problem::new(entry.node.span.clone(), message).help(help));
        None
    }

    fn fixed_arguments(&mut self, entry: &Entry) -> Vec<FixedArgument> {
        let help = self.assignment("arguments", "{ repo = \"owner/name\" }");
        let mut arguments = Vec::new();
        for argument in self.table(&entry.node, "`arguments`", &help) {
            if let Some(Spellings { json, toml }) = self.spellings(&argument.node) {
                arguments.push(FixedArgument { name: argument.key.clone(), json, shown: toml });
            }
        }
        arguments
    }

    /// The value of an argument. Reports a value that JSON does not have.
    fn spellings(&mut self, node: &Node) -> Option<Spellings> {
        let both = |text: String| Spellings { json: text.clone(), toml: text };
        Some(match &node.value {
            Value::String(text) => {
                let toml = if self.file.hides(&node.span) { "\"…\"".to_owned() } else { toml_string(text) };
                Spellings { json: serde_json::Value::from(text.as_str()).to_string(), toml }
            }
            Value::Integer(number) => both(number.to_string()),
            Value::Bool(truth) => both(truth.to_string()),
            Value::Float => match self.decimal(node) {
                Some(text) => both(text),
                None => return self.no_json(node, "a number that is not finite"),
            },
            Value::Array(items) => {
                let items: Option<Vec<_>> = items.iter().map(|item| self.spellings(item)).collect();
                let (json, toml): (Vec<_>, Vec<_>) = items?.into_iter().map(|item| (item.json, item.toml)).unzip();
                Spellings { json: format!("[{}]", json.join(",")), toml: format!("[{}]", toml.join(", ")) }
            }
            Value::Table(entries) => {
                let member = |entry: &Entry| {
                    let Spellings { json, toml } = self.spellings(&entry.node)?;
                    let key = serde_json::Value::from(entry.key.as_str());
                    Some((format!("{key}:{json}"), format!("{} = {toml}", toml_key(&entry.key))))
                };
                let members: Option<Vec<_>> = entries.iter().map(member).collect();
                let (json, toml): (Vec<_>, Vec<_>) = members?.into_iter().unzip();
                let toml = if toml.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", toml.join(", ")) };
                Spellings { json: format!("{{{}}}", json.join(",")), toml }
            }
            Value::Other(name) => return self.no_json(node, name),
        })
    }

    /// A number as JSON spells it; `None` for infinity and what is no number.
    fn decimal(&self, node: &Node) -> Option<String> {
        let text = self.file.text.get(node.span.clone())?.replace('_', "");
        let text = text.strip_prefix('+').unwrap_or(&text);
        serde_json::from_str::<f64>(text).ok().map(|_| text.to_owned())
    }

    fn no_json(&mut self, node: &Node, what: &str) -> Option<Spellings> {
        let problem = Problem::new(node.span.clone(), format!("an argument cannot be {what}"));
        self.error(problem.help("write a text, a number, true, false, a list or a table"));
        None
    }
}
