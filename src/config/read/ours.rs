//! Our own format: `[daemon]`, `[defaults]`, `[servers.NAME]` and `[profiles.NAME]`, each key strictly.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::super::DaemonConfig;
use super::super::notes::{Owner, What};
use super::super::settings::{OnUnhealthy, Replace, Settings, SettingsDraft, Sharing, Start};
use super::super::tree::{Entry, Node, Problem, Value};
use super::fields::{Fields, suggestion};
use super::launch::LaunchKeys;
use super::{DaemonDraft, DefaultsDraft, Draft, Reader, ServerDraft};
use crate::config::Keep;
use crate::naming::{MIN_LENGTH, Naming, Scheme};

const MAX_NAME_LENGTH: usize = 128;
const MAX_INSTANCES: usize = 1000;
const MAX_STARTING: usize = 1000;
/// Of a message, and of a file.
const SIZES: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// Memory of an instance.
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Processes and threads of an instance; the kernel knows no more.
const TASKS: RangeInclusive<usize> = 1..=4 << 20;
/// Calls that are kept in memory.
const HISTORY: RangeInclusive<usize> = 10..=10_000;

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
            draft.server_names = servers.iter().map(|server| server.key.clone()).collect();
            draft.servers = servers.iter().filter_map(|server| self.our_server(server)).collect();
        }
        if let Some(entry) = fields.take("profiles") {
            draft.profiles = self.profiles(entry);
        }
        self.finish(fields, &[]);
        draft
    }

    fn daemon(&mut self, entry: &Entry) -> DaemonDraft {
        let mut fields = Fields::new("`[daemon]`", self.table(&entry.node, "`daemon`", "write `[daemon]`"));
        let (naming, max_name_length) = self.naming(&mut fields);
        let draft = DaemonDraft {
            naming,
            max_name_length,
            max_message: fields.take("max_message").and_then(|entry| self.size(entry, SIZES, "16MiB")),
            line_timeout: fields.take("line_timeout").and_then(|entry| self.duration(entry)),
            max_starting: fields
                .take("max_starting")
                .and_then(|entry| self.integer(entry, 1..=MAX_STARTING, DaemonConfig::default().max_starting)),
            call_history: fields
                .take("call_history")
                .and_then(|entry| self.integer(entry, HISTORY, Keep::default().history)),
            call_log: fields.take("call_log").and_then(|entry| self.file_path(entry, "~/mcpd-calls.jsonl")),
            call_log_max: fields.take("call_log_max").and_then(|entry| self.size(entry, SIZES, "10MiB")),
            watch: fields.take("watch").map(|entry| self.boolean(entry)),
        };
        self.finish(fields, &[]);
        draft
    }

    /// How exposed names are made.
    pub(super) fn naming(&mut self, fields: &mut Fields<'_>) -> (Option<Scheme>, Option<usize>) {
        let scheme = fields.take("naming").and_then(|entry| self.one_of(entry, "naming scheme", &Scheme::ALL));
        let longest = fields.take("max_name_length");
        let default = Naming::default().max_length;
        (scheme, longest.and_then(|entry| self.integer(entry, MIN_LENGTH..=MAX_NAME_LENGTH, default)))
    }

    fn defaults(&mut self, entry: &Entry) -> DefaultsDraft {
        self.notes.of(Owner::Defaults);
        let mut fields = Fields::new("`[defaults]`", self.table(&entry.node, "`defaults`", "write `[defaults]`"));
        let draft = DefaultsDraft {
            settings: self.settings(&mut fields),
            pass_env: fields.take("pass_env").map(|entry| self.variable_names(entry)).unwrap_or_default(),
        };
        self.finish(fields, &[]);
        draft
    }

    pub(super) fn our_server(&mut self, entry: &Entry) -> Option<ServerDraft> {
        let name = &entry.key;
        let named = self.server_name(entry);
        self.notes.of(Owner::Server(Arc::from(name.as_str())));
        self.notes.add(&entry.key_span, What::Name);
        let Value::Table(entries) = &entry.node.value else {
            let help = format!("write `[servers.{name}]`, and its `command` on the next line");
            self.wrong_type(&entry.node, &format!("`servers.{name}`"), "a table", help);
            return None;
        };
        let mut fields = Fields::new(format!("`[servers.{name}]`"), entries);
        let settings = self.settings(&mut fields);
        let log_arguments = fields.take("log_arguments").is_some_and(|entry| self.boolean(entry));
        let policy = self.policy(entry, &mut fields);
        let keys = LaunchKeys::ours(&mut fields);
        let launch = self.launch(entry, &keys);
        self.finish(fields, &[]);
        let (name, name_span) = (named?, entry.key_span.clone());
        Some(ServerDraft { name, name_span, launch: launch?, policy: policy?, settings, log_arguments })
    }

    fn settings(&mut self, fields: &mut Fields<'_>) -> SettingsDraft {
        let unset = Settings::default();
        let instances = |reader: &mut Self, entry| reader.integer(entry, 1..=MAX_INSTANCES, unset.max_instances);
        SettingsDraft {
            sharing: fields.take("sharing").and_then(|entry| self.one_of(entry, "way of `sharing`", &Sharing::ALL)),
            start: fields.take("start").and_then(|entry| self.one_of(entry, "way to `start`", &Start::ALL)),
            broadcast_logs: fields.take("broadcast_logs").map(|entry| self.boolean(entry)),
            max_instances: fields.take("max_instances").and_then(|entry| instances(self, entry)),
            idle_timeout: fields.take("idle_timeout").and_then(|entry| self.duration(entry)),
            handshake_timeout: fields.take("handshake_timeout").and_then(|entry| self.duration(entry)),
            calls: self.call_timeouts(fields),
            health_interval: fields.take("health_interval").and_then(|entry| self.duration(entry)),
            health_timeout: fields.take("health_timeout").and_then(|entry| self.duration(entry)),
            on_unhealthy: fields
                .take("on_unhealthy")
                .and_then(|entry| self.one_of(entry, "value of `on_unhealthy`", &OnUnhealthy::ALL)),
            backoff_reset: fields.take("backoff_reset").and_then(|entry| self.duration(entry)),
            memory_max: fields.take("memory_max").and_then(|entry| self.size(entry, MEMORY, "1GiB")),
            tasks_max: fields.take("tasks_max").and_then(|entry| self.integer(entry, TASKS, 256)),
            replace: fields.take("replace").and_then(|entry| self.one_of(entry, "way to `replace`", &Replace::ALL)),
        }
    }

    /// The value that one of a few texts selects.
    fn one_of<T: Copy>(&mut self, entry: &Entry, what: &str, choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.string(&entry.node, &format!("`{}`", entry.key))?;
        self.choice(&entry.node, text, what, choices)
    }

    /// The same of the `text` at `node`.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &Node,
        text: &str,
        what: &str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let found = choices.iter().find(|(spelt, _)| *spelt == text);
        if found.is_none() {
            let known: Vec<_> = choices.iter().map(|(spelt, _)| *spelt).collect();
            let problem = Problem::new(node.span.clone(), format!("`{}` is no {what}", text.escape_debug()));
            self.error(problem.help(suggestion(text, &known)));
        }
        found.map(|(_, choice)| *choice)
    }
}
