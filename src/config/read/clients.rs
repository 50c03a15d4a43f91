//! The format of other clients: the objects of `mcpServers`, with our `allow` and `deny` if someone adds them.

use super::super::settings::SettingsDraft;
use super::super::tree::{Entry, Node, Problem, Value};
use super::fields::Fields;
use super::launch::LaunchKeys;
use super::{Draft, Reader, ServerDraft};

const EXAMPLE: &str = r#"write `{ "mcpServers": { "files": { "command": "npx" } } }`"#;
const SERVER_EXAMPLE: &str = r#"write `{ "command": "npx" }`"#;

impl Reader<'_> {
    /// Only the servers are read: whatever else is in such a file is another program's business.
    pub(super) fn clients_file(&mut self, root: &Node) -> Draft {
        let entries = self.table(root, "the file", EXAMPLE);
        let Some(servers) = entries.iter().find(|entry| entry.key == "mcpServers") else {
            if matches!(root.value, Value::Table(_)) {
                let start = root.span.start;
                self.error(Problem::new(start..start + 1, "there is no `mcpServers` in this file").help(EXAMPLE));
            }
            return Draft::default();
        };
        let servers = self.table(&servers.node, "`mcpServers`", EXAMPLE);
        let server_names = servers.iter().map(|server| server.key.clone()).collect();
        let servers = servers.iter().filter_map(|server| self.clients_server(server)).collect();
        Draft { servers, server_names, ..Draft::default() }
    }

    fn clients_server(&mut self, entry: &Entry) -> Option<ServerDraft> {
        let place = format!("`{}`", entry.key);
        let Value::Table(entries) = &entry.node.value else {
            self.wrong_type(&entry.node, &place, "an object", SERVER_EXAMPLE.to_owned());
            return None;
        };
        let mut fields = Fields::new(place, entries);
        if self.is_skipped(entry, &mut fields) {
            return None;
        }
        let name = self.server_name(entry);
        let policy = self.policy(entry, &mut fields);
        let keys = LaunchKeys::common(&mut fields);
        let launch = self.launch(entry, &keys);
        self.finish_loosely(fields);
        let name_span = entry.key_span.clone();
        let settings = SettingsDraft::default();
        Some(ServerDraft { name: name?, name_span, launch: launch?, policy: policy?, settings, log_arguments: false })
    }

    fn is_skipped(&mut self, entry: &Entry, fields: &mut Fields<'_>) -> bool {
        // Whether there is a `command` or a `url` says the same.
        fields.take("type").and_then(|kind| self.string(&kind.node, "`type`"));
        let disabled = fields.take("disabled").is_some_and(|disabled| self.boolean(disabled));
        if disabled {
            let problem = Problem::new(entry.key_span.clone(), format!("server `{}` is skipped", entry.key));
            self.warn(problem.label("it says `disabled`").help("remove `disabled` to have it run"));
        }
        disabled
    }
}
