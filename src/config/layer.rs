//! What files ask for, each value with the place that says it, and how one layer goes over another.
//!
//! One file is read into a [`Layer`]; those of all layers together are what the configuration is made of, and what is shown of
//! where each of its values comes from.

mod exposure;
mod interpolation;
mod launch;
mod profile;
mod remote;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::exposure::{Exposure, Patterns};
pub(super) use self::interpolation::{is_root, is_whole};
pub(super) use self::launch::{LaunchTemplate, ProgramTemplate};
pub(super) use self::profile::{ProfileLayer, ScopedRulesLayer};
pub(crate) use self::remote::url_complaint;
pub(super) use self::remote::{
    OAuthTableTemplate, OAuthTemplate, RemoteTemplate, is_credential, is_header_value, is_scope,
};
pub(super) use self::settings::{CallTimeouts, SettingsLayer};
use super::environment::{hide_proxy_passwords, passed};
use super::interpolate::{Sources, Undefined};
use super::launch::Launch;
use super::spanned::{Spanned, or_default, values};
use super::{DaemonConfig, Keep, ServerConfig};
use crate::naming::{Naming, Scheme};
use crate::policy::Policy;

/// What one file asks for; `None` where it says nothing.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// Files that come just below this one, in this order.
    pub(super) includes: Vec<Spanned<PathBuf>>,
    pub(super) daemon: DaemonLayer,
    pub(super) defaults: DefaultsLayer,
    pub(super) servers: Vec<ServerLayer>,
    pub(super) narrowings: Vec<NarrowingLayer>,
    /// Of all servers that it has a word about, also of those that cannot be read or are skipped.
    pub(super) server_names: Vec<String>,
    pub(super) profiles: Vec<ProfileLayer>,
    /// Whether a mistake may hide servers that it configures.
    pub(super) is_partial: bool,
}

/// The `[daemon]` table.
#[derive(Debug, Default)]
pub(super) struct DaemonLayer {
    pub(super) naming: NamingLayer,
    pub(super) max_message: Option<Spanned<usize>>,
    pub(super) line_timeout: Option<Spanned<Duration>>,
    pub(super) first_list_wait: Option<Spanned<Duration>>,
    pub(super) max_starting: Option<Spanned<usize>>,
    pub(super) call_history: Option<Spanned<usize>>,
    pub(super) call_log: Option<Spanned<PathBuf>>,
    pub(super) call_log_max: Option<Spanned<usize>>,
    pub(super) watch: Option<Spanned<bool>>,
}

/// How exposed names are made.
#[derive(Debug, Default)]
pub(super) struct NamingLayer {
    pub(super) scheme: Option<Spanned<Scheme>>,
    pub(super) max_length: Option<Spanned<usize>>,
}

/// The `[defaults]` table.
#[derive(Debug, Default)]
pub(super) struct DefaultsLayer {
    pub(super) settings: SettingsLayer,
    pub(super) pass_env: Vec<Spanned<String>>,
    /// What its `deny` hides of every server, one for each layer.
    pub(super) exposures: Vec<Exposure>,
}

/// A server that a file configures.
#[derive(Debug)]
pub(super) struct ServerLayer {
    pub(super) name: Spanned<Arc<str>>,
    pub(super) launch: LaunchTemplate,
    pub(super) rules: ServerRules,
}

/// What a file says of a server that another one configures.
#[derive(Debug)]
pub(super) struct NarrowingLayer {
    pub(super) name: Spanned<Arc<str>>,
    /// Keys that only the file may have that configures it.
    pub(super) misplaced: Vec<Spanned<String>>,
    pub(super) rules: ServerRules,
}

/// What any layer may say of a server.
#[derive(Debug, Default)]
pub(super) struct ServerRules {
    /// What is exposed: all have to agree.
    pub(super) exposures: Vec<Exposure>,
    pub(super) settings: SettingsLayer,
    pub(super) log_arguments: Option<Spanned<bool>>,
}

