//! The stderr of a server: always read, and stored in one bounded ring for all its instances.
//!
//! [`read_lines`] reads lines from the pipe, [`ring`] stores them, and [`crash`] finds those that explain a crash. This file copies a limited
//! number of them to what outlives the daemon, and to mcpd's own log at level debug.
//!
//! ```text
//! instance ── read_lines ─┐
//! instance ── read_lines ─┴─► ring (full: drops the oldest lines) ◄── Reader: a position in it
//! ```
//!
//! A reader holds a position in the ring and continues from there when it has time. A slow reader does not slow the server down:
//! it misses the lines that were dropped meanwhile, and learns their number.

mod crash;
mod read_lines;
mod ring;

use std::time::{Duration, Instant};

pub(crate) use self::read_lines::Writer;
pub use self::ring::{Log, Reader};
use crate::clock::{Moment, WallClockAnchor};
use crate::config::Secrets;
use crate::logging::{ServerLine, ServerOutput};
use crate::masking::KnownSecrets;
use crate::printable::beginning;

/// Maximum lines of one instance to copy in each period. The rest is counted.
const COPIES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum characters to copy of a line.
const MAX_LINE_LEN: usize = 500;
/// Characters of a line that are searched for secrets. What is copied of it ends before.
const MAX_MASKED_LEN: usize = 4096;

/// Copies lines of one process. If nobody keeps them, a line costs two checks.
pub(super) struct Copier<'a> {
    server: &'a str,
    purpose: Option<&'a str>,
    pid: u32,
    output: &'a ServerOutput,
    secrets: &'a Secrets,
    known: &'a KnownSecrets,
    period: Option<Instant>,
    copied: u32,
    withheld: u64,
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        server: &'a str,
        purpose: Option<&'a str>,
        pid: u32,
        output: &'a ServerOutput,
        (secrets, known): (&'a Secrets, &'a KnownSecrets),
    ) -> Self {
        Self { server, purpose, pid, output, secrets, known, period: None, copied: 0, withheld: 0 }
    }

    pub(super) fn copy(&mut self, text: &str) {
        if !self.output.keeps() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let now = Instant::now();
        if self.period.is_none_or(|began| now.duration_since(began) >= PERIOD) {
            if self.withheld > 0 {
                self.write(&format!("… {} lines are not shown here", self.withheld));
            }
            (self.period, self.copied, self.withheld) = (Some(now), 0, 0);
        }
        if self.copied == COPIES {
            self.withheld += 1;
            return;
        }
        self.copied += 1;
        let read = beginning(text, MAX_MASKED_LEN);
        let (mask, is_cut) = (self.known.mask_of_known(), read.len() < text.len());
        let masked = if is_cut { mask.apply_to_cut(read) } else { mask.apply(read) };
        let masked = self.secrets.masked(&masked.text);
        let shown = beginning(&masked, MAX_LINE_LEN);
        let sign = if is_cut || shown.len() < masked.len() { "…" } else { "" };
        self.write(&format!("{shown}{sign}"));
    }

    fn write(&self, text: &str) {
        let Self { server, purpose, pid, .. } = *self;
        if !self.output.is_journal() {
            tracing::debug!(server, instance = purpose, "stderr: {text}");
        }
        if self.output.keeps() {
            let time = humantime::format_rfc3339_millis(WallClockAnchor::now().time_of(Moment::now())).to_string();
            self.output.keep(&ServerLine { time, server, pid, purpose, text });
        }
    }
}
