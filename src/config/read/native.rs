//! Our own format: `[daemon]`, `[defaults]`, `[servers.NAME]` and `[profiles.NAME]`, each key strictly.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::super::DaemonConfig;
use super::super::layer::{
    DaemonLayer, DefaultsLayer, Layer, NamingLayer, NarrowingLayer, ServerLayer, ServerRules, SettingsLayer,
};
use super::super::settings::{EraChoice, OnUnhealthy, Replace, Settings, Sharing, Start};
use super::super::spanned::Spanned;
use super::super::tree::{Entry, Node, Problem, Value};
use super::Reader;
use super::fields::{Fields, joined, suggestion};
use super::launch::{LaunchKeys, Said};
use crate::config::Keep;
use crate::naming::{MIN_LENGTH, Naming, Scheme};

const MAX_NAME_LENGTH: usize = 128;
const MAX_INSTANCES: usize = 1000;
/// Calls that an instance has at a time without the key, at least.
const MAX_CONCURRENT: usize = 256;
const MAX_STARTING: usize = 1000;
/// Of a message, and of a file.
const SIZES: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// Memory of an instance.
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Processes and threads of an instance; the kernel knows no more.
const TASKS: RangeInclusive<usize> = 1..=4 << 20;
/// Calls that are kept in memory.
const HISTORY: RangeInclusive<usize> = 10..=10_000;

/// How other clients say what kind of server it is.
const OF_OTHER_CLIENTS: [&str; 2] = ["type", "transport"];
/// What only the table of a server has.
const OF_A_SERVER: [&str; 6] = ["command", "args", "env", "cwd", "url", "headers"];

/// What one table makes of a server.
pub(super) enum NativeServer {
    Configured(Box<ServerLayer>),
    Narrowed(Box<NarrowingLayer>),
}

