//! The stderr of a server: always read, and stored in one bounded ring for all its instances.
//!
//! [`read_lines`] reads lines from the pipe, [`ring`] stores them, [`crash`] finds those that explain a crash, and [`copy`] writes a few
//! of them to mcpd's own log.
//!
//! ```text
//! instance ── read_lines ─┐
//! instance ── read_lines ─┴─► ring (full: drops the oldest lines) ◄── Reader: a position in it
//! ```
//!
//! A reader holds a position in the ring and continues from there when it has time. A slow reader does not slow the server down:
//! it misses the lines that were dropped meanwhile, and learns their number.

mod copy;
mod crash;
mod read_lines;
mod ring;

pub(crate) use self::read_lines::Writer;
pub use self::ring::{Log, Reader};
