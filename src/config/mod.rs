//! What the files say, checked: text in, [`Config`] out.
//!
//! Lives here: the two formats (TOML of our own, `mcpServers` JSON of other clients), their checking with a place for
//! every complaint, and `${…}` interpolation. Knows: [`crate::policy`] and [`crate::naming`] for their types.
//! Must not touch: tokio, processes, sockets. The environment and files are reached through [`interpolate::Sources`]
//! only, so every rule is tested as a table.
//!
//! ```text
//! file text ─ toml.rs / json.rs ─► tree::Node (values with spans) ─ read.rs ─► Draft ─ load.rs ─► Config
//!                                        └───────── every refusal ─────────► diagnostic::Diagnostic (FILE:LINE:COLUMN)
//! ```

pub mod diagnostic;
pub mod interpolate;
mod json;
mod load;
mod read;
mod toml;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::load::{ConfigError, Loaded, default_path, load};
use crate::naming::Naming;
use crate::policy::Policy;

/// Everything the daemon was told, checked as a whole.
#[derive(Debug, Default)]
pub struct Config {
    /// The `[daemon]` table.
    pub daemon: DaemonConfig,
    /// The configured servers, in file order; names are unique.
    pub servers: Vec<ServerConfig>,
}

/// The `[daemon]` table. Every key has a default.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonConfig {
    /// How a server's tool is named for agents.
    pub naming: Naming,
    /// Largest message in bytes that is taken from or given to a peer.
    pub max_message_bytes: usize,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self { naming: Naming::default(), max_message_bytes: 16 << 20 }
    }
}

/// One `[servers.NAME]` table, with `[defaults]` already filled in.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*`.
    pub name: Arc<str>,
    /// How it is run, or why it cannot be: an undefined `${…}` fails this server alone.
    pub launch: Result<Launch, interpolate::Undefined>,
    /// Which of its tools are exposed.
    pub policy: Policy,
    /// Time from spawn to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Time for one call, counted anew at each progress notification.
    pub call_timeout: Duration,
}

/// How a server's process is started. `Debug` shows no value that could be a secret.
#[derive(Clone)]
pub struct Launch {
    /// Program name or path; without `/` it is looked up on the child's `PATH`.
    pub command: String,
    /// Arguments, passed verbatim: no shell.
    pub args: Vec<String>,
    /// Variables the configuration gives, on top of the allow-listed ones.
    pub env: BTreeMap<String, String>,
    /// Names passed on from the daemon's own environment, beyond the allow-listed ones.
    pub pass_env: Vec<String>,
    /// Working directory; the user's home directory if not given.
    pub cwd: Option<PathBuf>,
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("pass_env", &self.pass_env)
            .finish_non_exhaustive()
    }
}
