//! Declarations of configuration keys.
//!
//! A [`Key`] is the only place that knows a key: its name, type, documentation, default, and the field that it sets. Reading,
//! layering, `mcpd check`, the suggestions for unknown keys, the JSON Schema and `config/mcpd.toml` use it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;

use super::diagnostic::Spanned;
use super::sandbox::Sandbox;
use super::serialize::{sandbox_text, toml_string};
use super::value_types::{Choice, ToolTimeouts, size_text};

/// The value of a limit that is turned off.
pub(super) const NO_LIMIT: &str = "none";

/// A key that sets one field of `T`. The default of the key is the field's value in `T::default()`.
pub(super) struct Key<T> {
    pub(super) name: &'static str,
    /// One or two sentences for the JSON Schema and `config/mcpd.toml`.
    #[cfg_attr(not(test), expect(dead_code, reason = "only a test reads it, to write the files"))]
    pub(super) doc: &'static str,
    pub(super) rule: Rule,
    pub(super) field: fn(&mut T) -> &mut dyn Field,
}

/// The type of a key's value, and where the key applies.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) kind: KeyKind,
    /// A value to suggest for a key without a default.
    example: Option<&'static str>,
    /// `"none"` is a value, too: there is no limit.
    pub(super) may_be_none: bool,
    /// The key is for `[servers.NAME]`, not for `[defaults]`.
    pub(super) is_server_only: bool,
    /// A change applies to running instances.
    pub(super) is_live: bool,
    /// Other values that the default depends on.
    pub(super) derived_from: Option<&'static str>,
}

/// The type of a key's value.
#[derive(Debug, Clone)]
pub(super) enum KeyKind {
    Flag,
    /// A flag, or a text.
    FlagOrText,
    Count(RangeInclusive<usize>),
    /// A number of bytes, or text such as `16MiB`.
    Size(RangeInclusive<u64>),
    /// At least this long.
    Duration(Duration),
    /// One of these names.
    Choice(fn() -> Vec<&'static str>),
    /// An absolute path with `${…}`.
    Path,
    /// A URL with `${…}`.
    Url,
    /// Durations by globs on tool names. The lists of all layers are joined.
    ToolTimeouts,
    /// A level, or a table with a level.
    Sandbox,
}

/// The value of a key.
#[derive(Debug, Clone)]
pub(super) enum KeyValue {
    Flag(bool),
    Text(Arc<str>),
    /// A count, or a size in bytes.
    Number(usize),
    Duration(Duration),
    Choice(&'static str),
    /// There is no limit.
    NoLimit,
    Path(PathBuf),
    ToolTimeouts(Vec<Spanned<(Glob, Duration)>>),
    Sandbox(Sandbox),
}

pub(super) const FLAG: Rule = Rule::new(KeyKind::Flag);
pub(super) const FLAG_OR_TEXT: Rule = Rule::new(KeyKind::FlagOrText);
pub(super) const DURATION: Rule = duration_from(Duration::ZERO);
pub(super) const PATH: Rule = Rule::new(KeyKind::Path);
pub(super) const URL: Rule = Rule::new(KeyKind::Url);
pub(super) const SANDBOX: Rule = Rule::new(KeyKind::Sandbox);
pub(super) const TOOL_TIMEOUTS: Rule = Rule::new(KeyKind::ToolTimeouts);

pub(super) const fn duration_from(least: Duration) -> Rule {
    Rule::new(KeyKind::Duration(least))
}

pub(super) const fn count(range: RangeInclusive<usize>) -> Rule {
    Rule::new(KeyKind::Count(range))
}

pub(super) const fn size(range: RangeInclusive<u64>) -> Rule {
    Rule::new(KeyKind::Size(range))
}

pub(super) const fn choice<C: Choice>() -> Rule {
    Rule::new(KeyKind::Choice(|| C::NAMES.iter().map(|(name, _)| *name).collect()))
}

impl Rule {
    const fn new(kind: KeyKind) -> Self {
        Self { kind, example: None, may_be_none: false, is_server_only: false, is_live: false, derived_from: None }
    }

    pub(super) const fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    pub(super) const fn or_none(mut self) -> Self {
        self.may_be_none = true;
        self
    }

    pub(super) const fn server_only(mut self) -> Self {
        self.is_server_only = true;
        self
    }

    pub(super) const fn live(mut self) -> Self {
        self.is_live = true;
        self
    }

    pub(super) const fn derived_from(mut self, keys: &'static str) -> Self {
        self.derived_from = Some(keys);
        self
    }
}

impl<T: Default> Key<T> {
    pub(super) fn default(&self) -> Option<KeyValue> {
        (self.field)(&mut T::default()).get()
    }

