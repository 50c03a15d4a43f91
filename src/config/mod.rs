//! Reads and checks the configuration: text in, [`Config`] out.
//!
//! - Reads two formats: mcpd's TOML, and the `mcpServers` JSON of other clients. Every error has a file, line and column.
//! - Replaces `${…}` references ([`interpolate`]).
//! - Edits the text of a configuration file ([`edit`]). Only `edit/file.rs` writes files.
//!
//! Uses no tokio, processes or sockets. Reads the environment and files only through [`interpolate::Sources`], so tests replace
//! them by tables.
//!
//! ```text
//! file text ─ toml.rs / json.rs ─► tree::Node (values with spans) ─ read.rs ─► Layer ─ load.rs ─► Config
//!                                        └───────── every error ───────────► diagnostic::Diagnostic (FILE:LINE:COLUMN)
//! ```

mod address;
pub(crate) mod clients;
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
pub(crate) mod known_commands;
mod launch;
mod layer;
mod load;
pub(crate) mod notes;
mod profile;
mod read;
mod rotating_headers;
mod sandbox;
pub(crate) mod secret;
mod secret_values;
pub(crate) mod serialize;
mod settings;
mod show;
mod toml;
mod tree;
mod value_types;
mod yaml;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::address::{Address, url_complaint};
pub use self::daemon::DaemonConfig;
use self::interpolate::UnusableValue;
pub use self::launch::{AgentDirectory, Launch, OAuth, OAuthGrant, OAuthSettings, Program, Remote};
pub use self::load::{ConfigError, LoadedConfig, Stamp, changed, default_path, load};
pub(crate) use self::load::{Definition, masked};
pub use self::profile::{MAX_PROFILES, Narrowing, Profile, Quotas, is_profile_name};
pub(crate) use self::read::fitted_name;
pub use self::rotating_headers::RotatingHeaders;
pub use self::sandbox::{NamespaceUse, Network, ProtectedDirectories, Sandbox, SandboxLevel};
pub use self::secret_values::Secrets;
pub(crate) use self::secret_values::{AGENT_CWD, CommandOutputs, SecretCommand};
pub(crate) use self::settings::CPU_WEIGHT;
pub use self::settings::{
    ChangeRule, EraChoice, Instructions, Limit, Malformed, OnUnhealthy, Replace, Settings, Sharing, Start,
};
pub use self::show::show;
pub(crate) use self::value_types::size_text;
pub use self::value_types::{CallLimit, ToolTimeouts};
use crate::pins::Approval;
use crate::policy::{Policy, RunTimeDeny};
pub use crate::tool_overrides::ToolOverrides;

/// The JSON Schema of mcpd's TOML format, for editors.
pub const SCHEMA: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/mcpd.schema.json"));

/// The keys of `[servers.NAME]`.
pub(crate) fn server_keys() -> impl Iterator<Item = String> {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let keys = schema.pointer("/$defs/server/properties").and_then(serde_json::Value::as_object).cloned();
    keys.into_iter().flatten().map(|(key, _)| key)
}

/// The complete, checked configuration.
#[derive(Debug)]
pub struct Config {
    /// The `[daemon]` table.
    pub daemon: DaemonConfig,
    /// The configured servers, in file order; names are unique.
    pub servers: Vec<ServerConfig>,
    /// What agents see on each socket. [`Profile::DEFAULT`] always exists and comes first; the others follow in file order.
    pub profiles: Vec<Arc<Profile>>,
}

impl Config {
    /// The secrets of all servers, as far as they are known without starting them.
    pub(crate) fn secret_values(&self) -> Vec<String> {
        let launches = self.servers.iter().filter_map(|server| server.launch.as_ref().ok());
        let otlp = self.daemon.otlp_endpoint.iter().flat_map(|endpoint| secret::url_secrets(endpoint));
        launches.flat_map(Launch::secret_values).chain(otlp).collect()
    }
}

impl Default for Config {
    fn default() -> Self {
        let daemon = DaemonConfig::default();
        let profiles = vec![Arc::new(Profile::whole(daemon.naming))];
        Self { daemon, servers: Vec::new(), profiles }
    }
}

/// One `[servers.NAME]` table, merged with `[defaults]`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*`.
    pub name: Arc<str>,
    /// The command or URL. An undefined `${…}` is an error of this server only.
    pub launch: Result<Launch, interpolate::UnusableValue>,
    /// Which of its tools, prompts and resources are exposed.
    pub policy: Policy,
    /// Its limits, timeouts and start behaviour.
    pub settings: Settings,
    /// What its configuration changes of single tools. [`crate::Client`] ignores it.
    pub tool_overrides: ToolOverrides,
}

