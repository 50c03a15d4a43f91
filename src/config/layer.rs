//! What files ask for, each value with the location that says it, and how one layer goes over another.
//!
//! One file is read into a [`Layer`]; those of all layers together are what the configuration is made of, and what is shown of
//! where each of its values comes from.

mod exposure;
mod interpolation;
mod launch;
mod profile;
mod remote;

use std::path::PathBuf;
use std::sync::Arc;

pub(super) use self::exposure::{Exposure, Patterns};
pub(super) use self::interpolation::{is_absolute_or_agent_cwd, is_root};
pub(super) use self::launch::{LaunchTemplate, ProgramTemplate};
pub(super) use self::profile::{ProfileLayer, ScopedRulesLayer};
pub(crate) use self::remote::url_complaint;
pub(super) use self::remote::{
    OAuthTableTemplate, OAuthTemplate, RemoteTemplate, is_credential, is_header_value, is_scope,
};
use super::environment::{hide_proxy_passwords, passed};
use super::interpolate::{Sources, UndefinedValue};
use super::keys::KeyLayer;
use super::launch::Launch;
use super::spanned::{Spanned, values};
use super::{ServerConfig, Settings};
use crate::policy::Policy;

/// What one file asks for; `None` where it says nothing.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// Files that come just below this one, in this order.
    pub(super) includes: Vec<Spanned<PathBuf>>,
    /// The keys of `[daemon]`.
    pub(super) daemon: KeyLayer,
    pub(super) defaults: DefaultsLayer,
    pub(super) servers: Vec<ServerLayer>,
    pub(super) narrowings: Vec<NarrowingLayer>,
    /// Of all servers that it has a word about, also of those that cannot be read or are skipped.
    pub(super) server_names: Vec<String>,
    pub(super) profiles: Vec<ProfileLayer>,
    /// Whether a mistake may hide servers that it configures.
    pub(super) is_partial: bool,
}

/// The `[defaults]` table.
#[derive(Debug, Default)]
pub(super) struct DefaultsLayer {
    pub(super) settings: KeyLayer,
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
    pub(super) settings: KeyLayer,
}

impl DefaultsLayer {
    /// As [`DaemonLayer::merge`], but lists add up.
    pub(super) fn merge(self, mut lower: Self) -> Self {
        lower.pass_env.extend(self.pass_env);
        lower.exposures.extend(self.exposures);
        Self { settings: self.settings.merge(lower.settings), ..lower }
    }
}

impl ServerRules {
    /// As [`DaemonLayer::merge`], but what is exposed narrows.
    pub(super) fn merge(self, mut lower: Self) -> Self {
        lower.exposures.extend(self.exposures);
        Self { exposures: lower.exposures, settings: self.settings.merge(lower.settings) }
    }
}

impl ServerLayer {
    pub(super) fn resolve(&self, defaults: &DefaultsLayer, sources: &dyn Sources) -> ServerConfig {
        let ServerRules { exposures, settings } = &self.rules;
        let settings = Settings::resolve(&settings.clone().merge(defaults.settings.clone()));
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
            if is_lost { Err(UndefinedValue::AgentCwd) } else { Ok(launch) }
        });
        let policies = exposures.iter().chain(&defaults.exposures).map(|exposure| &exposure.policy);
        ServerConfig {
            name: Arc::clone(&self.name.value),
            launch,
            policy: policies.fold(Policy::default(), Policy::and),
            settings,
        }
    }
}
