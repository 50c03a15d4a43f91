//! Single values: durations, sizes, names of variables, patterns, texts with `${…}`.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::Glob;

use super::super::interpolate::{Malformed, Template};
use super::super::notes::What;
use super::super::tree::{Entry, Node, Problem, Value};
use super::super::{Secrets, size};
use super::Reader;
use crate::kind::Kind;
use crate::policy;

/// Longest timeout; beyond it a sum with the clock could overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Reader<'_> {
    pub(super) fn duration(&mut self, entry: &Entry) -> Option<Duration> {
        self.duration_of(&entry.node, &entry.key)
    }

    /// That of the key which is spelt `key`.
    pub(super) fn duration_of(&mut self, node: &Node, key: &str) -> Option<Duration> {
        let what = format!("`{key}`");
        let Value::String(text) = &node.value else {
            let help = self.assignment(key, &self.seconds(node));
            self.wrong_type(node, &what, "a duration in quotes", help);
            return None;
        };
        let complaint = match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => "must be longer than nothing".to_owned(),
            Ok(duration) if duration > LONGEST => "must be at most a year".to_owned(),
            Ok(duration) => return Some(duration),
            Err(error) => format!("is no duration: {error}"),
        };
        let help = "write a number with a unit, such as `\"500ms\"`, `\"30s\"` or `\"5m\"`";
        self.error(Problem::new(node.span.clone(), format!("{what} {complaint}")).help(help));
        None
    }

    /// A bare number is most likely meant as seconds.
    fn seconds(&self, node: &Node) -> String {
        match node.value {
            Value::Integer(1..) => format!("\"{}s\"", self.source(node, "30")),
            _ => "\"30s\"".to_owned(),
        }
    }

    /// A number of bytes, or a text such as `16MiB`.
    pub(super) fn size(&mut self, entry: &Entry, range: RangeInclusive<u64>, example: &str) -> Option<usize> {
        let what = format!("`{}`", entry.key);
        let help = self.assignment(&entry.key, &format!("\"{example}\""));
        let bytes = match &entry.node.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => {
                let Some(bytes) = size::parse(text) else {
                    let complaint = format!("{what} is no size: a number with `KiB`, `MiB` or `GiB` is one");
                    self.error(Problem::new(entry.node.span.clone(), complaint).help(help));
                    return None;
                };
                Some(bytes)
            }
            _ => {
                self.wrong_type(&entry.node, &what, "a size", help);
                return None;
            }
        };
        let fitting = bytes.filter(|bytes| range.contains(bytes)).and_then(|bytes| bytes.try_into().ok());
        if fitting.is_none() {
            let complaint =
                format!("{what} must be from {} to {}", size::text(*range.start()), size::text(*range.end()));
            self.error(Problem::new(entry.node.span.clone(), complaint).help(help));
        }
        fitting
    }

    pub(super) fn integer(&mut self, entry: &Entry, range: RangeInclusive<usize>, default: usize) -> Option<usize> {
        let what = format!("`{}` must be a whole number from {} to {}", entry.key, range.start(), range.end());
        let help = self.assignment(&entry.key, &default.to_string());
        let Value::Integer(number) = entry.node.value else {
            let problem = Problem::new(entry.node.span.clone(), what);
            self.error(problem.label(format!("this is {}", entry.node.value.type_name())).help(help));
            return None;
        };
        let fitting = usize::try_from(number).ok().filter(|number| range.contains(number));
        if fitting.is_none() {
            self.error(Problem::new(entry.node.span.clone(), what).help(help));
        }
        fitting
    }

    /// The whole path of a file, filled in.
    pub(super) fn file_path(&mut self, entry: &Entry, example: &str) -> Option<PathBuf> {
        let what = format!("`{}`", entry.key);
        let filled = match self.path_template(&entry.node, &what)?.fill(self.sources, &mut Secrets::default()) {
            Ok(text) if Path::new(&text).is_absolute() => return Some(text.into()),
            Ok(_) => format!("{what} must be a whole path"),
            Err(undefined) => format!("{what} cannot be filled in: {undefined}"),
        };
        let help = self.assignment(&entry.key, &format!("\"{example}\"")) + ", or begin it with `/`";
        self.error(Problem::new(entry.node.span.clone(), filled).help(help));
        None
    }

    /// Names of environment variables.
    pub(super) fn variable_names(&mut self, entry: &Entry) -> Vec<String> {
        let mut names = Vec::new();
        for (node, name) in self.strings(entry, r#"["SSH_AUTH_SOCK"]"#) {
            if is_variable_name(name) {
                names.push(name.to_owned());
            } else {
                let help = "write the name alone, such as `\"SSH_AUTH_SOCK\"`; a value of your own belongs in `env`";
                self.error(Problem::new(node.span.clone(), not_a_variable(name)).help(help));
            }
        }
        names
    }

    pub(super) fn patterns(&mut self, kind: Kind, entry: &Entry) -> Vec<Glob> {
        let texts = self.strings(entry, r#"["read_*"]"#);
        let globs: Vec<_> =
            texts.into_iter().filter_map(|(node, text)| Some((node, self.pattern(&node.span, text)?))).collect();
        for (node, glob) in &globs {
            self.notes.add(&node.span, What::Pattern(kind, glob.clone()));
        }
        globs.into_iter().map(|(_, glob)| glob).collect()
    }

    pub(super) fn pattern(&mut self, span: &Range<usize>, text: &str) -> Option<Glob> {
        match policy::pattern(text) {
            Ok(glob) => Some(glob),
            Err(error) => {
                let message = format!("`{}` is no pattern: {}", text.escape_debug(), error.kind());
                let help = r"a pattern is text with `*`, `?`, `[a-z]` or `{a,b}`; `\` before one makes it literal";
                self.error(Problem::new(span.clone(), message).help(help));
                None
            }
        }
    }

    /// A text with its references found.
    pub(super) fn template(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = self.string(node, what)?;
        self.well_formed(node, Template::parse(text))
    }

    /// The same for a path, which may begin with `~/`.
    pub(super) fn path_template(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = self.string(node, what)?;
        self.well_formed(node, Template::parse_path(text))
    }

    fn well_formed(&mut self, node: &Node, parsed: Result<Template, Malformed>) -> Option<Template> {
        let malformed = match parsed {
            Ok(template) => return Some(template),
            Err(malformed) => malformed,
        };
        self.error(Problem::new(node.span.clone(), malformed.message).help(malformed.help));
        None
    }
}

pub(super) fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

pub(super) fn not_a_variable(name: &str) -> String {
    match name {
        "" => "the name of a variable is empty".to_owned(),
        _ => format!("`{}` cannot name a variable", name.escape_debug()),
    }
}
