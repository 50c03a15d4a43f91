//! The stderr of a server: always drained, and stored in one bounded ring for all its instances.
//!
//! [`drain`] reads lines from the pipe, [`ring`] stores them, and [`copy`] writes a few of them to mcpd's own log.
//!
//! ```text
//! instance ── drain ─┐
//! instance ── drain ─┴─► ring (full: drops the oldest lines) ◄── Reader: a position in it
//! ```
//!
//! A reader holds a position in the ring and continues from there when it has time. A slow reader does not slow the server down:
//! it misses the lines that were dropped meanwhile, and learns their number.

mod copy;
mod drain;
mod ring;

pub(crate) use self::drain::Writer;
pub use self::ring::{Log, Reader};
