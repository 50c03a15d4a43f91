//! Whether a server offered something else than its pins when it last listed. Reads files only.

use std::path::Path;

use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::cli::text::count;
use crate::config::{ChangeRule, Instructions, ServerConfig};
use crate::daemon::cache_directory;
use crate::list_kind::ListKind;
use crate::pin_files::PinDirectory;
use crate::pins::{Definition, PinnedKind, Pins};
use crate::policy::{INSTRUCTIONS_KEY, instructions_json};
use crate::printable::one_line;
use crate::server::{last_known, last_known_instructions};

/// Definitions of a server that differ from its pins, as it listed them last.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DefinitionsReport {
    /// Name of the server.
    server: String,
    /// Definitions that differ from the approved ones.
    changed: usize,
    /// Definitions of tools, prompts, templates and instructions that have no approved one.
    new: usize,
    /// Why the pin file cannot be used.
    problem: Option<String>,
}

impl DefinitionsReport {
    /// The differences of `server`, if there are any. A server without a pin file, or without a list, has none.
    pub(super) fn of(server: &ServerConfig, directory: &PinDirectory) -> Option<Self> {
        if server.settings.changes == ChangeRule::Follow {
            return None;
        }
        let mut report = Self { server: server.name.to_string(), ..Self::default() };
        match directory.load(&server.name) {
            Ok(record) => report.compare(server, &record?.pins(), &cache_directory()?),
            Err(error) => report.problem = Some(format!("{}: {error}", directory.file(&server.name).display())),
        }
        (report.changed + report.new > 0 || report.problem.is_some()).then_some(report)
    }

    fn compare(&mut self, server: &ServerConfig, pins: &Pins, cache: &Path) {
        let lists = last_known(cache, server).unwrap_or_default();
        for list in ListKind::ALL {
            let Some(kind) = PinnedKind::of(list) else { continue };
            let is_exposed = |key: &str, json| server.policy.verdict_of_rules(list, key, Some(json)).is_ok();
            for item in lists[list].items.iter().filter(|item| is_exposed(&item.key, &item.json)) {
                self.add(pins, kind, &item.key, Definition::new(&item.json, &item.fingerprint));
            }
        }
        if server.settings.instructions == Instructions::OfServer {
            for text in last_known_instructions(cache, server) {
                let json = instructions_json(&text);
                self.add(pins, PinnedKind::Instructions, INSTRUCTIONS_KEY, Definition::plain(&json));
            }
        }
    }

    fn add(&mut self, pins: &Pins, kind: PinnedKind, key: &str, definition: Definition<'_>) {
        match (pins.is_approved(kind, key, definition.digest()), pins.knows(kind, key)) {
            (true, _) => {}
            (false, true) => self.changed += 1,
            (false, false) => self.new += 1,
        }
    }

    /// The report as one line.
    pub(super) fn line(&self) -> String {
        let Self { server, changed, new, problem } = self;
        one_line(&match problem {
            Some(problem) => format!("{server}: its pins cannot be compared: {problem}"),
            None => {
                let differing = count(changed + new, "definition");
                let are = if changed + new == 1 { "differs" } else { "differ" };
                format!(
                    "{server}: {differing} {are} from its pins ({changed} changed, {new} new): `mcpd diff {server}` shows them"
                )
            }
        })
    }
}
