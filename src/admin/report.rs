//! What `mcpd status` is told: the one serialized contract of our own. Pure data, no behaviour.
//!
//! Fields are added, never renamed; an older `status` reads a newer daemon's report and the other way round.

use serde::{Deserialize, Serialize};

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
    /// Configured servers, in file order.
    pub servers: Vec<ServerReport>,
    /// Agents connected now, oldest first.
    pub agents: Vec<AgentReport>,
    /// Agent sockets, the default profile first.
    pub profiles: Vec<ProfileReport>,
}

/// One configured server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its configured name.
    pub name: String,
    /// `starting`, `ready`, `backoff`, `stopping`, `stopped` or `failed`.
    pub state: String,
    /// Why it is in backoff or failed, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Until the next start attempt, while in backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// Process id of the running instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Process id of the guard of the running instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_pid: Option<u32>,
    /// Since the running instance was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Protocol version it negotiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// `name version` it introduced itself with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// Tools that agents see.
    pub tools_exposed: usize,
    /// Tools that policy hides.
    pub tools_denied: usize,
    /// The tool list was cut at a limit or by a cursor that never ends.
    #[serde(default)]
    pub tools_truncated: bool,
    /// Calls taken since the daemon started.
    pub calls: u64,
    /// Calls unanswered now.
    pub in_flight: u64,
    /// Calls that ended in a JSON-RPC error, the server's own or ours.
    pub errors: u64,
    /// Instances started after the first.
    pub restarts: u64,
    /// Lines on stdout that were no JSON-RPC message, oversized ones included.
    pub skipped_lines: u64,
    /// Responses to no request of ours: unknown, duplicate or late.
    pub stray_responses: u64,
    /// The latest failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The last lines of stderr, oldest first; only while the server is not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
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
}

/// One agent socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileReport {
    /// Profile name; `default` for `mcp.sock`.
    pub name: String,
    /// Path of the socket.
    pub socket: String,
    /// Tools its agents see.
    pub tools: usize,
}
