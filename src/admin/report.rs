//! Reports that operators receive, and that `mcpd … --json` prints. Pure data, no behaviour.
//!
//! Fields are added, never renamed, so that an `mcpd` can read reports of older and newer daemons.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::calls::report::RunningCallReport;
use crate::manager::report::Defect;
pub use crate::manager::report::{
    ChangesReport, CutReport, InstanceReport, LimitsReport, LimitsState, OverrideReport, RemoteReport, ServerReport,
};
use crate::pins::Digest;
pub use crate::server::lifecycle::StateName;

/// The daemon's state at one moment. Times are in milliseconds, sizes in bytes.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of the daemon that answered.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// The file of the daemon's program. Older daemons do not report it.
    pub program: Option<ProgramReport>,
    /// Time since the daemon started.
    pub uptime_ms: u64,
    /// `true` once every first start attempt has ended or the first-list deadline has passed.
    pub settled: bool,
    /// Time without agents after which the daemon ends. Absent if it does not end by itself.
    pub idle_exit_ms: Option<u64>,
    /// The last configuration read, if it is invalid.
    pub reload_refused: Option<RejectedConfigReport>,
    /// Files of the active configuration. A directory's digest covers the names in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// Files whose content has changed since. The command fills this in, because a disk may hang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    /// Runtime directories of other daemons of the same user. The command fills this in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_daemons: Vec<String>,
    /// How often the `mcpd-reaper` process was lost since the daemon started. mcpd has replaced it and restarted all servers.
    #[serde(default)]
    pub reapers_lost: u64,
    /// Time since `usage` of the servers was measured. Absent before the first measurement.
    pub usage_age_ms: Option<u64>,
    /// Configured servers, in file order.
    pub servers: Vec<ServerReport>,
    /// Connected agents, oldest first.
    pub agents: Vec<AgentReport>,
    /// The 100 oldest tool calls without an answer, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running_calls: Vec<RunningCallReport>,
    /// Agent sockets, the default profile first.
    pub profiles: Vec<ProfileReport>,
}

/// The file of the daemon's program.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramReport {
    /// Absolute path.
    pub path: PathBuf,
    /// Device of the file that runs.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Version of the program that has replaced it. The command fills this in.
    pub installed: Option<String>,
}

/// A configuration file, as it was read.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileReport {
    /// Absolute path.
    pub path: String,
    /// SHA-256 of the content, in hexadecimal; absent if the file did not exist.
    pub sha256: Option<String>,
}

/// One connected agent.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentReport {
    /// Connection number, counted since the daemon started.
    pub session: u64,
    /// Profile of the socket.
    pub profile: String,
    /// The directory in `directories` that selected the profile, if the agent named no profile.
    pub profile_directory: Option<String>,
    /// Process id at connect time, if the kernel reported it.
    pub pid: Option<i32>,
    /// User id at connect time.
    pub uid: u32,
    /// How it reaches mcpd: `lines` or `http` on an agent socket, or `loopback`.
    #[serde(default)]
    pub listener: String,
    /// `name version` from its `clientInfo`.
    pub client: Option<String>,
    /// The server whose face it uses; absent for an agent that uses the aggregate.
    pub server: Option<String>,
    /// Negotiated protocol version.
    pub protocol: Option<String>,
    /// Time since it connected.
    pub connected_ms: u64,
    /// Calls made.
    pub calls: u64,
    /// Notifications dropped because the agent did not read them.
    #[serde(default)]
    pub dropped_notifications: u64,
    /// Responses from the agent that match no pending request.
    #[serde(default)]
    pub stray_responses: u64,
}

/// One agent socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// Profile name; `default` for `mcp.sock`.
    pub name: String,
    /// Path of the socket.
    pub socket: String,
    /// The loopback address where it is served over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// The configured directories whose agents use the profile unless they name one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<PathBuf>,
    /// Servers of the profile, in file order.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Number of tools visible to its agents.
    pub tools: usize,
    /// Items that its agents do not see because the list would be larger than `max_message`.
    #[serde(default, skip_serializing_if = "CutReport::is_empty")]
    pub cut: CutReport,
    /// Number of connected agents.
    #[serde(default)]
    pub agents: usize,
    /// Quotas in force: of the profile, and of each of its guests that has connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaReport>,
}

