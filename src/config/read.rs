//! Reads the tree of one file into a layer. Collects every error of the file.
//!
//! - `fields` takes a table apart, `values` reads single values.
//! - `native` and `clients` read the two formats.
//! - `launch` reads commands, `remote` URLs, `policy` the rules, `profiles` the profiles.

mod clients;
mod fields;
mod launch;
mod native;
mod policy;
mod profiles;
mod remote;
mod sandbox;
mod values;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) use self::clients::{TranslatedServer, has_servers, is_codex, pointers, translated};
use self::fields::Fields;
pub(super) use self::fields::suggestion;
pub(super) use self::policy::EXPOSED;
pub(crate) use self::values::fitted_name;
use super::diagnostic::SourceFile;
use super::diagnostic::{Location, Spanned};
use super::interpolate::Sources;
use super::layer::Layer;
use super::tree::{Entry, MAX_PROBLEMS, Node, Problem, Value};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// mcpd's TOML.
    Native,
    /// JSON of other clients.
    Clients,
    /// TOML of another client.
    Codex,
    /// An environment variable with one value.
    Variable,
}

/// The problems of one file.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Reads the tree of one file.
pub(super) fn read(root: &Node, format: Format, file: &Arc<SourceFile>, sources: &dyn Sources) -> (Layer, Problems) {
    let mut reader = Reader::new(format, file, sources);
    let layer = match format {
        Format::Clients | Format::Codex => reader.clients_file(root),
        Format::Native | Format::Variable => reader.native_file(root),
    };
    (layer, reader.problems)
}

/// The lists that a variable can set, with their tables.
pub(super) const LISTS: [&str; 2] = ["defaults.pass_env", "defaults.deny"];

/// Reads an `MCPD_…` variable that may set a key of `[daemon]`, or with `defaults.` before it, of `[defaults]`.
pub(super) fn read_variable(
    key: String,
    node: Node,
    file: &Arc<SourceFile>,
    sources: &dyn Sources,
) -> (Layer, Problems) {
    let mut reader = Reader::new(Format::Variable, file, sources);
    let (table, key) = match key.strip_prefix("defaults.") {
        Some(key) => ("DEFAULTS__", key.to_owned()),
        None => ("", key),
    };
    let entries = [Entry { key, key_span: 0..0, node }];
    let mut fields = Fields::new(table, &entries);
    let mut layer = Layer::default();
    match table {
        "" => layer.daemon = reader.daemon_keys(&mut fields),
        _ => layer.defaults = reader.defaults_keys(&mut fields),
    }
    reader.finish_variable(fields);
    (layer, reader.problems)
}

struct Reader<'a> {
    format: Format,
    file: &'a Arc<SourceFile>,
    /// The path of the file, absolute if the working directory is known.
    path: PathBuf,
    sources: &'a dyn Sources,
    problems: Problems,
}

impl<'a> Reader<'a> {
    fn new(format: Format, file: &'a Arc<SourceFile>, sources: &'a dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| file.path.clone(), |directory| directory.join(&file.path));
        Self { format, file, path, sources, problems: Problems::default() }
    }
}

impl Reader<'_> {
    fn error(&mut self, problem: Problem) {
        push(&mut self.problems.errors, problem);
    }

    fn warn(&mut self, problem: Problem) {
        push(&mut self.problems.warnings, problem);
    }

    /// The entries of a table. Empty, with an error, for another type.
    fn table<'t>(&mut self, node: &'t Node, what: &str, example: &str) -> &'t [Entry] {
        match &node.value {
            Value::Table(entries) => entries,
            _ => {
                self.wrong_type(node, what, self.word_for_table(), example.to_owned());
                &[]
            }
        }
    }

    /// The strings of a list. Other items cause an error.
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

    /// The string at `node`. Messages call it `what`.
    fn string<'t>(&mut self, node: &'t Node, what: &str) -> Option<&'t str> {
        match &node.value {
            Value::String(text) if text.contains('\0') => {
                let problem = Problem::new(node.span.clone(), format!("{what} contains a NUL character"));
                self.error(problem.help("remove it: arguments, variables and paths cannot contain one"));
                None
            }
            Value::String(text) => Some(text),
            Value::Integer(_) | Value::Float | Value::Bool(_) => {
                let spelt = if self.file.hides(&node.span) { "…" } else { self.source(node, "text") };
                let help = format!("put it in quotes: `\"{spelt}\"`");
                self.wrong_type(node, what, "a string", help);
                None
            }
            _ => {
                self.wrong_type(node, what, "a string", "write text in double quotes".to_owned());
                None
            }
        }
    }

    fn boolean(&mut self, entry: &Entry) -> Option<bool> {
        if let Value::Bool(truth) = entry.node.value {
            return Some(truth);
        }
        let help = self.assignment(&entry.key, "true");
        self.wrong_type(&entry.node, &format!("`{}`", entry.key), "true or false", help);
        None
    }

    /// The value of `key`, read by `read`, with its location.
    fn key<'t, T>(
        &mut self,
        fields: &mut Fields<'t>,
        key: &'static str,
        read: impl FnOnce(&mut Self, &'t Entry) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let entry = fields.take(key)?;
        let value = read(self, entry)?;
        Some(self.spanned(&entry.node, value))
    }

    /// `value` with the location of `node`.
    fn spanned<T>(&self, node: &Node, value: T) -> Spanned<T> {
        self.spanned_at(node.span.clone(), value)
    }

    /// `value` with the location `span`.
    fn spanned_at<T>(&self, span: Range<usize>, value: T) -> Spanned<T> {
        Spanned { value, location: Location { file: Arc::clone(self.file), span } }
    }

    fn wrong_type(&mut self, node: &Node, what: &str, expected: &str, help: String) {
        let problem = Problem::new(node.span.clone(), format!("{what} must be {expected}"));
        self.error(problem.label(format!("this is {}", node.value.type_name())).help(help));
    }

    /// A help text with an assignment in the syntax of the file.
    fn assignment(&self, key: &str, value: &str) -> String {
        match self.format {
            Format::Native | Format::Codex => format!("write `{key} = {value}`"),
            Format::Clients => format!("write `\"{key}\": {value}`"),
            Format::Variable => format!("write `{}={}`", self.file.path.display(), value.trim_matches(['[', '"', ']'])),
        }
    }

    /// The text of a value in the file, if it is short enough to print.
    fn source<'s>(&'s self, node: &Node, otherwise: &'s str) -> &'s str {
        let spelt = self.file.text.get(node.span.clone()).unwrap_or_default();
        if spelt.is_empty() || spelt.len() > 60 || spelt.contains('\n') { otherwise } else { spelt }
    }

    fn word_for_table(&self) -> &'static str {
        match self.format {
            Format::Native | Format::Codex | Format::Variable => "a table",
            Format::Clients => "an object",
        }
    }
}

fn push(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(problem);
    }
}
