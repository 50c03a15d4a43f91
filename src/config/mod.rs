//! What the files say, checked: text in, [`Config`] out.
//!
//! Lives here: the two formats (TOML of our own, `mcpServers` JSON of other clients), their checking with a place for
//! every complaint, `${…}` interpolation, and edits of a file's text ([`edit`]). Knows: [`crate::policy`] and
//! [`crate::naming`] for their types.
//! Must not touch: tokio, processes, sockets. The environment and files are reached through [`interpolate::Sources`]
//! only, so every rule is tested as a table; the one place that writes is `edit/file.rs`.
//!
//! ```text
//! file text ─ toml.rs / json.rs ─► tree::Node (values with spans) ─ read.rs ─► Layer ─ load.rs ─► Config
//!                                        └───────── every refusal ─────────► diagnostic::Diagnostic (FILE:LINE:COLUMN)
//! ```

mod broken;
pub(crate) mod command_line;
mod daemon;
pub mod diagnostic;
pub(crate) mod edit;
mod encoding;
pub(crate) mod environment;
pub(crate) mod import;
pub mod interpolate;
mod json;
mod keys;
mod launch;
mod layer;
mod load;
pub(crate) mod notes;
mod oauth;
mod percent_encode;
mod profile;
mod read;
mod references;
pub(crate) mod secret;
mod settings;
mod show;
pub(crate) mod size;
mod spanned;
mod timeouts;
mod toml;
mod tree;
mod unclosed;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::daemon::{CallHistory, DaemonConfig};
pub(crate) use self::launch::AGENT_CWD;
pub use self::launch::{Launch, Program, Remote, Secrets};
pub(crate) use self::layer::url_complaint;
pub(crate) use self::load::Definition;
pub use self::load::{ConfigError, Loaded, Stamp, changed, default_path, load};
pub use self::oauth::{OAuth, OAuthGrant, OAuthSettings};
pub use self::profile::{MAX_PROFILES, Narrowing, Profile, is_profile_name};
pub(crate) use self::read::fitted_name;
pub use self::settings::{EraChoice, Limits, OnUnhealthy, Replace, Settings, Sharing, Start};
pub use self::show::show;
pub use self::timeouts::{CallLimit, ToolTimeouts};
use crate::policy::Policy;

/// A JSON Schema of our own format, for editors.
pub const SCHEMA: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/mcpd.schema.json"));

/// The keys of `[servers.NAME]`.
pub(crate) fn server_keys() -> impl Iterator<Item = String> {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let keys = schema.pointer("/$defs/server/properties").and_then(serde_json::Value::as_object).cloned();
    keys.into_iter().flatten().map(|(key, _)| key)
}

/// Everything the daemon was told, checked as a whole.
#[derive(Debug)]
pub struct Config {
    /// The `[daemon]` table.
    pub daemon: DaemonConfig,
    /// The configured servers, in file order; names are unique.
    pub servers: Vec<ServerConfig>,
    /// What agents see by which socket: [`Profile::DEFAULT`], which is always there, then the others in file order.
    pub profiles: Vec<Arc<Profile>>,
}

impl Default for Config {
    fn default() -> Self {
        let daemon = DaemonConfig::default();
        let profiles = vec![Arc::new(Profile::whole(daemon.naming.clone()))];
        Self { daemon, servers: Vec::new(), profiles }
    }
}

/// One `[servers.NAME]` table, with `[defaults]` already filled in.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*`.
    pub name: Arc<str>,
    /// How it is run or reached, or why it cannot be: an undefined `${…}` fails this server alone.
    pub launch: Result<Launch, interpolate::Undefined>,
    /// Which of its tools are exposed.
    pub policy: Policy,
    /// How it is kept.
    pub settings: Settings,
}

impl ServerConfig {
    /// A server of this name, run by this command, without policy and with the default [`Settings`].
    pub fn new(name: impl Into<Arc<str>>, command: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            launch: Ok(Launch::Program(Program { command: command.into(), ..Program::default() })),
            policy: Policy::default(),
            settings: Settings::default(),
        }
    }

    /// A server of this name that runs by itself and is reached at this URL, without policy and with the default [`Settings`].
    pub fn remote(name: impl Into<Arc<str>>, url: impl Into<String>) -> Self {
        let launch = Ok(Launch::Remote(Remote { url: url.into(), ..Remote::default() }));
        Self { launch, ..Self::new(name, "") }
    }

    /// Adds a header to each request, if it is reached at a URL.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Ok(Launch::Remote(remote)) = &mut self.launch {
            remote.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Adds arguments, passed verbatim.
    #[must_use]
    pub fn args(self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with_program(|program| program.args.extend(args.into_iter().map(Into::into)))
    }

    /// Sets a variable of its environment, beyond the few it gets from this program.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_program(|program| drop(program.env.insert(name.into(), value.into())))
    }

    /// Sets its working directory.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<PathBuf>) -> Self {
        self.with_program(|program| program.cwd = Some(cwd.into()))
    }

    /// Sets which of its tools are exposed.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Whether an instance of `other` would be run as one of this is: all but what holds for its calls, which needs no
    /// other instance.
    pub(crate) fn runs_like(&self, other: &Self) -> bool {
        self.launch == other.launch && self.settings.runs_like(&other.settings)
    }

    /// Whether agents get the same of `other` if it also runs like this one: the same policy, limits of calls and records of them.
    pub(crate) fn serves_like(&self, other: &Self) -> bool {
        self.settings == other.settings && self.policy.has_same_rules(&other.policy)
    }

    /// The same for its instance, with what `other` says of that which needs no other one: policy, limits of calls, what is
    /// kept of them.
    pub(crate) fn with_live_settings(&self, other: &Self) -> Self {
        let (name, launch) = (Arc::clone(&self.name), self.launch.clone());
        Self { name, launch, settings: self.settings.with_live_settings(&other.settings), ..other.clone() }
    }

    /// Sets how it is kept.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The same server for agents that work in `cwd`, if that is known.
    pub(crate) fn at(&self, cwd: Option<&str>) -> Self {
        let launch = self.launch.clone().and_then(|launch| match cwd {
            Some(cwd) => Ok(launch.at(cwd)),
            None if launch.needs_agent_cwd() => Err(interpolate::Undefined::UnknownCwd),
            None => Ok(launch),
        });
        Self { launch, ..self.clone() }
    }

    /// What instances that are not one agent's own are told when they ask for roots.
    pub(crate) fn roots(&self) -> &[String] {
        self.launch.as_ref().map_or(&[], Launch::roots)
    }

    fn with_program(mut self, change: impl FnOnce(&mut Program)) -> Self {
        if let Ok(Launch::Program(program)) = &mut self.launch {
            change(program);
        }
        self
    }
}
