//! What files ask for, each value with the place that says it, and how one layer goes over another.
//!
//! One file is read into a [`Draft`]; those of all layers together are what the configuration is made of, and what is shown of
//! where each of its values comes from.

mod exposure;
mod filling;
mod launch;
mod profile;
mod remote;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::exposure::{Exposure, Patterns};
pub(super) use self::filling::{is_root, is_whole};
pub(super) use self::launch::{LaunchDraft, ProgramDraft};
pub(super) use self::profile::{ProfileDraft, ScopedDraft};
pub(crate) use self::remote::url_complaint;
pub(super) use self::remote::{OAuthDraft, OAuthKeys, RemoteDraft, is_credential, is_header_value, is_scope};
pub(super) use self::settings::{CallTimeouts, SettingsDraft};
use super::environment::{hide_proxy_passwords, passed};
use super::interpolate::{Sources, Undefined};
use super::launch::Launch;
use super::sourced::{Sourced, or_unset, values};
use super::{DaemonConfig, Keep, ServerConfig};
use crate::naming::{Naming, Scheme};
use crate::policy::Policy;

/// What one file asks for; `None` where it says nothing.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Files that come just below this one, in this order.
    pub(super) includes: Vec<Sourced<PathBuf>>,
    pub(super) daemon: DaemonDraft,
    pub(super) defaults: DefaultsDraft,
    pub(super) servers: Vec<ServerDraft>,
    pub(super) narrowings: Vec<NarrowingDraft>,
    /// Of all servers that it has a word about, also of those that cannot be read or are skipped.
    pub(super) server_names: Vec<String>,
    pub(super) profiles: Vec<ProfileDraft>,
    /// Whether a mistake may hide servers that it configures.
    pub(super) is_partial: bool,
}

/// The `[daemon]` table.
#[derive(Debug, Default)]
pub(super) struct DaemonDraft {
    pub(super) naming: NamingDraft,
    pub(super) max_message: Option<Sourced<usize>>,
    pub(super) line_timeout: Option<Sourced<Duration>>,
    pub(super) first_list_wait: Option<Sourced<Duration>>,
    pub(super) max_starting: Option<Sourced<usize>>,
    pub(super) call_history: Option<Sourced<usize>>,
    pub(super) call_log: Option<Sourced<PathBuf>>,
    pub(super) call_log_max: Option<Sourced<usize>>,
    pub(super) watch: Option<Sourced<bool>>,
}

/// How exposed names are made.
#[derive(Debug, Default)]
pub(super) struct NamingDraft {
    pub(super) scheme: Option<Sourced<Scheme>>,
    pub(super) max_length: Option<Sourced<usize>>,
}

/// The `[defaults]` table.
#[derive(Debug, Default)]
pub(super) struct DefaultsDraft {
    pub(super) settings: SettingsDraft,
    pub(super) pass_env: Vec<Sourced<String>>,
    /// What its `deny` hides of every server, one for each layer.
    pub(super) exposures: Vec<Exposure>,
}

/// A server that a file configures.
#[derive(Debug)]
pub(super) struct ServerDraft {
    pub(super) name: Sourced<Arc<str>>,
    pub(super) launch: LaunchDraft,
    pub(super) rules: ServerRules,
}

/// What a file says of a server that another one configures.
#[derive(Debug)]
pub(super) struct NarrowingDraft {
    pub(super) name: Sourced<Arc<str>>,
    /// Keys that only the file may have that configures it.
    pub(super) misplaced: Vec<Sourced<String>>,
    pub(super) rules: ServerRules,
}

/// What any layer may say of a server.
#[derive(Debug, Default)]
pub(super) struct ServerRules {
    /// What is exposed: all have to agree.
    pub(super) exposures: Vec<Exposure>,
    pub(super) settings: SettingsDraft,
    pub(super) log_arguments: Option<Sourced<bool>>,
}

impl DaemonDraft {
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
            max_message_bytes: or_unset(self.max_message.as_ref(), unset.max_message_bytes),
            line_timeout: or_unset(self.line_timeout.as_ref(), unset.line_timeout),
            first_list_wait: or_unset(self.first_list_wait.as_ref(), unset.first_list_wait),
            watch: or_unset(self.watch.as_ref(), unset.watch),
            max_starting: or_unset(self.max_starting.as_ref(), unset.max_starting),
            calls: Keep {
                history: or_unset(self.call_history.as_ref(), unset.calls.history),
                file: self.call_log.as_ref().map(|file| file.value.clone()),
                max_file: or_unset(self.call_log_max.as_ref(), unset.calls.max_file),
            },
        }
    }
}

impl NamingDraft {
    fn over(self, lower: Self) -> Self {
        Self { scheme: self.scheme.or(lower.scheme), max_length: self.max_length.or(lower.max_length) }
    }

    /// With `unset` where nothing is said.
    pub(super) fn settle(&self, unset: &Naming) -> Naming {
        Naming {
            scheme: or_unset(self.scheme.as_ref(), unset.scheme),
            max_length: or_unset(self.max_length.as_ref(), unset.max_length),
        }
    }
}

impl DefaultsDraft {
    /// As [`DaemonDraft::over`], but lists add up.
    pub(super) fn over(self, mut lower: Self) -> Self {
        lower.pass_env.extend(self.pass_env);
        lower.exposures.extend(self.exposures);
        Self { settings: self.settings.over(lower.settings), ..lower }
    }
}

impl ServerRules {
    /// As [`DaemonDraft::over`], but what is exposed narrows.
    pub(super) fn over(self, mut lower: Self) -> Self {
        lower.exposures.extend(self.exposures);
        Self {
            exposures: lower.exposures,
            settings: self.settings.over(lower.settings),
            log_arguments: self.log_arguments.or(lower.log_arguments),
        }
    }
}

impl ServerDraft {
    pub(super) fn settle(&self, defaults: &DefaultsDraft, sources: &dyn Sources) -> ServerConfig {
        let ServerRules { exposures, settings, log_arguments } = &self.rules;
        let settings = settings.clone().over(defaults.settings.clone()).settle();
        let launch = self.launch.fill(sources).and_then(|mut launch| {
            if let Launch::Program(program) = &mut launch {
                program.pass_env.extend(values(&defaults.pass_env));
                program.pass_env.sort_unstable();
                program.pass_env.dedup();
                let passed = passed(sources.variables("").into_iter(), &program.pass_env);
                hide_proxy_passwords(passed.iter().chain(&program.env), &mut program.secrets);
                program.passed = Some(passed);
            }
            let is_lost = launch.wants_agent_cwd() && !settings.sharing.is_by_agent();
            if is_lost { Err(Undefined::AgentCwd) } else { Ok(launch) }
        });
        let policies = exposures.iter().chain(&defaults.exposures).map(|exposure| &exposure.policy);
        ServerConfig {
            name: Arc::clone(&self.name.value),
            launch,
            policy: policies.fold(Policy::default(), Policy::and),
            settings,
            log_arguments: or_unset(log_arguments.as_ref(), false),
        }
    }
}