    /// A valid value as TOML: the default, or the example of a key without a default.
    pub(super) fn sample(&self) -> String {
        self.default().map(|value| self.serialize(&value)).or(self.rule.example.map(str::to_owned)).unwrap_or_default()
    }
}

impl<T> Key<T> {
    /// `value` as TOML. Tool timeouts are a table, which [`super::show`] writes line by line.
    pub(super) fn serialize(&self, value: &KeyValue) -> String {
        match value {
            KeyValue::Flag(flag) => flag.to_string(),
            KeyValue::Text(text) => toml_string(text),
            KeyValue::Number(bytes) if matches!(self.rule.kind, KeyKind::Size(_)) => {
                toml_string(&size_text(*bytes as u64))
            }
            KeyValue::Number(number) => number.to_string(),
            KeyValue::Duration(duration) => duration_text(*duration),
            KeyValue::Choice(name) => toml_string(name),
            KeyValue::NoLimit => toml_string(NO_LIMIT),
            KeyValue::Path(path) => toml_string(&path.to_string_lossy()),
            KeyValue::ToolTimeouts(_) => "{}".to_owned(),
            KeyValue::Sandbox(sandbox) => sandbox_text(sandbox),
        }
    }
}

pub(super) fn duration_text(duration: Duration) -> String {
    toml_string(&crate::duration::format(duration))
}

/// The values that one layer sets, by key.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyLayer(BTreeMap<&'static str, Spanned<KeyValue>>);

impl KeyLayer {
    /// Adds other keys of the same file.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Spanned<KeyValue>> {
        self.0.get(name)
    }

    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        match self.get(name)?.value {
            KeyValue::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    pub(super) fn tool_timeouts(&self) -> &[Spanned<(Glob, Duration)>] {
        match self.get("tool_timeouts").map(|timeouts| &timeouts.value) {
            Some(KeyValue::ToolTimeouts(timeouts)) => timeouts,
            _ => &[],
        }
    }

    /// This layer on top of `lower`.
    pub(super) fn merge(mut self, lower: Self) -> Self {
        for (name, below) in lower.0 {
            match (self.0.get_mut(name).map(|above| &mut above.value), below.value) {
                (Some(KeyValue::ToolTimeouts(above)), KeyValue::ToolTimeouts(below)) => above.extend(below),
                (Some(_), _) => {}
                (None, value) => drop(self.0.insert(name, Spanned { value, ..below })),
            }
        }
        self
    }

    /// `base` with the values of this layer.
    pub(super) fn apply<T>(&self, keys: &[Key<T>], mut base: T) -> T {
        for key in keys {
            if let Some(Spanned { value, .. }) = self.get(key.name) {
                (key.field)(&mut base).set(value);
            }
        }
        base
    }
}

impl FromIterator<(&'static str, Spanned<KeyValue>)> for KeyLayer {
    fn from_iter<I: IntoIterator<Item = (&'static str, Spanned<KeyValue>)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A field that a key sets. A value of another type leaves it as it is; the reader never produces one.
pub(super) trait Field {
    fn set(&mut self, value: &KeyValue);
    /// The value, unless the field is an empty option.
    fn get(&self) -> Option<KeyValue>;
}

/// Fields of a type that one kind of value has, and options of it.
macro_rules! fields {
    ($($type:ty, $kind:ident;)+) => {
        $(impl Field for $type {
            fn set(&mut self, value: &KeyValue) {
                if let KeyValue::$kind(value) = value {
                    self.clone_from(value);
                }
            }

            fn get(&self) -> Option<KeyValue> {
                Some(KeyValue::$kind(self.clone()))
            }
        }

        impl Field for Option<$type> {
            fn set(&mut self, value: &KeyValue) {
                if let KeyValue::$kind(value) = value {
                    *self = Some(value.clone());
                }
            }

            fn get(&self) -> Option<KeyValue> {
                self.clone().map(KeyValue::$kind)
            }
        })+
    };
}

fields! {
    bool, Flag;
    usize, Number;
    Duration, Duration;
    Arc<str>, Text;
    PathBuf, Path;
    Sandbox, Sandbox;
}

impl Field for ToolTimeouts {
    fn set(&mut self, value: &KeyValue) {
        if let KeyValue::ToolTimeouts(timeouts) = value {
            *self = Self::new(timeouts.iter().map(|timeout| timeout.value.clone()));
        }
    }

    fn get(&self) -> Option<KeyValue> {
        Some(KeyValue::ToolTimeouts(Vec::new()))
    }
}

impl<C: Choice> Field for C {
    fn set(&mut self, value: &KeyValue) {
        if let KeyValue::Choice(word) = value {
            *self = C::of_word(word).unwrap_or(*self);
        }
    }

    fn get(&self) -> Option<KeyValue> {
        self.word().map(KeyValue::Choice)
    }
}