/// A quota of the agents of a profile.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QuotaReport {
    /// What it limits: `connections`, `max_calls`, `rate` or `bytes`.
    pub key: String,
    /// The guest whose agents have it. Absent if all agents of the profile have it together.
    pub uid: Option<u32>,
    /// The configured limit.
    pub limit: usize,
    /// What is in use now. Absent for `rate`.
    pub used: Option<usize>,
    /// Connections and calls that were refused, and connections that were closed, since the profile exists.
    pub refused: u64,
}

/// One line that a server wrote to stderr.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineReport {
    /// When the daemon read it: RFC 3339, in UTC, with milliseconds.
    pub time: String,
    /// Configured name of the server.
    pub server: String,
    /// Process id of the instance.
    pub pid: u32,
    /// As in `instances` of `mcpd status`: identifies one of several instances.
    pub purpose: Option<String>,
    /// The unchanged text. A line over 64 KiB is cut there and ends with `…`.
    pub text: String,
}

/// One tool that a server lists, visible to agents of the profile or not.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolReport {
    /// Configured name of the server.
    pub server: String,
    /// The server's name for the tool.
    pub tool: String,
    /// Exposed name, if agents see the tool.
    pub name: Option<String>,
    /// The tool's name in the configuration, if the configuration renames it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_name: Option<String>,
    /// Description as agents see it, cut at 500 characters.
    pub description: Option<String>,
    /// Bytes of the whole description.
    #[serde(default)]
    pub description_bytes: usize,
    /// Estimated number of model tokens that the tool costs an agent that sees it.
    pub tokens: usize,
    /// Why agents do not see the tool.
    pub hidden: Option<HiddenReport>,
    /// Why agents of MCP 2026-07-28 do not see a tool that others see: `task_only`, as it can only be called as a task of a server that
    /// speaks an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_from_modern: Option<String>,
    /// What is wrong with the definition, and what mcpd does about it. The first defects, if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<Defect>,
    /// The server's unchanged definition, as JSON text. Present if the request named the tool.
    pub definition: Option<String>,
}

/// Why agents do not see a tool.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HiddenReport {
    /// One of:
    ///
    /// - `deny`, `allow`, `read_only`, `expose`: the configuration key that hides it
    /// - `off`: the tool is disabled
    /// - `disabled`: its server is disabled
    /// - `profile`: its server is not in the profile
    /// - `unfit`: its name contains characters that cannot be shown
    /// - `malformed`: agents would reject its definition, and nothing can mend it
    /// - `withheld`: its definition is not approved, see `mcpd diff`
    /// - `again`: its server already listed a tool with this name
    /// - `cut`: the list would be larger than `max_message`
    /// - `name_taken`: another tool of the server has the name that the configuration gives it
    /// - `nameless`: no exposed name is available
    pub why: String,
    /// The pattern that decides.
    pub pattern: Option<String>,
    /// The configuration table with that pattern, for example `servers.files`.
    pub table: Option<String>,
}

/// Follows the tools of a `tools` request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolsSummary {
    /// The profile that the tools were compared with.
    pub profile: String,
    /// Configured servers, in file order.
    pub servers: Vec<ToolServer>,
    /// Bytes of the combined instructions that agents of the profile receive.
    #[serde(default)]
    pub instructions_bytes: usize,
}

/// A server whose tools were reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolServer {
    /// Configured name.
    pub name: String,
    /// As in `mcpd status`.
    pub state: StateName,
    /// The list was cut at a limit or because its cursor never ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The server is in the profile but has never listed its tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Bytes of the instructions that an agent with only this server receives.
    #[serde(default)]
    pub instructions_bytes: usize,
}

/// A definition of a server that is not approved. Its texts follow in messages of their own.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangeReport {
    /// Configured name of the server.
    pub server: String,
    /// `tool`, `prompt`, `template` (of resources) or `instructions`.
    pub kind: String,
    /// The server's own name for it, or the URI template, cut at 500 characters; empty for instructions.
    pub name: String,
    /// SHA-256 of `current`, in hexadecimal: what `mcpd approve` approves.
    pub digest: String,
    /// No definition of this name is approved.
    pub new: bool,
    /// Why agents do not see it; absent if they do. One of:
    ///
    /// - `new`, `changed`: `changes` of the server is `hold`
    /// - `annotations`: they declare the tool more harmless than each approved definition does
    /// - `characters`: it has invisible characters that no approved definition has
    /// - `name`: it would take the name of another server's tool
    pub withheld: Option<String>,
    /// When mcpd first saw it: RFC 3339, in UTC, with milliseconds.
    pub since: String,
    /// The approved definitions of this name, as canonical JSON: sorted members, no white space between tokens.
    #[serde(default)]
    pub approved: Vec<String>,
    /// The definition that the server lists, as canonical JSON.
    #[serde(default)]
    pub current: String,
}

