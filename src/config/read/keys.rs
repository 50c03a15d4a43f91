//! Reads keys that are declared as [`Key`]: `[daemon]`, the settings of `[defaults]` and servers, the naming and quotas of profiles.

use std::time::Duration;

use super::super::Settings;
use super::super::daemon::{DaemonConfig, NAMING_KEYS};
use super::super::keys::{Key, KeyKind, KeyLayer, KeyValue, NO_LIMIT};
use super::super::spanned::Spanned;
use super::super::tree::{Entry, Problem, Value};
use super::Reader;
use super::fields::Fields;

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
            KeyKind::Duration => self.duration(entry).map(KeyValue::Duration),
            KeyKind::Choice(names) => {
                let text = self.string(&entry.node, &format!("`{}`", entry.key))?;
                self.one_of(&entry.node, text, key.name, &names()).map(KeyValue::Choice)
            }
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
