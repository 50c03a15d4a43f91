//! How long calls may take: `call_timeout`, `tool_timeouts`, and the `call_timeout_max` over both.

use std::time::Duration;

use super::super::layer::CallTimeouts;
use super::super::tree::{Entry, Problem};
use super::Reader;
use super::fields::Fields;

impl Reader<'_> {
    pub(super) fn call_timeouts(&mut self, fields: &mut Fields<'_>) -> CallTimeouts {
        let call_timeout_max = self.key(fields, "call_timeout_max", Self::duration);
        let most = call_timeout_max.as_ref().map(|most| most.value);
        let call_timeout = self.key(fields, "call_timeout", |reader, entry| {
            reader.duration(entry).inspect(|timeout| reader.within(most, entry, *timeout))
        });
        let mut tool_timeouts = Vec::new();
        if let Some(entry) = fields.take("tool_timeouts") {
            let help = "write `tool_timeouts = { \"slow_*\" = \"10m\" }`";
            for entry in self.table(&entry.node, "`tool_timeouts`", help) {
                let glob = self.pattern(&entry.key_span, &entry.key);
                let timeout = self.duration_of(&entry.node, &format!("\"{}\"", entry.key.escape_debug()));
                let Some((glob, timeout)) = glob.zip(timeout) else { continue };
                self.within(most, entry, timeout);
                tool_timeouts.push(self.spanned(&entry.node, (glob, timeout)));
            }
        }
        CallTimeouts { call_timeout, call_timeout_max, tool_timeouts }
    }

    /// Of two keys side by side one would never hold.
    fn within(&mut self, most: Option<Duration>, entry: &Entry, timeout: Duration) {
        if most.is_some_and(|most| most < timeout) {
            let message = format!("`{}` is longer than `call_timeout_max`", entry.key.escape_debug());
            let help = "shorten it, or raise `call_timeout_max`: no call takes longer than that";
            self.error(Problem::new(entry.node.span.clone(), message).help(help));
        }
    }
}
