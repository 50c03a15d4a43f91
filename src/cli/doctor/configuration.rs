//! The findings of `mcpd check`, with the environment and files that the daemon sees.

use std::io;

use super::finding::{Finding, Fix, Group};
use super::probe::DaemonProbe;
use crate::cli::text;
use crate::config::diagnostic::Diagnostic;
use crate::config::{ConfigError, LoadedConfig};
use crate::config_lints;
use crate::daemon::cache_directory;
use crate::known_clients::shell_word;
use crate::server::last_known;

/// Findings that are shown. `mcpd check` shows them all.
const MAX_SHOWN: usize = 20;

pub(super) fn check(probe: &DaemonProbe, loaded: &Result<LoadedConfig, ConfigError>) -> Group {
    let findings = match loaded {
        Ok(loaded) => warnings(probe, loaded),
        Err(error) => errors(probe, error),
    };
    Group { title: "configuration", findings }
}

fn warnings(probe: &DaemonProbe, loaded: &LoadedConfig) -> Vec<Finding> {
    let servers = &loaded.config.servers;
    let known = servers.iter().map(|server| last_known(&cache_directory()?, server)).collect();
    let mut warnings = loaded.warnings.clone();
    warnings.extend(config_lints::advise_beside_commands(loaded, &probe.sources, known));
    let first = match loaded.files.first() {
        None => Finding::warning("files", "none found, so no server is configured", "`mcpd import`, or `mcpd add`"),
        Some(_) => {
            let files: Vec<_> = loaded.files.iter().map(|file| file.display().to_string()).collect();
            Finding::fine("files", format!("{}: {}", files.join(", "), text::count(servers.len(), "server")))
        }
    };
    let more = warnings.len().saturating_sub(MAX_SHOWN);
    let more = (more > 0).then(|| Finding::warning("more", format!("{more} more warnings"), probe.check()));
    [first]
        .into_iter()
        .chain(warnings.iter().take(MAX_SHOWN).map(|warning| finding(probe, warning, Finding::warning)))
        .chain(more)
        .collect()
}

fn errors(probe: &DaemonProbe, error: &ConfigError) -> Vec<Finding> {
    let unreadable = error.unreadable().map(|(path, error)| {
        let fix = Fix::of_untrusted(path);
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::NotFound => {
                let create = format!("`mcpd add --config {} NAME COMMAND` creates it", shell_word(&path));
                Finding::problem(path, "does not exist", format!("correct the path; or {create}"))
            }
            _ => {
                let advice = "make it a file that only the user of mcpd owns and can write";
                Finding::problem(path, format!("cannot be read: {error}"), advice).with_fix(fix)
            }
        }
    });
    let places = error.diagnostics().iter().map(|diagnostic| finding(probe, diagnostic, Finding::problem));
    unreadable.chain(places).take(MAX_SHOWN).collect()
}

fn finding(probe: &DaemonProbe, diagnostic: &Diagnostic, of: fn(String, String, String) -> Finding) -> Finding {
    let label = diagnostic.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    let advice = diagnostic.help.clone().unwrap_or_else(|| format!("{} shows the line", probe.check()));
    let fix = diagnostic.correction.clone().map(Fix::from);
    of(diagnostic.address(), format!("{}{label}", diagnostic.message), advice).with_fix(fix)
}
