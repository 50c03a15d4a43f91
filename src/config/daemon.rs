//! The `[daemon]` table.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{Choice, DURATION, FLAG, Key, KeyLayer, PATH, choice, count, size};
use crate::naming::{MIN_LENGTH, Naming, Scheme};

/// Sizes of a message and of a log file.
const SIZES: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// The `[daemon]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonConfig {
    /// How tools and prompts are named for agents.
    pub naming: Naming,
    /// Maximum size of a message from or to a peer, in bytes.
    pub max_message_bytes: usize,
    /// How long an agent may pause within a line.
    pub line_timeout: Duration,
    /// How long the first lists wait for servers without a cached list.
    pub first_list_wait: Duration,
    /// Servers that may start at the same time.
    pub max_starting: usize,
    /// How finished calls are recorded.
    pub calls: CallHistory,
    /// Whether the configuration is reloaded when one of its files changes.
    pub watch: bool,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            max_message_bytes: 16 << 20,
            line_timeout: Duration::from_secs(60),
            first_list_wait: Duration::from_secs(5),
            max_starting: 4,
            calls: CallHistory::default(),
            watch: false,
        }
    }
}

/// How finished calls are recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct CallHistory {
    /// Calls in memory. Beyond it, the oldest is dropped.
    pub history: usize,
    /// The file to which each call is appended as a line of JSON.
    pub file: Option<PathBuf>,
    /// Maximum size of that file in bytes. A full file is renamed to `.1`.
    pub max_file: usize,
}

impl Default for CallHistory {
    fn default() -> Self {
        Self { history: 1000, file: None, max_file: 10 << 20 }
    }
}

impl DaemonConfig {
    /// The keys of `[daemon]` beside [`NAMING_KEYS`].
    pub(super) const KEYS: &[Key<Self>] = &[
        Key {
            name: "max_message",
            doc: "Maximum size of one message from or to an agent or a server.",
            rule: size(SIZES),
            field: |daemon| &mut daemon.max_message_bytes,
        },
        Key {
            name: "line_timeout",
            doc: "How long an agent may pause within a line before mcpd closes its connection. Between lines there is no limit.",
            rule: DURATION,
            field: |daemon| &mut daemon.line_timeout,
        },
        Key {
            name: "first_list_wait",
            doc: "Maximum time that mcpd waits before it answers the first list requests of an agent. It waits for servers that are \
                  starting and whose lists it does not know yet.",
            rule: DURATION,
            field: |daemon| &mut daemon.first_list_wait,
        },
        Key {
            name: "max_starting",
            doc: "How many servers may start at the same time. After 2 s, a starting server no longer counts.",
            rule: count(1..=1000),
            field: |daemon| &mut daemon.max_starting,
        },
        Key {
            name: "call_history",
            doc: "How many finished calls `mcpd calls` remembers.",
            rule: count(10..=10_000),
            field: |daemon| &mut daemon.calls.history,
        },
        Key {
            name: "call_log",
            doc: "File to which each finished call is appended as a line of JSON, with mode 0600. An absolute path; `~/` and `${…}` \
                  are expanded. Without the key there is no file.",
            rule: PATH.example("\"~/mcpd-calls.jsonl\""),
            field: |daemon| &mut daemon.calls.file,
        },
        Key {
            name: "call_log_max",
            doc: "Maximum size of `call_log`. A full file is renamed to the same name with `.1`, and replaces the previous one.",
            rule: size(SIZES),
            field: |daemon| &mut daemon.calls.max_file,
        },
        Key {
            name: "watch",
            doc: "Whether mcpd reloads the configuration when one of its files changes.",
            rule: FLAG,
            field: |daemon| &mut daemon.watch,
        },
    ];

    pub(super) fn resolve(layer: &KeyLayer) -> Self {
        Self { naming: layer.apply(NAMING_KEYS, Naming::default()), ..layer.apply(Self::KEYS, Self::default()) }
    }
}

/// The keys that `[daemon]` and `[profiles.NAME]` share.
pub(super) const NAMING_KEYS: &[Key<Naming>] = &[
    Key {
        name: "naming",
        doc: "How a server's tool is named for agents: `{server}__{tool}`, `mcp__{server}__{tool}` or `{tool}`.",
        rule: choice::<Scheme>(),
        field: |naming| &mut naming.scheme,
    },
    Key {
        name: "max_name_length",
        doc: "Maximum length of an exposed name, in characters. A longer name gets a short form with a hash. Model APIs accept 64, \
              and clients add a prefix.",
        rule: count(MIN_LENGTH..=128),
        field: |naming| &mut naming.max_length,
    },
];

impl Choice for Scheme {
    const NAMES: &[(&str, Self)] = &Self::ALL;
}