/// A part of a definition of the last reported change.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DefinitionPart {
    /// Index of the approved definition; absent for the one that the server lists.
    pub approved: Option<usize>,
    /// JSON text.
    pub text: String,
}

/// Follows the changes of a `changes` request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesSummary {
    /// The servers that were asked about, in file order.
    pub servers: Vec<ChangesServer>,
}

/// A server whose definitions were compared.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesServer {
    /// Configured name.
    pub name: String,
    /// Its `changes`: `follow`, `warn` or `hold`.
    pub rule: String,
    /// Why the file with its approved definitions cannot be used or written.
    pub file_problem: Option<String>,
    /// A stable code for it, as in `changes` of `mcpd status`.
    pub file_problem_code: Option<String>,
    /// Changes that are not reported, because there are too many.
    #[serde(default)]
    pub left_out: usize,
}

/// Outcome of `approve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalReport {
    /// Number of approved definitions.
    pub done: usize,
    /// Digests that the server does not list any more. They are not approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_again: Vec<Digest>,
}

/// Outcome of `restart`, `enable`, `disable` or `health`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ControlReport {
    /// The server's name for the tool, if the request named one.
    pub tool: Option<String>,
    /// State of the server as in `mcpd status`, or of its worst instance; `removed` if it is no longer configured. For a tool
    /// `enabled` or `disabled`.
    pub state: StateName,
    /// Why the request failed, on one line.
    pub reason: Option<String>,
    /// Whether the requested state was reached.
    pub done: bool,
    /// Whether the server or tool is enabled or disabled only until the daemon stops, because the configuration says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
}

/// Effect of a reload on each server. Names are in configuration order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReloadReport {
    /// Unchanged, with their running processes.
    #[serde(rename = "kept")]
    pub unchanged: Vec<String>,
    /// Servers in `unchanged` or `still_down` whose policy, call limits or call history settings changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<String>,
    /// New, and ready or idle.
    pub added: Vec<String>,
    /// Running with their new settings; disabled servers use them once enabled.
    pub changed: Vec<String>,
    /// No longer configured; being stopped.
    pub removed: Vec<String>,
    /// New or changed, and not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<ReloadFailure>,
    /// Unchanged, and not ready, as before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub still_down: Vec<String>,
    /// What became of the profiles; absent if they are unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<ProfileChanges>,
    /// Settings that were ignored, or that take effect at the next start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The names of profiles that a reload has added, changed or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileChanges {
    /// New.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// With other servers, rules or settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// No longer configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// A server that did not become ready with its new settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReloadFailure {
    /// Configured name.
    pub name: String,
    /// Stable code of the reason, as in `mcpd status`. A reload also has `superseded` and `timeout`.
    #[serde(default)]
    pub code: String,
    /// The reason, on one line.
    pub reason: String,
    /// The previous instance keeps running. If `false`, the new one is started again.
    pub runs_on: bool,
    /// Last stderr lines of the new instance, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// A configuration that was read and rejected. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RejectedConfigReport {
    /// When it was read: RFC 3339, in UTC, with milliseconds.
    pub time: String,
    /// The errors, as text of several lines.
    pub reason: String,
    /// Files of this configuration, as they were read. An unusable file has no digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// Files whose content has changed since. The command fills this in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
}

/// The daemon's process. `Debug` shows no values of variables.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its environment, without variables that are not UTF-8.
    pub environment: BTreeMap<String, String>,
    /// Its working directory.
    pub directory: Option<PathBuf>,
    /// Its executable, as the kernel names it: followed by ` (deleted)` if the file was deleted.
    pub executable: Option<PathBuf>,
    /// Its open files, as the kernel names them.
    pub open_files: Vec<String>,
}

impl fmt::Debug for ProcessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { environment, directory, executable, open_files } = self;
        let names: Vec<_> = environment.keys().collect();
        f.debug_struct("ProcessReport")
            .field("environment", &names)
            .field("directory", directory)
            .field("executable", executable)
            .field("open_files", open_files)
            .finish()
    }
}
