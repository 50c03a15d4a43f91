//! The layer of one file: values with locations, and how one layer merges over another.
//!
//! Each file is read into a [`Layer`]. The merged layers make the configuration, and show where each value comes from. [`launch`] has the
//! launch keys of a server.

mod launch;
mod tool_overrides;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use globset::Glob;

pub(super) use self::launch::{
    LaunchTemplate, OAuthTableTemplate, OAuthTemplate, ProgramTemplate, RemoteTemplate, is_absolute_or_agent_cwd,
    is_root,
};
pub(super) use self::tool_overrides::{FixedArgument, ToolOverrideLayer, ToolOverridesLayer};
use super::address::Address;
use super::daemon::NAMING_KEYS;
use super::diagnostic::{Diagnostic, Spanned, or_default, values};
use super::environment::{hide_proxy_passwords, passed};
use super::interpolate::{Sources, UnusableValue};
use super::keys::KeyLayer;
use super::profile::{ExposeList, Narrowing, Profile, ScopedPattern, ScopedRules};
use super::sandbox::{Network, ProtectedDirectories, SandboxLevel};
use super::secret_values::{AGENT_CWD, Secrets};
use super::{Quotas, Replace, ServerConfig, Settings, Sharing};
use crate::list_kind::{ListKind, PerKind};
use crate::naming::Naming;
use crate::policy::Policy;

/// The contents of one file. Unset keys are `None`.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// The keys of `[daemon]`.
    pub(super) daemon: KeyLayer,
    pub(super) defaults: DefaultsLayer,
    pub(super) servers: Vec<ServerLayer>,
    pub(super) narrowings: Vec<NarrowingLayer>,
    /// The names of all servers with a table, including unreadable and skipped ones.
    pub(super) server_names: Vec<String>,
    pub(super) profiles: Vec<ProfileLayer>,
    /// Whether an error may hide servers.
    pub(super) is_partial: bool,
}

/// The `[defaults]` table.
#[derive(Debug, Default)]
pub(super) struct DefaultsLayer {
    pub(super) settings: KeyLayer,
    pub(super) pass_env: Vec<Spanned<String>>,
    /// The `deny` for every server, one for each layer.
    pub(super) exposures: Vec<Exposure>,
}

/// A server that this file defines.
#[derive(Debug)]
pub(super) struct ServerLayer {
    pub(super) name: Spanned<Arc<str>>,
    pub(super) launch: LaunchTemplate,
    pub(super) rules: ServerRules,
}

/// The table of a server that another file defines.
#[derive(Debug)]
pub(super) struct NarrowingLayer {
    pub(super) name: Spanned<Arc<str>>,
    /// Keys that are valid only in the table that defines the server.
    pub(super) misplaced: Vec<Spanned<String>>,
    pub(super) rules: ServerRules,
}

/// The keys of a server that every layer can set.
#[derive(Debug, Default)]
pub(super) struct ServerRules {
    /// The exposure rules of all layers. An item must be permitted by each.
    pub(super) exposures: Vec<Exposure>,
    pub(super) settings: KeyLayer,
    pub(super) tools: ToolOverridesLayer,
}

impl DefaultsLayer {
    /// Merges over `lower`. Lists add up, settings replace.
    pub(super) fn merge(self, mut lower: Self) -> Self {
        lower.pass_env.extend(self.pass_env);
        lower.exposures.extend(self.exposures);
        Self { settings: self.settings.merge(lower.settings), ..lower }
    }
}

impl ServerRules {
    /// Merges over `lower`. Exposure rules narrow, settings and overrides replace.
    pub(super) fn merge(self, mut lower: Self) -> Self {
        lower.exposures.extend(self.exposures);
        let tools = self.tools.merge(lower.tools);
        Self { exposures: lower.exposures, settings: self.settings.merge(lower.settings), tools }
    }
}

impl ServerLayer {
    fn settings(&self, defaults: &DefaultsLayer) -> Settings {
        Settings::resolve(&self.rules.settings.clone().merge(defaults.settings.clone()))
    }

