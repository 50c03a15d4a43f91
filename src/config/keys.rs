//! Declarations of configuration keys.
//!
//! A [`Key`] is the only place that knows a key: its name, type, documentation, default, and the field that it sets. Reading,
//! layering, `mcpd check`, the suggestions for unknown keys, the JSON Schema and `config/mcpd.toml` use it.
//!
//! The kinds of values are here, too: words, sizes such as `512MiB`, and the time limits of tools.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobMatcher};

use super::diagnostic::Spanned;
use super::sandbox::Sandbox;
use super::serialize::toml_string;

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
    Duration,
    /// One of these names.
    Choice(fn() -> Vec<&'static str>),
    /// An absolute path with `${…}`.
    Path,
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
pub(super) const DURATION: Rule = Rule::new(KeyKind::Duration);
pub(super) const PATH: Rule = Rule::new(KeyKind::Path);
pub(super) const SANDBOX: Rule = Rule::new(KeyKind::Sandbox);
pub(super) const TOOL_TIMEOUTS: Rule = Rule::new(KeyKind::ToolTimeouts);

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
            KeyValue::Sandbox(sandbox) => sandbox.toml(),
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

/// An enum whose variants have names in a configuration.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];

    fn of_word(word: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == word).map(|(_, choice)| *choice)
    }

    /// `None` only for a variant that cannot be configured.
    fn word(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map(|(word, _)| *word)
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

const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a size in bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The size that a text such as `1GB`, `64 mb` or `2g` means most probably.
pub(super) fn in_binary_units(text: &str) -> Option<String> {
    let (number, unit) = text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit())?);
    let initial = unit.trim().get(..1)?.to_uppercase();
    let is_unit = ["", "B", "IB"].contains(&&*unit.trim()[1..].to_uppercase());
    let (name, _) = SIZE_UNITS.iter().find(|(name, _)| is_unit && name.starts_with(&initial))?;
    (!number.is_empty()).then(|| format!("{number}{name}"))
}

/// Prints a size in the largest unit that divides it.
#[must_use]
pub(crate) fn size_text(bytes: u64) -> String {
    let unit = SIZE_UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

/// The time limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// Maximum time without an answer or progress. At most `total`.
    pub progress_timeout: Duration,
    /// Maximum total time, independent of progress.
    pub total: Duration,
}

/// Timeouts of some tools that replace `call_timeout`, by globs on tool names of the server. The first match applies.
#[derive(Debug, Clone, Default)]
pub struct ToolTimeouts(Vec<(GlobMatcher, Duration)>);

impl ToolTimeouts {
    /// The timeouts, in order.
    pub fn new(timeouts: impl IntoIterator<Item = (Glob, Duration)>) -> Self {
        Self(timeouts.into_iter().map(|(glob, timeout)| (glob.compile_matcher(), timeout)).collect())
    }

    /// The timeout of a tool. `None` if no glob matches.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<Duration> {
        self.0.iter().find(|(glob, _)| glob.is_match(tool)).map(|(_, timeout)| *timeout)
    }

    /// The longest timeout. `None` if there are none.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.0.iter().map(|(_, timeout)| *timeout).max().unwrap_or_default()
    }

    fn patterns(&self) -> impl Iterator<Item = (&Glob, Duration)> {
        self.0.iter().map(|(glob, timeout)| (glob.glob(), *timeout))
    }
}

impl PartialEq for ToolTimeouts {
    fn eq(&self, other: &Self) -> bool {
        self.patterns().eq(other.patterns())
    }
}

impl Eq for ToolTimeouts {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pattern;

    #[test]
    fn size_is_printed_in_its_input_syntax() {
        for (bytes, shown) in [(512 << 20, "512MiB"), (1 << 40, "1024GiB"), (1536 << 10, "1536KiB"), (1000, "1000B")] {
            assert_eq!(size_text(bytes), shown);
            assert_eq!(parse_size(shown), Some(bytes));
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn timeouts(all: &[(&str, u32)]) -> ToolTimeouts {
        ToolTimeouts::new(all.iter().map(|(text, seconds)| (pattern(text).expect("a glob"), *seconds * SECOND)))
    }

    #[test]
    fn the_first_that_matches_counts() {
        let own = timeouts(&[("slow_build", 3), ("slow_*", 2)]);
        assert_eq!(own.of("slow_build"), Some(3 * SECOND));
        assert_eq!(own.of("slow_test"), Some(2 * SECOND));
        assert_eq!((own.of("fast"), own.of("Slow_test")), (None, None));
        assert_eq!(own.longest(), 3 * SECOND);
    }

    #[test]
    fn they_are_the_same_if_they_say_the_same_in_the_same_order() {
        assert_eq!(timeouts(&[("a", 1), ("b", 2)]), timeouts(&[("a", 1), ("b", 2)]));
        assert_ne!(timeouts(&[("a", 1), ("b", 2)]), timeouts(&[("b", 2), ("a", 1)]));
        assert_ne!(timeouts(&[("a", 1)]), timeouts(&[("a", 2)]));
    }
}
