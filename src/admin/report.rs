//! What `mcpd status` is told: the one serialized contract of our own. Pure data, no behaviour.
//!
//! Fields are added, never renamed; an older `status` reads a newer daemon's report and the other way round.

use serde::{Deserialize, Serialize};

pub use crate::manager::report::ServerReport;

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
