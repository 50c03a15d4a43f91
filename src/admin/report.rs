//! What operators are told: the serialized contract of our own. Pure data, no behaviour.
//!
//! Fields are added, never renamed; an older `mcpd` reads a newer daemon's reports and the other way round.

use serde::{Deserialize, Serialize};

pub use crate::manager::report::{InstanceReport, RemoteReport, ServerReport};
pub use crate::server::lifecycle::NEEDS_LOGIN;

/// The daemon's state at one moment. Times are in milliseconds, sizes in bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Version of the daemon that answered.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Since the daemon started.
    pub uptime_ms: u64,
    /// `true` once every first start attempt has ended or the first-list deadline has passed.
    pub settled: bool,
    /// The configuration that was read last and is not valid; absent once one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_refused: Option<ReloadRefused>,
    /// The files of the configuration that runs. Of a directory it is the names in it that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// Those of them that hold something else by now. The daemon leaves this to whoever asks, since a disk may hang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    /// Other runtime directories in which a daemon of the same user serves, as the asking program finds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_daemons: Vec<String>,
    /// Configured servers, in file order.
    pub servers: Vec<ServerReport>,
    /// Agents connected now, oldest first.
    pub agents: Vec<AgentReport>,
    /// Agent sockets, the default profile first.
    pub profiles: Vec<ProfileReport>,
}

/// A file of the configuration, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its whole path.
    pub path: String,
    /// SHA-256 of what it held, in hexadecimal; absent if it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// One connected agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentReport {
    /// Number of the connection, counted since the daemon started.
    pub session: u64,
    /// Profile of the socket it came by.
    pub profile: String,
    /// Process id at connect time, if the kernel told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// User id at connect time.
    pub uid: u32,
    /// `name version` it introduced itself with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Protocol version negotiated with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Since it connected.
    pub connected_ms: u64,
    /// Calls it has made.
    pub calls: u64,
    /// Notifications that were not told to it because it did not read.
    #[serde(default)]
    pub dropped_notifications: u64,
    /// Answers of it to nothing that it was asked, or not any more.
    #[serde(default)]
    pub stray_responses: u64,
    /// What it said of tasks that it has made for no server that is there.
    #[serde(default)]
    pub stray_notifications: u64,
}

/// One agent socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileReport {
    /// Profile name; `default` for `mcp.sock`.
    pub name: String,
    /// Path of the socket.
    pub socket: String,
    /// Servers that it has, in file order.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Tools its agents see.
    pub tools: usize,
    /// Agents connected to it now.
    #[serde(default)]
    pub agents: usize,
}

/// One line that a server has written to stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineReport {
    /// When it was read: RFC 3339, in UTC, to the millisecond.
    pub time: String,
    /// Configured name of the server.
    pub server: String,
    /// Process id of the server, as it was started.
    pub pid: u32,
    /// What the instance is for, where there may be several: as in [`InstanceReport`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// As it was written; of more than 64 KiB the beginning, with `…` behind it.
    pub text: String,
}

/// One tool that a server lists, whether agents of a profile see it or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolReport {
    /// Configured name of its server.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// The name that agents see it by, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it says of itself, as it is; of more than 500 characters the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it costs an agent that sees it, or would, in tokens of a model; an estimate.
    pub tokens: usize,
    /// Why agents do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenReport>,
    /// The whole object as its server has it, as text, if it was asked for by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

/// Why agents do not see a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenReport {
    /// `deny`, `allow`, `read_only` or `expose` of the configuration; `off`: it is switched off; `disabled`: its server is;
    /// `profile`: its server is not in the profile; `unfit`: its name is not fit to be shown; `again`: its server lists it a second
    /// time; `nameless`: it has no name for agents.
    pub why: String,
    /// The pattern that it matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The table of the configuration that says so, as `servers.files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// That the tools are told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsTold {
    /// The profile whose agents they are shown to, or not.
    pub profile: String,
    /// Configured servers, in file order.
    pub servers: Vec<ToolServer>,
}

/// A server that tools were told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its configured name.
    pub name: String,
    /// As in [`ServerReport`].
    pub state: String,
    /// Its list was cut at a limit or by a cursor that never ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Agents of the profile may see tools of it, and what it offers is not known yet, not even from an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// What has become of a server that was to be restarted, enabled, disabled, or whose health a person has said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTold {
    /// The one of its tools that this is about, as the server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// As in [`ServerReport`], or that of its instance that is worst off; `disabled`; `removed`, if it is not configured any
    /// more. Of a tool `enabled` or `disabled`.
    pub state: String,
    /// Why it is not what it was to be, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is what it was to be.
    pub done: bool,
}

/// What a reload has made of the servers; names in the order of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// To be run as they were: none of their processes was disturbed.
    pub kept: Vec<String>,
    /// Servers in `kept` or `still_down` with another policy, other limits of calls or other records of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<String>,
    /// New, and ready or asleep.
    pub added: Vec<String>,
    /// Run as they are now to be. What is disabled will be, once it is enabled.
    pub changed: Vec<String>,
    /// Configured no more: being ended.
    pub removed: Vec<String>,
    /// New or to be run differently, and not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<ReloadFailed>,
    /// To be run as they were, and not ready, as before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub still_down: Vec<String>,
    /// What was ignored, or holds only after the next start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A server that is not ready as a reload has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadFailed {
    /// Its configured name.
    pub name: String,
    /// A stable word for the reason.
    #[serde(default)]
    pub code: String,
    /// Why, on one line.
    pub reason: String,
    /// The instance that ran before goes on as it was. Otherwise the new one is tried again.
    pub runs_on: bool,
    /// What the new instance wrote to stderr last, oldest line first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// A configuration that was read and does not hold: nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadRefused {
    /// When it was read: RFC 3339, in UTC, to the millisecond.
    pub time: String,
    /// What is wrong, for a person, on several lines.
    pub reason: String,
    /// The files of this configuration, as they were read. A file that could not be used has no digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// Those of them that have changed since. Added by the client, as [`Report::files_changed`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
}
