//! What a server writes to stderr: always drained, kept in one bounded ring for all its instances.
//!
//! Lives here: lines as they are read from the pipe ([`drain`]), the ring and those who look at it ([`ring`]), and a few of the
//! lines in mcpd's own log ([`copy`]). Must not touch: who looks, and why.
//!
//! ```text
//! instance ── drain ─┐
//! instance ── drain ─┴─► ring (full: the oldest lines make room) ◄── Reader: a place in it
//! ```
//!
//! Nobody is handed lines: whoever looks keeps a place in the ring and goes on from there when it has time. One that is slow
//! costs the server nothing, loses what made room meanwhile, and learns how much that was.

mod copy;
mod drain;
mod ring;

pub(crate) use self::drain::Writer;
pub use self::ring::{Log, Reader};
