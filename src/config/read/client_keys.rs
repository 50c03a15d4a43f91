//! Keys that other clients have in the table of a server, with what to write in mcpd's TOML.

use super::super::tree::{Entry, Problem};
use super::Reader;
use super::fields::Fields;
use super::server::fitted_name;

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