    /// Refuses a `cwd` that would open a protected directory to a server at level `files`, which may change its working directory.
    pub(super) fn check_cwd(&self, defaults: &DefaultsLayer, sources: &dyn Sources) -> Option<Diagnostic> {
        let cwd = self.launch.program()?.cwd.as_ref()?;
        if self.settings(defaults).sandbox.level != SandboxLevel::Files {
            return None;
        }
        let path = PathBuf::from(cwd.value.interpolate(sources, &mut Secrets::default()).ok()?);
        let protected = ProtectedDirectories::of(sources);
        let directory = protected.opened_by(&path)?;
        let message = format!("`cwd` would open `{}` to the server", directory.display());
        let problem = cwd
            .location
            .problem(message)
            .help("choose a directory below it, or remove `cwd`: the server then has a working directory of its own");
        Some(cwd.location.error(problem))
    }

    /// Refuses a program that could not serve its URL: its sandbox keeps it from listening there, or several instances would.
    pub(super) fn check_listening(&self, defaults: &DefaultsLayer, sources: &dyn Sources) -> Option<Diagnostic> {
        let LaunchTemplate::Served(_, remote) = &self.launch else { return None };
        let url = &remote.url;
        let Settings { sandbox, sharing, .. } = self.settings(defaults);
        let text = url.value.interpolate(sources, &mut Secrets::default()).ok()?;
        let address = Address::parse(&text).ok();
        let is_files = sandbox.level == SandboxLevel::Files;
        let (message, help) = match address.as_ref().map(Address::socket) {
            _ if sharing != Sharing::Shared && !text.contains(AGENT_CWD) => (
                "several instances cannot listen at one `url`",
                "write `sharing = \"shared\"`, or a socket in the agent's directory: `unix:${agent:cwd}/…`".to_owned(),
            ),
            Some(None) if sandbox.network != Network::Any => (
                "the `network` of its `sandbox` keeps the server from listening at this port",
                "remove `network`, or write a Unix socket: `url = \"unix:/PATH#/mcp\"`".to_owned(),
            ),
            Some(Some(_)) if matches!(&sandbox.network, Network::Ports(ports) if !ports.is_empty()) => (
                "the `network` of its `sandbox` keeps the server from listening at a Unix socket",
                "remove `network`, or write `network = \"none\"`".to_owned(),
            ),
            Some(Some(_)) if !sandbox.unix.unwrap_or(!is_files) => (
                "its `sandbox` keeps the server from listening at a Unix socket",
                "write `unix = true` in its `sandbox`".to_owned(),
            ),
            Some(Some(socket)) if is_files && !sandbox.write.iter().any(|path| socket.starts_with(path)) => (
                "its `sandbox` keeps the server from making this socket",
                format!(
                    "add the directory of the socket to `write` of its `sandbox`: `{}`",
                    socket.parent().unwrap_or(socket).display()
                ),
            ),
            _ => return None,
        };
        Some(url.location.error(url.location.problem(message).help(help)))
    }

    /// Refuses overrides of tools that contradict each other.
    pub(super) fn check_tools(&self) -> Vec<Diagnostic> {
        self.rules.tools.check()
    }

    pub(super) fn resolve(&self, defaults: &DefaultsLayer, sources: &dyn Sources) -> ServerConfig {
        let exposures = &self.rules.exposures;
        let mut settings = self.settings(defaults);
        if let LaunchTemplate::Served(..) = self.launch {
            // Two programs cannot listen at one URL.
            settings.replace = Replace::StopFirst;
        }
        let launch = self.launch.interpolate(sources).and_then(|mut launch| {
            if let Some(program) = launch.program_mut() {
                program.pass_env.extend(values(&defaults.pass_env));
                program.pass_env.sort_unstable();
                program.pass_env.dedup();
                let passed = passed(sources.variables("").into_iter(), &program.pass_env);
                hide_proxy_passwords(passed.iter().chain(&program.env), &mut program.secrets);
                program.passed = Some(passed);
            }
            let is_lost = launch.needs_agent_cwd() && !settings.sharing.is_by_agent();
            if is_lost { Err(UnusableValue::AgentCwd) } else { Ok(launch) }
        });
        let policies = exposures.iter().chain(&defaults.exposures).map(|exposure| &exposure.policy);
        ServerConfig {
            name: Arc::clone(&self.name.value),
            launch,
            policy: policies.fold(Policy::default(), Policy::and).of_one_server(),
            settings,
            tool_overrides: self.rules.tools.resolve(),
        }
    }
}

