//! Which packages the servers of a configuration run, and whether their versions are exact.

use std::path::PathBuf;

use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::config::diagnostic::Edit;
use crate::config::interpolate::Sources;
use crate::config::known_commands::{PackageWord, Requirement, package_words, runner};
use crate::config::{Launch, LoadedConfig, ServerConfig};
use crate::packages::{UnknownVersion, installed_packages};
use crate::printable::one_line;
use crate::server::{SandboxHost, launch_environment};

/// Whether a package has an exact version, and what was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum LockState {
    /// The configuration has its exact version.
    Locked,
    /// Other versions may run: `reason` says why, or why the version is not known.
    Unlocked,
    /// It has no version that could be written: `reason` says why.
    NotLockable,
    /// The version was written.
    Written,
    /// With `--dry-run`: the version would be written.
    Planned,
    /// The user declined.
    Declined,
}

/// A package of a server.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct PackageReport {
    /// Name of the server.
    pub(in crate::cli) server: String,
    /// Whether its version is exact.
    pub(in crate::cli) state: LockState,
    /// The package, or the image with its registry; absent if the server has none, or if it is written with references.
    package: Option<String>,
    /// The exact version; of an image, its digest.
    version: Option<String>,
    /// The checksum of the package, if the cache has it.
    integrity: Option<String>,
    /// Why it is not locked.
    reason: Option<String>,
    /// What writes the version.
    #[serde(skip)]
    pub(in crate::cli) edit: Option<Edit>,
}

impl PackageReport {
    fn not_lockable(server: &str, reason: String) -> Self {
        let (state, reason) = (LockState::NotLockable, Some(reason));
        let server = server.to_owned();
        Self { server, state, package: None, version: None, integrity: None, reason, edit: None }
    }

    fn of(server: &str, word: &PackageWord, is_literal: bool) -> Self {
        let (state, reason) = match &word.requirement {
            Requirement::Exact(_) => (LockState::Locked, None),
            Requirement::Newest => (LockState::Unlocked, Some("the newest version runs".to_owned())),
            Requirement::Range(range) if is_literal => {
                (LockState::Unlocked, Some(format!("`{}` stands for several versions", one_line(range))))
            }
            Requirement::Range(_) => (LockState::Unlocked, Some("its version is not exact".to_owned())),
            Requirement::Alias => {
                (LockState::Unlocked, Some("it is an alias: name the package itself, with its version".to_owned()))
            }
            Requirement::Elsewhere => {
                return Self::not_lockable(server, "what it runs is not a package of a registry".to_owned());
            }
        };
        // The value of a reference may be a secret.
        let shown = |text: &str| is_literal.then(|| text.to_owned());
        Self {
            server: server.to_owned(),
            state,
            package: shown(&word.name),
            version: word.version().and_then(shown),
            integrity: None,
            reason,
            edit: None,
        }
    }

    /// The report as one line.
    pub(in crate::cli) fn line(&self) -> String {
        let Self { server, state, package, version, reason, .. } = self;
        let package = package.as_deref().unwrap_or("its package");
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        one_line(&match state {
            LockState::Locked => format!("{server}: {package} is locked at{version}"),
            LockState::Unlocked => format!("{server}: {package} is not locked{reason}"),
            LockState::NotLockable => format!("{server}: has no version to lock{reason}"),
            LockState::Written => format!("{server}: {package} is now locked at{version}"),
            LockState::Planned => format!("{server}: {package} would be locked at{version}"),
            LockState::Declined => format!("{server}: {package} stays unlocked, and runs{version}"),
        })
    }
}

/// The command and the arguments of a server: with the values of references, or as they are written if a value is missing.
fn command_line(loaded: &LoadedConfig, server: &ServerConfig) -> Option<(String, Vec<String>)> {
    let written = loaded.written_command(&server.name)?;
    let program = server.launch.as_ref().ok().and_then(Launch::program);
    Some(program.map_or(written, |program| (program.command.clone(), program.args.clone())))
}

/// What a server runs, without a look at any cache.
pub(super) fn packages(loaded: &LoadedConfig, server: &ServerConfig) -> Vec<PackageReport> {
    let name = &*server.name;
    let Some((command, args)) = command_line(loaded, server) else {
        let reason = server.launch.as_ref().map_or_else(ToString::to_string, |_| "it is reached by a URL".to_owned());
        return vec![PackageReport::not_lockable(name, reason)];
    };
    let words = package_words(&command, &args);
    if words.is_empty() {
        let reason = if runner(&command, &args).is_some() {
            "its command names no package"
        } else {
            "its command is not known to download a package"
        };
        return vec![PackageReport::not_lockable(name, reason.to_owned())];
    }
    words.iter().map(|word| PackageReport::of(name, word, loaded.has_literal_argument(name, word.index))).collect()
}

/// What a server runs, with the versions that it runs now.
pub(super) async fn packages_with_versions(
    loaded: &LoadedConfig,
    server: &ServerConfig,
    host: &SandboxHost,
    sources: &dyn Sources,
) -> Vec<PackageReport> {
    let mut reports = packages(loaded, server);
    let Some((command, args)) =
        command_line(loaded, server).filter(|_| reports.iter().any(|report| report.state == LockState::Unlocked))
    else {
        return reports;
    };
    let found = launch_environment(server, host, sources)
        .await
        .map(|(env, cwd): (_, PathBuf)| installed_packages(&command, &args, &env, &cwd));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let unlocked = reports.iter_mut().filter(|report| report.state == LockState::Unlocked);
            unlocked.for_each(|report| report.reason = Some(format!("its version is not known: {error}")));
            return reports;
        }
    };
    let unlocked = reports.iter_mut().zip(found).filter(|(report, _)| report.state == LockState::Unlocked);
    for (report, (word, found)) in unlocked {
        match found {
            Ok(found) => {
                report.edit = loaded.argument_edit(&server.name, word.index, &word.with_version(&found.version));
                match report.edit.is_some() {
                    true => (report.state, report.reason) = (LockState::Planned, None),
                    false => report.reason = Some("it is written with `${…}`: add its version by hand".to_owned()),
                }
                (report.version, report.integrity) = (Some(found.version), found.integrity);
            }
            Err(UnknownVersion::NotInstalled) => {
                let again = format!("start the server, then run `mcpd lock {}` again", server.name);
                report.reason = Some(format!("{}: {again}", UnknownVersion::NotInstalled));
            }
            Err(unknown) => report.reason = Some(unknown.to_string()),
        }
    }
    reports
}
