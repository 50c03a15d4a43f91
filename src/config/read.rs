//! From a tree to what one file asks for. Every complaint is collected, not just the first.
//!
//! `fields` takes a table apart, `values` checks single values, `ours` and `clients` are the two formats, `server` is
//! what names one, `launch` how it is run or reached, `policy` are the keys that say what is exposed, `profiles` those that say by
//! which socket, `timeouts` those that limit calls.

mod clients;
mod fields;
mod launch;
mod ours;
mod policy;
mod profiles;
mod server;
mod timeouts;
mod values;

pub(super) use self::clients::{Translated, has_servers, is_codex, translated};
pub(crate) use self::server::fitted_name;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::fields::suggestion;
pub(super) use self::profiles::ProfileDraft;
use super::interpolate::Sources;
use super::launch::LaunchDraft;
use super::notes::Notes;
use super::settings::SettingsDraft;
use super::tree::{Entry, MOST_PROBLEMS, Node, Problem, Value};
use crate::naming::Scheme;
use crate::policy::Policy;

/// Whose words a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Our own, in TOML.
    Ours,
    /// JSON of other clients.
    Clients,
    /// TOML of another client.
    Codex,
}

/// What one file asks for; `None` where it says nothing.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) daemon: DaemonDraft,
    pub(super) defaults: DefaultsDraft,
    pub(super) servers: Vec<ServerDraft>,
    /// Of all servers that it has a word about, also of those that cannot be read or are skipped.
    pub(super) server_names: Vec<String>,
    pub(super) profiles: Vec<ProfileDraft>,
    pub(super) notes: Notes,
}

/// The `[daemon]` table of one file.
#[derive(Debug, Default)]
pub(super) struct DaemonDraft {
    pub(super) naming: Option<Scheme>,
    pub(super) max_name_length: Option<usize>,
    pub(super) max_message: Option<usize>,
    pub(super) line_timeout: Option<Duration>,
    pub(super) max_starting: Option<usize>,
    pub(super) call_history: Option<usize>,
    pub(super) call_log: Option<PathBuf>,
    pub(super) call_log_max: Option<usize>,
    pub(super) watch: Option<bool>,
}

/// The `[defaults]` table of one file.
#[derive(Debug, Default)]
pub(super) struct DefaultsDraft {
    pub(super) settings: SettingsDraft,
    pub(super) pass_env: Vec<String>,
}

/// One server of one file, without the defaults.
#[derive(Debug)]
pub(super) struct ServerDraft {
    pub(super) name: Arc<str>,
    pub(super) name_span: Range<usize>,
    pub(super) launch: LaunchDraft,
    pub(super) policy: Policy,
    pub(super) settings: SettingsDraft,
    pub(super) log_arguments: bool,
}

/// The complaints about one file.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Reads the tree of one file.
pub(super) fn read(root: &Node, format: Format, path: &Path, text: &str, sources: &dyn Sources) -> (Draft, Problems) {
    let mut reader = Reader::new(format, path, text, sources);
    let mut draft = match format {
        Format::Ours => reader.our_file(root),
        Format::Clients | Format::Codex => reader.clients_file(root),
    };
    draft.notes = reader.notes;
    (draft, reader.problems)
}

struct Reader<'a> {
    format: Format,
    /// Where the file is, from the root on if that is known.
    path: PathBuf,
    text: &'a str,
    sources: &'a dyn Sources,
    problems: Problems,
    notes: Notes,
}

impl<'a> Reader<'a> {
    fn new(format: Format, path: &Path, text: &'a str, sources: &'a dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| path.to_owned(), |directory| directory.join(path));
        Self { format, path, text, sources, problems: Problems::default(), notes: Notes::default() }
    }
}

impl Reader<'_> {
    fn error(&mut self, problem: Problem) {
        push(&mut self.problems.errors, problem);
    }

    fn warn(&mut self, problem: Problem) {
        push(&mut self.problems.warnings, problem);
    }

    /// The entries of a table, none if it is something else.
    fn table<'t>(&mut self, node: &'t Node, what: &str, example: &str) -> &'t [Entry] {
        match &node.value {
            Value::Table(entries) => entries,
            _ => {
                self.wrong_type(node, what, self.word_for_table(), example.to_owned());
                &[]
            }
        }
    }

    /// The list of strings at `node`, without the ones that are no strings.
    fn strings<'t>(&mut self, entry: &'t Entry, example: &str) -> Vec<(&'t Node, &'t str)> {
        let what = format!("`{}`", entry.key);
        let Value::Array(items) = &entry.node.value else {
            let example = match entry.node.value {
                Value::String(_) => format!("[{}]", self.source(&entry.node, example)),
                _ => example.to_owned(),
            };
            let help = self.assignment(&entry.key, &example);
            self.wrong_type(&entry.node, &what, "a list of strings", help);
            return Vec::new();
        };
        let what = format!("each item of {what}");
        items.iter().filter_map(|item| self.string(item, &what).map(|text| (item, text))).collect()
    }

    /// The string at `node`, which a message calls `what`.
    fn string<'t>(&mut self, node: &'t Node, what: &str) -> Option<&'t str> {
        match &node.value {
            Value::String(text) if text.contains('\0') => {
                let problem = Problem::new(node.span.clone(), format!("{what} holds a NUL character"));
                self.error(problem.help("take it out: no argument, variable or path can carry one"));
                None
            }
            Value::String(text) => Some(text),
            Value::Integer(_) | Value::Float | Value::Bool(_) => {
                let help = format!("put it in quotes: `\"{}\"`", self.source(node, "text"));
                self.wrong_type(node, what, "a string", help);
                None
            }
            _ => {
                self.wrong_type(node, what, "a string", "write text in double quotes".to_owned());
                None
            }
        }
    }

    fn boolean(&mut self, entry: &Entry) -> bool {
        if let Value::Bool(truth) = entry.node.value {
            return truth;
        }
        let help = self.assignment(&entry.key, "true");
        self.wrong_type(&entry.node, &format!("`{}`", entry.key), "true or false", help);
        false
    }

    fn wrong_type(&mut self, node: &Node, what: &str, expected: &str, help: String) {
        let problem = Problem::new(node.span.clone(), format!("{what} must be {expected}"));
        self.error(problem.label(format!("this is {}", node.value.type_name())).help(help));
    }

    /// How the file's format spells a key with its value.
    fn assignment(&self, key: &str, value: &str) -> String {
        match self.format {
            Format::Ours | Format::Codex => format!("write `{key} = {value}`"),
            Format::Clients => format!("write `\"{key}\": {value}`"),
        }
    }

    /// How a value is spelt in the file, if it is short enough to be repeated.
    fn source<'s>(&'s self, node: &Node, otherwise: &'s str) -> &'s str {
        let spelt = self.text.get(node.span.clone()).unwrap_or_default();
        if spelt.is_empty() || spelt.len() > 60 || spelt.contains('\n') { otherwise } else { spelt }
    }

    fn word_for_table(&self) -> &'static str {
        match self.format {
            Format::Ours | Format::Codex => "a table",
            Format::Clients => "an object",
        }
    }
}

fn push(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < MOST_PROBLEMS {
        problems.push(problem);
    }
}