impl DaemonLayer {
    /// What this one says, and where it says nothing, what `lower` does.
    pub(super) fn over(self, lower: Self) -> Self {
        Self {
            naming: self.naming.over(lower.naming),
            max_message: self.max_message.or(lower.max_message),
            line_timeout: self.line_timeout.or(lower.line_timeout),
            first_list_wait: self.first_list_wait.or(lower.first_list_wait),
            max_starting: self.max_starting.or(lower.max_starting),
            call_history: self.call_history.or(lower.call_history),
            call_log: self.call_log.or(lower.call_log),
            call_log_max: self.call_log_max.or(lower.call_log_max),
            watch: self.watch.or(lower.watch),
        }
    }

    pub(super) fn settle(&self) -> DaemonConfig {
        let unset = DaemonConfig::default();
        DaemonConfig {
            naming: self.naming.settle(&unset.naming),
            max_message_bytes: or_default(self.max_message.as_ref(), unset.max_message_bytes),
            line_timeout: or_default(self.line_timeout.as_ref(), unset.line_timeout),
            first_list_wait: or_default(self.first_list_wait.as_ref(), unset.first_list_wait),
            watch: or_default(self.watch.as_ref(), unset.watch),
            max_starting: or_default(self.max_starting.as_ref(), unset.max_starting),
            calls: Keep {
                history: or_default(self.call_history.as_ref(), unset.calls.history),
                file: self.call_log.as_ref().map(|file| file.value.clone()),
                max_file: or_default(self.call_log_max.as_ref(), unset.calls.max_file),
            },
        }
    }
}

impl NamingLayer {
    fn over(self, lower: Self) -> Self {
        Self { scheme: self.scheme.or(lower.scheme), max_length: self.max_length.or(lower.max_length) }
    }

    /// With `unset` where nothing is said.
    pub(super) fn settle(&self, unset: &Naming) -> Naming {
        Naming {
            scheme: or_default(self.scheme.as_ref(), unset.scheme),
            max_length: or_default(self.max_length.as_ref(), unset.max_length),
        }
    }
}

impl DefaultsLayer {
    /// As [`DaemonLayer::over`], but lists add up.
    pub(super) fn over(self, mut lower: Self) -> Self {
        lower.pass_env.extend(self.pass_env);
        lower.exposures.extend(self.exposures);
        Self { settings: self.settings.over(lower.settings), ..lower }
    }
}

impl ServerRules {
    /// As [`DaemonLayer::over`], but what is exposed narrows.
    pub(super) fn over(self, mut lower: Self) -> Self {
        lower.exposures.extend(self.exposures);
        Self {
            exposures: lower.exposures,
            settings: self.settings.over(lower.settings),
            log_arguments: self.log_arguments.or(lower.log_arguments),
        }
    }
}

impl ServerLayer {
    pub(super) fn settle(&self, defaults: &DefaultsLayer, sources: &dyn Sources) -> ServerConfig {
        let ServerRules { exposures, settings, log_arguments } = &self.rules;
        let settings = settings.clone().over(defaults.settings.clone()).settle();
        let launch = self.launch.interpolate(sources).and_then(|mut launch| {
            if let Launch::Program(program) = &mut launch {
                program.pass_env.extend(values(&defaults.pass_env));
                program.pass_env.sort_unstable();
                program.pass_env.dedup();
                let passed = passed(sources.variables("").into_iter(), &program.pass_env);
                hide_proxy_passwords(passed.iter().chain(&program.env), &mut program.secrets);
                program.passed = Some(passed);
            }
            let is_lost = launch.needs_agent_cwd() && !settings.sharing.is_by_agent();
            if is_lost { Err(Undefined::AgentCwd) } else { Ok(launch) }
        });
        let policies = exposures.iter().chain(&defaults.exposures).map(|exposure| &exposure.policy);
        ServerConfig {
            name: Arc::clone(&self.name.value),
            launch,
            policy: policies.fold(Policy::default(), Policy::and),
            settings,
            log_arguments: or_default(log_arguments.as_ref(), false),
        }
    }
}
