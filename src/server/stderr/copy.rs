//! Copies a few stderr lines of each server to mcpd's own log, at level debug.

use std::time::{Duration, Instant};

/// Maximum lines of one instance to copy in each period. The rest is counted.
const COPIES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum characters to copy of a line.
const MAX_LINE_LEN: usize = 500;

/// Copies lines at level debug. If that level is off, a line costs one check.
#[derive(Default)]
pub(super) struct Copier {
    period: Option<Instant>,
    copied: u32,
    withheld: u64,
}

impl Copier {
    pub(super) fn copy(&mut self, server: &str, purpose: Option<&str>, text: &str) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let now = Instant::now();
        if self.period.is_none_or(|began| now.duration_since(began) >= PERIOD) {
            if self.withheld > 0 {
                tracing::debug!(server, instance = purpose, "stderr: {} lines are not shown here", self.withheld);
            }
            *self = Self { period: Some(now), copied: 0, withheld: 0 };
        }
        if self.copied == COPIES {
            self.withheld += 1;
            return;
        }
        self.copied += 1;
        let end = text.char_indices().nth(MAX_LINE_LEN).map_or(text.len(), |(end, _)| end);
        let sign = if end < text.len() { "…" } else { "" };
        tracing::debug!(server, instance = purpose, "stderr: {}{sign}", &text[..end]);
    }
}