impl Reader<'_> {
    pub(super) fn native_file(&mut self, root: &Node) -> Layer {
        let mut layer = Layer::default();
        let mut fields = Fields::new("the file", self.table(root, "the file", "begin with `[servers.files]`"));
        if let Some(entry) = fields.take("include") {
            layer.includes = self.included(entry);
        }
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
        self.finish(fields);
        layer
    }

    /// Keys of a server that stand at the top of the file: one mistake, however many there are.
    fn outside_a_server(&mut self, fields: &mut Fields<'_>) {
        let found: Vec<_> = OF_A_SERVER.iter().filter_map(|key| fields.take_misplaced(key)).collect();
        let Some(first) = found.iter().min_by_key(|entry| entry.key_span.start) else { return };
        let names = joined(&found.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), "and");
        let verb = if found.len() == 1 { "stands" } else { "stand" };
        let problem = Problem::new(first.key_span.clone(), format!("{names} {verb} outside the table of a server"));
        self.error(problem.help("write `[servers.NAME]` above, with a name for the server"));
    }

    /// Files beside this one, or by their whole path.
    fn included(&mut self, entry: &Entry) -> Vec<Spanned<PathBuf>> {
        let directory = self.file.path.parent().map(Path::to_owned).unwrap_or_default();
        let mut files = Vec::new();
        for (node, _) in self.strings(entry, r#"["work.toml"]"#) {
            if let Some(path) = self.filled_path(node, "`include`", "write the path of a file, such as `\"work.toml\"`")
            {
                files.push(self.spanned(node, directory.join(path)));
            }
        }
        files
    }

    fn daemon(&mut self, entry: &Entry) -> DaemonLayer {
        let mut fields = Fields::new("`[daemon]`", self.table(&entry.node, "`daemon`", "write `[daemon]`"));
        let layer = self.daemon_keys(&mut fields);
        self.finish(fields);
        layer
    }

    pub(super) fn daemon_keys(&mut self, fields: &mut Fields<'_>) -> DaemonLayer {
        let (daemon, calls) = (DaemonConfig::default(), Keep::default());
        DaemonLayer {
            naming: self.naming(fields),
            max_message: self.key(fields, "max_message", |reader, entry| reader.size(entry, SIZES, "16MiB")),
            line_timeout: self.key(fields, "line_timeout", Self::duration),
            first_list_wait: self.key(fields, "first_list_wait", Self::duration),
            max_starting: self.key(fields, "max_starting", |reader, entry| {
                reader.integer(entry, 1..=MAX_STARTING, daemon.max_starting)
            }),
            call_history: self
                .key(fields, "call_history", |reader, entry| reader.integer(entry, HISTORY, calls.history)),
            call_log: self.key(fields, "call_log", |reader, entry| reader.file_path(entry, "~/mcpd-calls.jsonl")),
            call_log_max: self.key(fields, "call_log_max", |reader, entry| reader.size(entry, SIZES, "10MiB")),
            watch: self.key(fields, "watch", Self::boolean),
        }
    }

    /// How exposed names are made.
    pub(super) fn naming(&mut self, fields: &mut Fields<'_>) -> NamingLayer {
        let default = Naming::default().max_length;
        NamingLayer {
            scheme: self.key(fields, "naming", |reader, entry| reader.one_of(entry, "naming scheme", &Scheme::ALL)),
            max_length: self.key(fields, "max_name_length", |reader, entry| {
                reader.integer(entry, MIN_LENGTH..=MAX_NAME_LENGTH, default)
            }),
        }
    }

    fn defaults(&mut self, entry: &Entry) -> DefaultsLayer {
        let mut fields = Fields::new("`[defaults]`", self.table(&entry.node, "`defaults`", "write `[defaults]`"));
        let layer = DefaultsLayer {
            settings: self.settings(&mut fields),
            pass_env: fields.take("pass_env").map(|entry| self.variable_names(entry)).unwrap_or_default(),
            exposures: self.default_exposure(&mut fields).into_iter().collect(),
        };
        self.finish(fields);
        layer
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
        let mut fields = Fields::new(format!("`[servers.{name}]`"), entries);
        for key in OF_OTHER_CLIENTS {
            if let Some(entry) = fields.take_misplaced(key) {
                let problem =
                    Problem::new(entry.key_span.clone(), format!("unknown key `{key}` in `[servers.{name}]`"));
                self.error(problem.help("remove it: `command` or `url` is enough"));
            }
        }
        let settings = self.settings(&mut fields);
        let log_arguments = self.key(&mut fields, "log_arguments", Self::boolean);
        let exposure = self.exposure(entry, &mut fields);
        let keys = LaunchKeys::native(&mut fields);
        let launch = self.launch(entry, &keys);
        self.finish(fields);
        let name = self.spanned_at(entry.key_span.clone(), named?);
        let rules = ServerRules { exposures: vec![exposure?], settings, log_arguments };
        Some(match launch? {
            Said::Launch(launch) => NativeServer::Configured(Box::new(ServerLayer { name, launch: *launch, rules })),
            // What is wrong may be what would have configured it.
            Said::Neither(_) if self.problems.errors.len() > before => return None,
            Said::Neither(misplaced) => NativeServer::Narrowed(Box::new(NarrowingLayer { name, misplaced, rules })),
        })
    }

    fn settings(&mut self, fields: &mut Fields<'_>) -> SettingsLayer {
        let most = Settings::default().max_instances;
        SettingsLayer {
            sharing: self
                .key(fields, "sharing", |reader, entry| reader.one_of(entry, "way of `sharing`", &Sharing::ALL)),
            start: self.key(fields, "start", |reader, entry| reader.one_of(entry, "way to `start`", &Start::ALL)),
            era: self.key(fields, "era", |reader, entry| reader.one_of(entry, "choice of `era`", &EraChoice::ALL)),
            broadcast_logs: self.key(fields, "broadcast_logs", Self::boolean),
            max_instances: self
                .key(fields, "max_instances", |reader, entry| reader.integer(entry, 1..=MAX_INSTANCES, most)),
            max_concurrent: self
                .key(fields, "max_concurrent", |reader, entry| reader.integer(entry, 1..=MAX_CONCURRENT, 1)),
            idle_timeout: self.key(fields, "idle_timeout", Self::duration),
            handshake_timeout: self.key(fields, "handshake_timeout", Self::duration),
            calls: self.call_timeouts(fields),
            health_interval: self.key(fields, "health_interval", Self::duration),
            health_timeout: self.key(fields, "health_timeout", Self::duration),
            on_unhealthy: self.key(fields, "on_unhealthy", |reader, entry| {
                reader.one_of(entry, "value of `on_unhealthy`", &OnUnhealthy::ALL)
            }),
            backoff_reset: self.key(fields, "backoff_reset", Self::duration),
            memory_max: self.key(fields, "memory_max", |reader, entry| reader.size(entry, MEMORY, "1GiB")),
            tasks_max: self.key(fields, "tasks_max", |reader, entry| reader.integer(entry, TASKS, 256)),
            replace: self
                .key(fields, "replace", |reader, entry| reader.one_of(entry, "way to `replace`", &Replace::ALL)),
        }
    }

    /// The value that one of a few texts selects.
    pub(super) fn one_of<T: Copy>(&mut self, entry: &Entry, what: &str, choices: &[(&'static str, T)]) -> Option<T> {
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
