//! How long calls may take: `call_timeout`, `tool_timeouts`, and the `call_timeout_max` over both.

use std::time::Duration;

use super::super::notes::What;
use super::super::settings::CallTimeouts;
use super::super::timeouts::ToolTimeouts;
use super::super::tree::{Entry, Problem};
use super::Reader;
use super::fields::Fields;
use crate::kind::Kind;

impl Reader<'_> {
    pub(super) fn call_timeouts(&mut self, fields: &mut Fields<'_>) -> CallTimeouts {
        let most = fields.take("call_timeout_max").and_then(|entry| self.duration(entry));
        let all = fields.take("call_timeout").and_then(|entry| Some((entry, self.duration(entry)?)));
        let mut by_tool = Vec::new();
        if let Some(entry) = fields.take("tool_timeouts") {
            let help = "write `tool_timeouts = { \"slow_*\" = \"10m\" }`";
            for entry in self.table(&entry.node, "`tool_timeouts`", help) {
                let glob = self.pattern(&entry.key_span, &entry.key);
                if let Some(glob) = &glob {
                    self.notes.add(&entry.key_span, What::Pattern(Kind::Tools, glob.clone()));
                }
                let timeout = self.duration_of(&entry.node, &format!("\"{}\"", entry.key.escape_debug()));
                by_tool.extend(glob.zip(timeout).map(|(glob, timeout)| (entry, glob, timeout)));
            }
        }
        let each = by_tool.iter().map(|(entry, _, timeout)| (*entry, *timeout));
        for (entry, timeout) in all.into_iter().chain(each).collect::<Vec<_>>() {
            self.within(most, entry, timeout);
        }
        CallTimeouts {
            call_timeout: all.map(|(_, timeout)| timeout),
            call_timeout_max: most,
            tool_timeouts: ToolTimeouts::new(by_tool.into_iter().map(|(_, glob, timeout)| (glob, timeout))),
        }
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