impl ServerConfig {
    /// A server that runs `command`, without policy and with the default [`Settings`].
    pub fn new(name: impl Into<Arc<str>>, command: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            launch: Ok(Launch::Program(Program { command: command.into(), ..Program::default() })),
            policy: Policy::default(),
            settings: Settings::default(),
            tool_overrides: ToolOverrides::default(),
        }
    }

    /// A server at `url`, without policy and with the default [`Settings`].
    pub fn remote(name: impl Into<Arc<str>>, url: impl Into<String>) -> Self {
        let launch = Ok(Launch::Remote(Remote { url: url.into(), ..Remote::default() }));
        Self { launch, ..Self::new(name, "") }
    }

    /// Adds a header to each request. Does nothing for a server without a URL.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(remote) = self.launch.as_mut().ok().and_then(Launch::remote_mut) {
            remote.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Adds arguments, passed verbatim.
    #[must_use]
    pub fn args(self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with_program(|program| program.args.extend(args.into_iter().map(Into::into)))
    }

    /// Sets an environment variable, in addition to the few that every server inherits.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_program(|program| drop(program.env.insert(name.into(), value.into())))
    }

    /// Sets its working directory.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<PathBuf>) -> Self {
        self.with_program(|program| program.cwd = Some(cwd.into()))
    }

    /// Sets which of its tools, prompts and resources are exposed.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// This definition with what is denied at run time.
    pub(crate) fn under(&self, denied: RunTimeDeny) -> Arc<Self> {
        Arc::new(Self { policy: self.policy.clone().under(denied), ..self.clone() })
    }

    /// This definition with what is approved.
    pub(crate) fn approved_by(&self, approval: Option<Approval>) -> Arc<Self> {
        Arc::new(Self { policy: self.policy.clone().approved_by(approval), ..self.clone() })
    }

    /// Runs it as a pool: calls go to the least busy of several instances. A new one starts when all are busy, up to `max`, and one that
    /// is not used for [`Settings::idle_timeout`] is stopped.
    #[must_use]
    pub fn pool(mut self, max: usize) -> Self {
        (self.settings.sharing, self.settings.max_instances) = (Sharing::Pool, max.max(1));
        self
    }

    /// Whether an instance of `self` can go on as one of `other`. Policy and call settings may differ: they need no restart.
    pub(crate) fn runs_like(&self, other: &Self) -> bool {
        self.launch == other.launch && self.settings.runs_like(&other.settings)
    }

    /// Whether policy and call settings are equal. With [`Self::runs_like`], both definitions are equal.
    pub(crate) fn serves_like(&self, other: &Self) -> bool {
        self.settings == other.settings
            && self.policy.has_same_rules(&other.policy)
            && self.tool_overrides == other.tool_overrides
    }

    /// This definition with the policy and call settings of `other`, which apply without a restart.
    pub(crate) fn with_live_settings(&self, other: &Self) -> Self {
        let (name, launch) = (Arc::clone(&self.name), self.launch.clone());
        Self { name, launch, settings: self.settings.with_live_settings(&other.settings), ..other.clone() }
    }

    /// Sets its limits, timeouts and start behaviour.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Whether it cannot serve an agent without knowing where the agent works, or should not.
    pub(crate) fn needs_agent_directory(&self) -> bool {
        let by_directory = self.settings.sharing == Sharing::Workspace;
        by_directory || self.launch.as_ref().is_ok_and(Launch::needs_agent_cwd)
    }

    /// This server for an agent that works in `directory`. A guest can replace a part of its directory by a link at any time, so a
    /// program may work there only if what it was not granted does not exist for it.
    ///
    /// At sandbox level `files`, a server of one session only gets that directory if its configuration names it.
    pub(crate) fn at(&self, directory: &AgentDirectory) -> Self {
        let mut config = self.clone();
        let is_guest = matches!(directory, AgentDirectory::Guest(_));
        let is_confined = self.settings.sandbox.level == SandboxLevel::Files;
        let is_apart = is_confined && self.settings.sharing == Sharing::Session;
        let needs_directory = self.needs_agent_directory();
        config.launch = self.launch.clone().and_then(|launch| match directory {
            AgentDirectory::Unknown if launch.needs_agent_cwd() => Err(UnusableValue::UnknownCwd),
            AgentDirectory::Refused if needs_directory => Err(UnusableValue::RefusedDirectory),
            AgentDirectory::Guest(_) if launch.program().is_some() && !is_confined => {
                if needs_directory {
                    Err(UnusableValue::GuestSandbox)
                } else {
                    Ok(launch)
                }
            }
            AgentDirectory::Own(_) | AgentDirectory::Guest(_) if is_apart && !launch.needs_agent_cwd() => Ok(launch),
            AgentDirectory::Unknown | AgentDirectory::Refused => Ok(launch),
            AgentDirectory::Own(path) | AgentDirectory::Guest(path) => Ok(launch.at(path)),
        });
        if is_guest {
            config.settings.sandbox.namespaces = NamespaceUse::Require;
        }
        config
    }

    /// The roots reported to instances that several agents share.
    pub(crate) fn roots(&self) -> &[String] {
        self.launch.as_ref().map_or(&[], Launch::roots)
    }

    fn with_program(mut self, change: impl FnOnce(&mut Program)) -> Self {
        if let Some(program) = self.launch.as_mut().ok().and_then(Launch::program_mut) {
            change(program);
        }
        self
    }
}