/// The exposure rules of one table for a server.
#[derive(Debug, Default)]
pub(super) struct Exposure {
    /// All rules as a policy.
    pub(super) policy: Policy,
    pub(super) expose: Option<Spanned<ExposeList>>,
    pub(super) read_only: Option<Spanned<bool>>,
    /// Resource rules also apply to resource templates.
    pub(super) patterns: PerKind<Patterns>,
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    pub(super) allow: Option<Spanned<Vec<Spanned<Glob>>>>,
    pub(super) deny: Vec<Spanned<Glob>>,
}

impl Exposure {
    /// Adds these patterns to the policy.
    ///
    /// # Errors
    /// If the compiled patterns are too large.
    pub(super) fn with(mut self, kind: ListKind, patterns: Patterns) -> Result<Self, globset::Error> {
        let allow = patterns.allow.as_ref().map(|allow| values(&allow.value));
        self.policy = self.policy.with(kind, allow.as_deref(), &values(&patterns.deny))?;
        self.patterns[kind] = patterns;
        Ok(self)
    }

    pub(super) fn exposing(mut self, exposed: Option<Spanned<ExposeList>>) -> Self {
        if let Some(exposed) = &exposed {
            self.policy = exposed.value.narrow(self.policy);
        }
        Self { expose: exposed, ..self }
    }

    /// Sets the table of all rules.
    pub(super) fn with_table(self, table: &str) -> Self {
        Self { policy: self.policy.with_table(table), ..self }
    }

    pub(super) fn reading_only(self, read_only: Option<Spanned<bool>>) -> Self {
        let policy = self.policy.read_only(read_only.as_ref().is_some_and(|read_only| read_only.value));
        Self { policy, read_only, ..self }
    }
}

/// One profile of one file.
#[derive(Debug)]
pub(super) struct ProfileLayer {
    pub(super) name: Spanned<Arc<str>>,
    pub(super) servers: Option<Spanned<Vec<Spanned<Arc<str>>>>>,
    pub(super) rules: PerKind<ScopedRulesLayer>,
    pub(super) expose: Option<Spanned<ExposeList>>,
    pub(super) read_only: Option<Spanned<bool>>,
    pub(super) naming: KeyLayer,
    pub(super) allow_uids: Option<Spanned<BTreeSet<u32>>>,
    pub(super) workspace_roots: Option<Spanned<Vec<PathBuf>>>,
    pub(super) directories: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    pub(super) quotas: KeyLayer,
    pub(super) http: Option<Spanned<SocketAddr>>,
    pub(super) http_origins: Option<Spanned<Vec<String>>>,
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(super) struct ScopedRulesLayer {
    pub(super) allow: Option<Spanned<Vec<Spanned<ScopedPattern>>>>,
    pub(super) deny: Option<Spanned<Vec<Spanned<ScopedPattern>>>>,
}

impl ScopedRulesLayer {
    pub(super) fn resolve(&self) -> ScopedRules {
        let all = |patterns: &Spanned<Vec<Spanned<ScopedPattern>>>| values(&patterns.value);
        ScopedRules { allow: self.allow.as_ref().map(all), deny: self.deny.as_ref().map(all).unwrap_or_default() }
    }
}

impl ProfileLayer {
    /// The profile, with the given naming for unset keys.
    pub(super) fn resolve(&self, naming: Naming) -> Profile {
        let servers = self.servers.as_ref().map(|servers| values(&servers.value).into_iter().collect());
        let narrowing = Narrowing {
            rules: PerKind::from_fn(|kind| self.rules[kind].resolve()),
            expose: self.expose.as_ref().map(|exposed| exposed.value.clone()),
            read_only: or_default(self.read_only.as_ref(), false),
        };
        let roots = self.workspace_roots.as_ref().map_or(&[][..], |roots| &roots.value);
        // An agent states its directory without links.
        let real = roots.iter().filter_map(|root| std::fs::canonicalize(root).ok().filter(|real| real != root));
        let allow_uids = or_default(self.allow_uids.as_ref(), BTreeSet::new());
        Profile {
            name: Arc::clone(&self.name.value),
            servers,
            narrowing,
            naming: self.naming.apply(NAMING_KEYS, naming),
            allow_uids,
            workspace_roots: roots.iter().cloned().chain(real).collect(),
            directories: self.directories.as_ref().map(|all| values(&all.value)).unwrap_or_default().into(),
            quotas: self.quotas.apply(Quotas::KEYS, Quotas::default()),
            http: self.http.as_ref().map(|address| address.value),
            http_origins: self.http_origins.as_ref().map(|origins| origins.value.clone()).unwrap_or_default().into(),
        }
    }
}
