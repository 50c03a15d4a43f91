//! The `[daemon]` table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::keys::{DURATION, FLAG, Key, KeyLayer, PATH, URL, choice, duration_from, size};
use super::settings::MAX_MESSAGE;
use super::value_types::Choice;
use crate::message_limit;
use crate::naming::Naming;

/// A client that has started a daemon needs some time to connect to it.
const SHORTEST_IDLE_EXIT: Duration = Duration::from_secs(1);

/// The `[daemon]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonConfig {
    /// How tools and prompts are named for agents.
    pub naming: Naming,
    /// Maximum size of a message from or to a peer, in bytes.
    pub max_message_bytes: usize,
    /// How long the first lists wait for servers without a cached list.
    pub first_list_wait: Duration,
    /// The file to which each finished call is appended as a line of JSON.
    pub call_log: Option<PathBuf>,
    /// The collector that receives spans of tool calls, by OTLP over HTTP.
    pub otlp_endpoint: Option<Arc<str>>,
    /// Whether the configuration is reloaded when one of its files changes.
    pub watch: bool,
    /// How long calls may still run before a restart.
    pub restart_wait: Duration,
    /// After this time without agents, a daemon that a client has started ends.
    pub idle_exit: Option<Duration>,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            max_message_bytes: message_limit::DEFAULT,
            first_list_wait: Duration::from_secs(5),
            call_log: None,
            otlp_endpoint: None,
            watch: false,
            restart_wait: Duration::from_secs(10),
            idle_exit: None,
        }
    }
}

impl DaemonConfig {
    /// The keys of `[daemon]` beside [`NAMING_KEYS`].
    pub(super) const KEYS: &[Key<Self>] = &[
        Key {
            name: "max_message",
            doc: "Maximum size of one message from or to an agent or a server. The default is the largest size that all SDKs read: those for \
                  TypeScript close the connection when a line and the rest of what they have read exceed 10 MiB.",
            rule: size(MAX_MESSAGE),
            field: |daemon| &mut daemon.max_message_bytes,
        },
        Key {
            name: "first_list_wait",
            doc: "Maximum time that mcpd waits before it answers the first list requests of an agent. It waits for servers that are \
                  starting and whose lists it does not know yet.",
            rule: DURATION,
            field: |daemon| &mut daemon.first_list_wait,
        },
        Key {
            name: "call_log",
            doc: "File to which each finished call is appended as a line of JSON, with mode 0600. An absolute path; `~/` and `${…}` \
                  are expanded. A file of 10 MiB is renamed to the same name with `.1`, and replaces the previous one. Without \
                  the key there is no file.",
            rule: PATH.example("\"~/mcpd-calls.jsonl\""),
            field: |daemon| &mut daemon.call_log,
        },
        Key {
            name: "otlp_endpoint",
            doc: "URL of an OpenTelemetry collector, which receives spans of tool calls by OTLP over HTTP, at this URL with `/v1/traces`. \
                  `${…}` is expanded. Spans never have arguments or results. The key also makes mcpd replace `traceparent` in \
                  calls to servers. Without it there are no spans.",
            rule: URL.example("\"http://127.0.0.1:4318\""),
            field: |daemon| &mut daemon.otlp_endpoint,
        },
        Key {
            name: "watch",
            doc: "Whether mcpd reloads the configuration when one of its files changes.",
            rule: FLAG,
            field: |daemon| &mut daemon.watch,
        },
        Key {
            name: "restart_wait",
            doc: "Time for calls in progress to finish before `mcpd restart` restarts the daemon. Agents behind `mcpd connect` send later calls \
                  to the new daemon.",
            rule: DURATION,
            field: |daemon| &mut daemon.restart_wait,
        },
        Key {
            name: "idle_exit",
            doc: "Time without agents after which a daemon started by `mcpd connect` ends; the next `mcpd connect` starts it again. Running \
                  calls, tasks and commands such as `mcpd logs -f` keep it running. Without this key the daemon does not end by \
                  itself, and neither does a daemon started by `mcpd start`, `mcpd serve` or systemd.",
            rule: duration_from(SHORTEST_IDLE_EXIT).example("\"30m\""),
            field: |daemon| &mut daemon.idle_exit,
        },
    ];

    /// This table, with the keys of `new` that apply while the daemon runs.
    #[must_use]
    pub fn with_live_keys(&self, new: &Self) -> Self {
        Self { naming: new.naming, idle_exit: new.idle_exit, ..self.clone() }
    }

    pub(super) fn resolve(layer: &KeyLayer) -> Self {
        Self { naming: layer.apply(NAMING_KEYS, Naming::default()), ..layer.apply(Self::KEYS, Self::default()) }
    }
}

/// The key that `[daemon]` and `[profiles.NAME]` share.
pub(super) const NAMING_KEYS: &[Key<Naming>] = &[Key {
    name: "naming",
    doc: "How a server's tool is named for agents: `{server}__{tool}`, `mcp__{server}__{tool}` or `{tool}`. A name of more than 53 \
          characters gets a short form with a hash.",
    rule: choice::<Naming>(),
    field: |naming| naming,
}];

impl Choice for Naming {
    const NAMES: &[(&str, Self)] = &Self::ALL;
}
