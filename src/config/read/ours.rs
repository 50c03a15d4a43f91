//! Our own format: `[daemon]`, `[defaults]` and `[servers.NAME]`, each key strictly.

use super::super::tree::{Entry, Node, Problem, Value};
use super::fields::{Fields, Later, suggestion};
use super::{DaemonDraft, DefaultsDraft, Draft, Reader, ServerDraft};
use crate::naming::{MIN_LENGTH, Naming, Scheme};

const MAX_NAME_LENGTH: usize = 128;

const SHARED: &str = "remove it: one instance of a server serves all agents";
const EAGER: &str = "remove it: every server is started with the daemon";
const COMMAND_ONLY: &str = "configure a server that is run, with `command`";
const TOOLS_ONLY: &str = "remove it: `allow` and `deny` narrow a server's tools";

const LATER: &[Later] = &[("profiles", "remove it: `allow` and `deny` of a server hold for all agents")];
const LATER_DEFAULTS: &[Later] = &[("sharing", SHARED), ("start", EAGER)];
const LATER_SERVER: &[Later] = &[
    ("sharing", SHARED),
    ("start", EAGER),
    ("url", COMMAND_ONLY),
    ("headers", COMMAND_ONLY),
    ("roots", "remove it, and give the directories to the server's `args`"),
    ("prompts", TOOLS_ONLY),
    ("resources", TOOLS_ONLY),
];

impl Reader<'_> {
    pub(super) fn our_file(&mut self, root: &Node) -> Draft {
        let mut draft = Draft::default();
        let mut fields = Fields::new("the file", self.table(root, "the file", "begin with `[servers.files]`"));
        if let Some(entry) = fields.take("daemon") {
            draft.daemon = self.daemon(entry);
        }
        if let Some(entry) = fields.take("defaults") {
            draft.defaults = self.defaults(entry);
        }
        if let Some(entry) = fields.take("servers") {
            let servers = self.table(&entry.node, "`servers`", "write `[servers.NAME]` for each server");
            draft.servers = servers.iter().filter_map(|server| self.our_server(server)).collect();
        }
        self.finish(fields, LATER);
        draft
    }

    fn daemon(&mut self, entry: &Entry) -> DaemonDraft {
        let mut fields = Fields::new("`[daemon]`", self.table(&entry.node, "`daemon`", "write `[daemon]`"));
        let draft = DaemonDraft {
            naming: fields.take("naming").and_then(|entry| self.naming(entry)),
            max_name_length: fields
                .take("max_name_length")
                .and_then(|entry| self.integer(entry, MIN_LENGTH..=MAX_NAME_LENGTH, Naming::default().max_length)),
            max_message: fields.take("max_message").and_then(|entry| self.message_size(entry)),
        };
        self.finish(fields, &[]);
        draft
    }

    fn naming(&mut self, entry: &Entry) -> Option<Scheme> {
        let text = self.string(&entry.node, "`naming`")?;
        let found = Scheme::ALL.iter().find(|(spelt, _)| *spelt == text);
        if found.is_none() {
            let help = suggestion(text, &Scheme::ALL.map(|(spelt, _)| spelt));
            self.error(Problem::new(entry.node.span.clone(), format!("`{text}` is no naming scheme")).help(help));
        }
        found.map(|(_, scheme)| *scheme)
    }

    fn defaults(&mut self, entry: &Entry) -> DefaultsDraft {
        let mut fields = Fields::new("`[defaults]`", self.table(&entry.node, "`defaults`", "write `[defaults]`"));
        let draft = DefaultsDraft {
            handshake_timeout: fields.take("handshake_timeout").and_then(|entry| self.duration(entry)),
            call_timeout: fields.take("call_timeout").and_then(|entry| self.duration(entry)),
            pass_env: fields.take("pass_env").map(|entry| self.variable_names(entry)).unwrap_or_default(),
        };
        self.finish(fields, LATER_DEFAULTS);
        draft
    }

    fn our_server(&mut self, entry: &Entry) -> Option<ServerDraft> {
        let name = &entry.key;
        let named = self.server_name(entry);
        let Value::Table(entries) = &entry.node.value else {
            let help = format!("write `[servers.{name}]`, and its `command` on the next line");
            self.wrong_type(&entry.node, &format!("`servers.{name}`"), "a table", help);
            return None;
        };
        let mut fields = Fields::new(format!("`[servers.{name}]`"), entries);
        let pass_env = fields.take("pass_env").map(|entry| self.variable_names(entry)).unwrap_or_default();
        let handshake_timeout = fields.take("handshake_timeout").and_then(|entry| self.duration(entry));
        let call_timeout = fields.take("call_timeout").and_then(|entry| self.duration(entry));
        let remote = fields.has("url");
        let server = self.server(entry, &mut fields, remote);
        self.finish(fields, LATER_SERVER);
        let (mut launch, policy) = server?;
        if let Ok(launch) = &mut launch {
            launch.pass_env = pass_env;
        }
        Some(ServerDraft {
            name: named?,
            name_span: entry.key_span.clone(),
            launch,
            policy,
            handshake_timeout,
            call_timeout,
        })
    }
}
