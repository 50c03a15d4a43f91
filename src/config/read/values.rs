//! Reads the values of single keys: those that are declared as [`Key`], and durations, sizes, names, patterns and texts with `${…}`.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;

use super::super::Address;
use super::super::daemon::{DaemonConfig, NAMING_KEYS};
use super::super::diagnostic::Spanned;
use super::super::interpolate::{Template, TemplateError};
use super::super::keys::{Key, KeyKind, KeyLayer, KeyValue, NO_LIMIT};
use super::super::tree::{Entry, Node, Problem, Value};
use super::super::value_types::{Choice, in_binary_units, parse_size, size_text};
use super::super::{Secrets, Settings};
use super::Format;
use super::reader::{Fields, Reader};
use crate::naming::is_server_name;
use crate::policy;

/// Maximum timeout. A longer one could overflow when added to the clock.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Reader<'_> {
    pub(super) fn duration(&mut self, entry: &Entry) -> Option<Duration> {
        self.duration_of(&entry.node, &entry.key)
    }

    /// Reads the duration of the key `key`.
    pub(super) fn duration_of(&mut self, node: &Node, key: &str) -> Option<Duration> {
        let what = format!("`{key}`");
        let Value::String(text) = &node.value else {
            let mut help = self.assignment(key, &self.seconds(node));
            if let Value::Integer(number @ 1000..) = node.value {
                help += &format!("; if it is milliseconds, \"{number}ms\"");
            }
            let expected = match self.format {
                Format::Variable => "a duration with its unit",
                Format::Native | Format::Foreign(_) => "a duration in quotes",
            };
            self.wrong_type(node, &what, expected, help);
            return None;
        };
        let complaint = match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => "must be longer than nothing".to_owned(),
            Ok(duration) if duration > MAX_DURATION => "must be at most a year".to_owned(),
            Ok(duration) => return Some(duration),
            Err(error) => format!("is no duration: {error}"),
        };
        let help = "write a number with a unit, such as `\"500ms\"`, `\"30s\"` or `\"5m\"`";
        self.error(Problem::new(node.span.clone(), format!("{what} {complaint}")).help(help));
        None
    }

    /// Suggests seconds for a bare number.
    fn seconds(&self, node: &Node) -> String {
        match node.value {
            Value::Integer(1..) => format!("\"{}s\"", self.source(node, "30")),
            _ => "\"30s\"".to_owned(),
        }
    }

    /// Reads a number of bytes, or a text such as `16MiB`.
    pub(super) fn size(&mut self, entry: &Entry, range: &RangeInclusive<u64>, example: &str) -> Option<usize> {
        let what = format!("`{}`", entry.key);
        let help = self.assignment(&entry.key, example);
        let bytes = match &entry.node.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => {
                let Some(bytes) = parse_size(text) else {
                    let fitted = in_binary_units(text).map(|size| self.assignment(&entry.key, &format!("\"{size}\"")));
                    let help = fitted.unwrap_or(help);
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
            let complaint = format!("{what} must be from {} to {}", size_text(*range.start()), size_text(*range.end()));
            self.error(Problem::new(entry.node.span.clone(), complaint).help(help));
        }
        fitting
    }

    pub(super) fn integer(&mut self, entry: &Entry, range: &RangeInclusive<usize>, example: &str) -> Option<usize> {
        let what = format!("`{}` must be an absolute number from {} to {}", entry.key, range.start(), range.end());
        let quoted = entry.node.text().filter(|text| text.parse().is_ok_and(|number| range.contains(&number)));
        let help = self.assignment(&entry.key, quoted.unwrap_or(example));
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

    /// Reads one of the names of an enum.
    pub(super) fn choice<C: Choice>(&mut self, node: &Node, key: &'static str) -> Option<C> {
        let text = self.string(node, &format!("`{key}`"))?;
        let names: Vec<_> = C::NAMES.iter().map(|(name, _)| *name).collect();
        C::of_word(self.one_of(node, text, key, &names)?)
    }

    /// Reads the absolute path of a file, and expands it.
    pub(super) fn file_path(&mut self, entry: &Entry, example: &str) -> Option<PathBuf> {
        let what = format!("`{}`", entry.key);
        let help = self.assignment(&entry.key, example) + ", or begin it with `/`";
        let path = self.interpolated_path(&entry.node, &what, &help)?;
        if path.is_absolute() {
            return Some(path);
        }
        self.error(Problem::new(entry.node.span.clone(), format!("{what} must be an absolute path")).help(help));
        None
    }

    /// Reads a path, and expands it.
    pub(super) fn interpolated_path(&mut self, node: &Node, what: &str, help: &str) -> Option<PathBuf> {
        let template = self.path_template(node, what)?;
        self.interpolated(node, &template, what, help).map(PathBuf::from)
    }

    /// Expands a text that must not contain secrets, because many messages print it.
    fn interpolated(&mut self, node: &Node, template: &Spanned<Template>, what: &str, help: &str) -> Option<String> {
        let mut secrets = Secrets::default();
        let complaint = match template.value.interpolate(self.sources, &mut secrets) {
            Ok(text) if text.is_empty() => format!("{what} is empty"),
            Ok(_) if !secrets.is_empty() => format!("{what} cannot come from a file or a credential"),
            Ok(text) => return Some(text),
            Err(undefined) => format!("{what} cannot be filled in: {undefined}"),
        };
        self.error(Problem::new(node.span.clone(), complaint).help(help));
        None
    }

    /// The same for a path that must be absolute.
    pub(super) fn absolute_interpolated_path(&mut self, node: &Node, what: &str, help: &str) -> Option<PathBuf> {
        let path = self.interpolated_path(node, what, help)?;
        if !path.is_absolute() {
            self.error(Problem::new(node.span.clone(), format!("{what} must be an absolute path")).help(help));
            return None;
        }
        Some(path)
    }

    /// Reads the URL of another program, and expands it.
    fn endpoint(&mut self, entry: &Entry, example: &str) -> Option<Arc<str>> {
        let (what, node) = (format!("`{}`", entry.key), &entry.node);
        let help = self.assignment(&entry.key, example);
        let template = self.template(node, &what)?;
        let template = self.without_programs(node, &what, template)?;
        let text = self.interpolated(node, &template, &what, &help)?;
        let Err(complaint) = Address::parse(&text) else { return Some(text.into()) };
        self.error(Problem::new(node.span.clone(), format!("{what} {complaint}")).help(help));
        None
    }

    /// Reads a list of names of environment variables.
    pub(super) fn variable_names(&mut self, entry: &Entry) -> Vec<Spanned<String>> {
        let mut names = Vec::new();
        for (node, name) in self.strings(entry, r#"["SSH_AUTH_SOCK"]"#) {
            if is_variable_name(name) {
                names.push(self.spanned(node, name.to_owned()));
            } else {
                let help = "write the name alone, such as `\"SSH_AUTH_SOCK\"`; a value of your own belongs in `env`";
                self.error(Problem::new(node.span.clone(), not_a_variable(name)).help(help));
            }
        }
        names
    }

    pub(super) fn patterns(&mut self, entry: &Entry) -> Vec<Spanned<Glob>> {
        let texts = self.strings(entry, r#"["read_*"]"#);
        let mut patterns = Vec::new();
        for (node, text) in texts {
            patterns.extend(self.pattern(&node.span, text).map(|glob| self.spanned(node, glob)));
        }
        patterns
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

    /// Parses the references of a text.
    pub(super) fn template(&mut self, node: &Node, what: &str) -> Option<Spanned<Template>> {
        let text = self.string(node, what)?;
        self.well_formed(node, Template::parse(text))
    }

    /// Parses a path, which may begin with `~/`.
    pub(super) fn path_template(&mut self, node: &Node, what: &str) -> Option<Spanned<Template>> {
        let text = self.string(node, what)?;
        self.well_formed(node, Template::parse_path(text))
            .and_then(|template| self.without_programs(node, what, template))
    }

    /// Refuses references to programs, which only texts that a start needs may have.
    pub(super) fn without_programs(
        &mut self,
        node: &Node,
        what: &str,
        template: Spanned<Template>,
    ) -> Option<Spanned<Template>> {
        if !template.value.runs_programs() {
            return Some(template);
        }
        let problem = Problem::new(node.span.clone(), format!("{what} cannot have a `${{cmd:…}}`"));
        self.error(problem.help("use it in `args`, `env`, `url` or `headers`"));
        None
    }

    fn well_formed(&mut self, node: &Node, parsed: Result<Template, TemplateError>) -> Option<Spanned<Template>> {
        let malformed = match parsed {
            Ok(template) => return Some(self.spanned(node, template)),
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

impl Reader<'_> {
    pub(super) fn daemon_keys(&mut self, fields: &mut Fields<'_>) -> KeyLayer {
        let mut layer = self.keys(fields, NAMING_KEYS.iter());
        layer.extend(self.keys(fields, DaemonConfig::KEYS.iter()));
        layer
    }

    /// The settings of a server, or of `[defaults]`.
    pub(super) fn settings(&mut self, fields: &mut Fields<'_>, is_server: bool) -> KeyLayer {
        let layer = self.keys(fields, Settings::KEYS.iter().filter(|key| is_server || !key.rule.is_server_only));
        self.check_call_timeouts(&layer);
        layer
    }

    pub(super) fn keys<'k, T: Default + 'static>(
        &mut self,
        fields: &mut Fields<'_>,
        keys: impl Iterator<Item = &'k Key<T>>,
    ) -> KeyLayer {
        let value =
            |key: &Key<T>| Some((key.name, self.key(fields, key.name, |reader, entry| reader.key_value(entry, key))?));
        keys.filter_map(value).collect()
    }

    fn key_value<T: Default>(&mut self, entry: &Entry, key: &Key<T>) -> Option<KeyValue> {
        match &key.rule.kind {
            _ if key.rule.may_be_none && matches!(&entry.node.value, Value::String(text) if text == NO_LIMIT) => {
                Some(KeyValue::NoLimit)
            }
            KeyKind::Flag => self.boolean(entry).map(KeyValue::Flag),
            KeyKind::FlagOrText => self.flag_or_text(entry),
            KeyKind::Count(range) => self.integer(entry, range, &key.sample()).map(KeyValue::Number),
            KeyKind::Size(range) => self.size(entry, range, &key.sample()).map(KeyValue::Number),
            KeyKind::Duration(least) => {
                let duration = self.duration(entry)?;
                if duration < *least {
                    let message = format!("`{}` must be at least {}", entry.key, crate::duration::format(*least));
                    let help = self.assignment(&entry.key, &key.sample());
                    self.error(Problem::new(entry.node.span.clone(), message).help(help));
                    return None;
                }
                Some(KeyValue::Duration(duration))
            }
            KeyKind::Choice(names) => {
                let text = self.string(&entry.node, &format!("`{}`", entry.key))?;
                self.one_of(&entry.node, text, key.name, &names()).map(KeyValue::Choice)
            }
            KeyKind::Url => self.endpoint(entry, &key.sample()).map(KeyValue::Text),
            KeyKind::Path => self.file_path(entry, &key.sample()).map(KeyValue::Path),
            KeyKind::Sandbox => self.sandbox(entry).map(KeyValue::Sandbox),
            KeyKind::ToolTimeouts => Some(KeyValue::ToolTimeouts(self.tool_timeouts(entry))),
        }
    }

    fn flag_or_text(&mut self, entry: &Entry) -> Option<KeyValue> {
        match &entry.node.value {
            Value::Bool(flag) => Some(KeyValue::Flag(*flag)),
            Value::String(text) => Some(KeyValue::Text(text.as_str().into())),
            _ => {
                let help = self.assignment(&entry.key, "false");
                self.wrong_type(&entry.node, &format!("`{}`", entry.key), "true, false or a text", help);
                None
            }
        }
    }

    fn tool_timeouts(&mut self, entry: &Entry) -> Vec<Spanned<(globset::Glob, Duration)>> {
        let help = "write `tool_timeouts = { \"slow_*\" = \"10m\" }`";
        let mut timeouts = Vec::new();
        for entry in self.table(&entry.node, "`tool_timeouts`", help) {
            let glob = self.pattern(&entry.key_span, &entry.key);
            let timeout = self.duration_of(&entry.node, &format!("\"{}\"", entry.key.escape_debug()));
            timeouts.extend(glob.zip(timeout).map(|value| self.spanned(&entry.node, value)));
        }
        timeouts
    }

    /// Refuses timeouts above the `call_timeout_max` of the same table, which would never apply.
    fn check_call_timeouts(&mut self, layer: &KeyLayer) {
        let Some(max) = layer.duration("call_timeout_max") else { return };
        let call_timeout = layer.get("call_timeout").map(|timeout| ("call_timeout", &timeout.location));
        let mut too_long: Vec<_> =
            call_timeout.into_iter().filter(|_| layer.duration("call_timeout") > Some(max)).collect();
        let by_tool = layer.tool_timeouts().iter().filter(|timeout| timeout.value.1 > max);
        too_long.extend(by_tool.map(|timeout| (timeout.value.0.glob(), &timeout.location)));
        for (key, location) in too_long {
            let message = format!("`{}` is longer than `call_timeout_max`", key.escape_debug());
            let help = "shorten it, or raise `call_timeout_max`, which limits every call";
            self.error(Problem::new(location.span.clone(), message).help(help));
        }
    }
}

impl Reader<'_> {
    pub(super) fn server_name(&mut self, entry: &Entry) -> Option<Arc<str>> {
        if is_server_name(&entry.key) {
            return Some(Arc::from(entry.key.as_str()));
        }
        let message = format!("`{}` cannot name a server", entry.key.escape_debug());
        let help = format!(
            "write `{}`: a name is letters A to Z, digits and `-`, with single `_` between them",
            fitted_name(&entry.key, "server")
        );
        self.error(Problem::new(entry.key_span.clone(), message).help(help));
        None
    }
}

/// A valid name similar to `name`. `otherwise` if no character of it is usable.
pub(crate) fn fitted_name(name: &str, otherwise: &str) -> String {
    let fitting = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    let fitted: String = fitting.collect();
    let parts = fitted.split('_').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty());
    let joined = parts.collect::<Vec<_>>().join("_");
    if joined.is_empty() { otherwise.to_owned() } else { joined }
}
