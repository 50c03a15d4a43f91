//! Reads mcpd's own format: `[daemon]`, `[defaults]`, `[servers.NAME]` and `[profiles.NAME]`. Every unknown key is an error, with what to write
//! in place of keys that other clients have.

use super::super::keys::KeyLayer;
use super::super::layer::{DefaultsLayer, Layer, NarrowingLayer, ServerLayer, ServerRules};
use super::super::tree::{Entry, Node, Problem, Value};
use super::launch::{LaunchKeys, LaunchReading};
use super::reader::{Fields, Reader, joined, suggestion};
use super::values::fitted_name;

/// Keys that only a server table has.
const OF_A_SERVER: [&str; 6] = ["command", "args", "env", "cwd", "url", "headers"];

/// The result of reading one server table.
pub(super) enum NativeServer {
    Configured(Box<ServerLayer>),
    Narrowed(Box<NarrowingLayer>),
}

impl Reader<'_> {
    pub(super) fn native_file(&mut self, root: &Node) -> Layer {
        let mut layer = Layer::default();
        let mut fields = Fields::new("the file", self.table(root, "the file", "begin with `[servers.files]`"));
        if let Some(entry) = fields.take("daemon") {
            layer.daemon = self.daemon(entry);
        }
        if let Some(entry) = fields.take("defaults") {
            layer.defaults = self.defaults(entry);
        }
        if let Some(entry) = fields.take("servers") {
            let servers = self.table(&entry.node, "`servers`", "write `[servers.NAME]` for each server");
            layer.is_partial = !matches!(entry.node.value, Value::Table(_));
            layer.server_names = servers.iter().map(|server| server.key.clone()).collect();
            for server in servers.iter().filter_map(|server| self.native_server(server)) {
                match server {
                    NativeServer::Configured(server) => layer.servers.push(*server),
                    NativeServer::Narrowed(narrowing) => layer.narrowings.push(*narrowing),
                }
            }
        }
        if let Some(entry) = fields.take("profiles") {
            layer.profiles = self.profiles(entry);
        }
        self.outside_a_server(&mut fields);
        layer.is_partial |= fields.has_unknown();
        self.misplaced_servers("the file", None, &mut fields);
        self.finish(fields);
        layer
    }

    /// Reports server keys at the top level of the file, all as one error.
    fn outside_a_server(&mut self, fields: &mut Fields<'_>) {
        let found: Vec<_> = OF_A_SERVER.iter().filter_map(|key| fields.take_misplaced(key)).collect();
        let Some(first) = found.iter().min_by_key(|entry| entry.key_span.start) else { return };
        let names = joined(&found.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), "and");
        let verb = if found.len() == 1 { "stands" } else { "stand" };
        let problem = Problem::new(first.key_span.clone(), format!("{names} {verb} outside the table of a server"));
        self.error(problem.help("write `[servers.NAME]` above, with a name for the server"));
    }

    fn daemon(&mut self, entry: &Entry) -> KeyLayer {
        let mut fields = Fields::new("`[daemon]`", self.table(&entry.node, "`daemon`", "write `[daemon]`"));
        let layer = self.daemon_keys(&mut fields);
        self.finish(fields);
        layer
    }

    fn defaults(&mut self, entry: &Entry) -> DefaultsLayer {
        let mut fields = Fields::new("`[defaults]`", self.table(&entry.node, "`defaults`", "write `[defaults]`"));
        let layer = self.defaults_keys(&mut fields);
        self.finish(fields);
        layer
    }

    pub(super) fn defaults_keys(&mut self, fields: &mut Fields<'_>) -> DefaultsLayer {
        DefaultsLayer {
            settings: self.settings(fields, false),
            pass_env: fields.take("pass_env").map(|entry| self.variable_names(entry)).unwrap_or_default(),
            exposures: self.default_exposure(fields).into_iter().collect(),
        }
    }

    pub(super) fn native_server(&mut self, entry: &Entry) -> Option<NativeServer> {
        let name = &entry.key;
        let named = self.server_name(entry);
        let Value::Table(entries) = &entry.node.value else {
            let help = format!("write `[servers.{name}]`, and its `command` on the next line");
            self.wrong_type(&entry.node, &format!("`servers.{name}`"), "a table", help);
            return None;
        };
        let before = self.problems.errors.len();
        let table = format!("`[servers.{name}]`");
        let mut fields = Fields::new(table.clone(), entries);
        self.keys_of_other_clients(&table, &mut fields);
        let settings = self.settings(&mut fields, true);
        let exposure = self.exposure(entry, &mut fields);
        let tools = self.tool_overrides(entry, &mut fields);
        let keys = LaunchKeys::native(&mut fields);
        self.misplaced_servers(&table, Some(name), &mut fields);
        let launch = self.launch(entry, &keys);
        self.finish(fields);
        let name = self.spanned_at(entry.key_span.clone(), named?);
        let rules = ServerRules { exposures: vec![exposure?], settings, tools };
        Some(match launch? {
            LaunchReading::Complete(launch) => {
                NativeServer::Configured(Box::new(ServerLayer { name, launch: *launch, rules }))
            }
            // The error may be in the key that configures the server.
            LaunchReading::Absent(_) if self.problems.errors.len() > before => return None,
            LaunchReading::Absent(misplaced) => {
                NativeServer::Narrowed(Box::new(NarrowingLayer { name, misplaced, rules }))
            }
        })
    }

    /// The entry of `names` that equals `text`.
    pub(super) fn one_of(
        &mut self,
        node: &Node,
        text: &str,
        key: &str,
        names: &[&'static str],
    ) -> Option<&'static str> {
        let found = names.iter().find(|name| **name == text);
        if found.is_none() {
            let message = format!("`{}` is not a value of `{key}`", text.escape_debug());
            self.error(Problem::new(node.span.clone(), message).help(suggestion(text, names)));
        }
        found.copied()
    }
}

