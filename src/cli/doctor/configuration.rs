//! What `mcpd check` would say of the configuration, with the eyes of the daemon.

use std::fmt::Write;

use super::finding::{Finding, Group};
use super::probe::DaemonProbe;
use crate::cli::text;
use crate::config::diagnostic::{Diagnostic, Medium};
use crate::config::{ConfigError, Loaded};
use crate::config_lints;
use crate::daemon::cache_directory;
use crate::server::last_known;

/// Complaints that are shown; `mcpd check` has them all.
const SHOWN: usize = 20;

pub(super) fn check(probe: &DaemonProbe, loaded: &Result<Loaded, ConfigError>) -> Group {
    let findings = match loaded {
        Ok(loaded) => holds(probe, loaded),
        Err(error) => refused(error),
    };
    Group { title: "configuration", findings }
}

fn holds(probe: &DaemonProbe, loaded: &Loaded) -> Vec<Finding> {
    let servers = &loaded.config.servers;
    let known = servers.iter().map(|server| last_known(&cache_directory()?, server)).collect();
    let mut warnings = loaded.warnings.clone();
    warnings.extend(config_lints::advise_beside_commands(loaded, &probe.sources, known));
    let first = match loaded.files.first() {
        None => Finding::warning("files", "there are none, so no server is configured", "`mcpd import`, or `mcpd add`"),
        Some(first) => {
            let mut found = first.display().to_string();
            for file in &loaded.files[1..] {
                // A text takes whatever is written to it.
                let _ = write!(found, ", {}", file.display());
            }
            Finding::fine("files", format!("{found}: {}", text::count(servers.len(), "server")))
        }
    };
    let more = warnings.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| Finding::warning("more", format!("{more} more warnings"), "`mcpd check`"));
    [first]
        .into_iter()
        .chain(warnings.iter().take(SHOWN).map(|warning| finding(warning, Finding::warning)))
        .chain(more)
        .collect()
}

fn refused(error: &ConfigError) -> Vec<Finding> {
    let unreadable = error.unreadable().map(|(path, error)| {
        let path = path.display().to_string();
        Finding::problem(path.clone(), format!("cannot be read: {error}"), "let mcpd's user, and nobody else, own it")
    });
    let places = error.diagnostics().iter().map(|diagnostic| finding(diagnostic, Finding::problem));
    unreadable.chain(places).take(SHOWN).collect()
}

fn finding(diagnostic: &Diagnostic, of: fn(String, String, String) -> Finding) -> Finding {
    let path = diagnostic.file.path.display();
    let place = match diagnostic.file.medium {
        Medium::File => {
            let (line, column) = diagnostic.place();
            format!("{path}:{line}:{column}")
        }
        Medium::Variable => path.to_string(),
    };
    let label = diagnostic.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    let advice = diagnostic.help.clone().unwrap_or_else(|| "`mcpd check` shows the line".to_owned());
    of(place, format!("{}{label}", diagnostic.message), advice)
}