/// Keys of other clients, separated by spaces, and the edit. Keys that [`crate::suggest`] corrects are not here.
const OF_OTHER_CLIENTS: [(&str, &str); 16] = [
    ("type transport", "remove it: `command` or `url` is enough"),
    ("disabled", "write `enabled = false` for a disabled server, or remove it"),
    (
        "autoApprove alwaysAllow trust",
        "remove it: the agent asks for approval, and `deny` takes tools away from all agents",
    ),
    ("description name title id icon note comment", "remove it, or write a comment: `# …`"),
    ("cmd executable program", "write `command`"),
    ("arguments argv parameters", "write `args`"),
    ("envFile env_file dotenv", "write the variables in `env`; a value in a file of its own is `${file:PATH}`"),
    ("env_vars", "write `pass_env`"),
    ("workingDirectory working_directory workdir dir directory", "write `cwd`"),
    ("httpUrl serverUrl http_url server_url endpoint uri", "write `url`"),
    ("requestInit env_http_headers", "write `headers = { NAME = \"VALUE\" }`"),
    (
        "bearer_token_env_var bearer_token authorization auth apiKey api_key token",
        "write `headers = { Authorization = \"Bearer ${NAME}\" }`, with the name of a variable",
    ),
    ("timeout requestTimeout tool_timeout_sec tool_timeout_ms", "write it with a unit: `call_timeout = \"60s\"`"),
    (
        "startup_timeout_sec startup_timeout_ms startup_timeout initTimeout",
        "write it with a unit: `handshake_timeout = \"30s\"`",
    ),
    (
        "enabled_tools includeTools allowedTools allowed_tools",
        "write `allow = [\"TOOL\"]`, with the server's own names",
    ),
    (
        "disabled_tools excludeTools disabledTools blocked_tools",
        "write `deny = [\"TOOL\"]`, with the server's own names",
    ),
];

impl Reader<'_> {
    /// Reports the keys of other clients in the table of a server.
    pub(super) fn keys_of_other_clients(&mut self, table: &str, fields: &mut Fields<'_>) {
        for (keys, help) in OF_OTHER_CLIENTS {
            for entry in keys.split(' ').filter_map(|key| fields.take_misplaced(key)) {
                self.unknown(entry, table, help);
            }
        }
    }

    /// Reports unknown tables that are servers, such as `[files]` and `[servers.my.files]`. `parent`: the server above.
    pub(super) fn misplaced_servers(&mut self, table: &str, parent: Option<&str>, fields: &mut Fields<'_>) {
        for entry in fields.take_servers() {
            let name = parent.map_or_else(|| entry.key.clone(), |parent| format!("{parent}-{}", entry.key));
            self.unknown(entry, table, &format!("write `[servers.{}]`", fitted_name(&name, "server")));
        }
    }

    fn unknown(&mut self, entry: &Entry, table: &str, help: &str) {
        let message = format!("unknown key `{}` in {table}", entry.key);
        self.error(Problem::new(entry.key_span.clone(), message).help(help));
    }
}
