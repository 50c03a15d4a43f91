//! JSON-RPC 2.0 as lines of raw bytes.
//!
//! - Framing: [`codec`]. Envelope: [`message`], [`normalise`], [`oversize`].
//! - Reading: [`scan`] walks over JSON text, [`members`] finds members of objects, [`json_eq`] compares values.
//! - Writing: [`splice`] replaces parts of a line and edits members, [`reply`] and [`mcpd_error`] build mcpd's answers.
//! - [`pending`] is the table of unanswered requests.
//!
//! A message is never decoded into a model. The envelope and a few members are found by byte range; all other bytes pass unchanged.
//!
//! Pure functions of bytes. The only MCP knowledge is its error codes, the only use of tokio the codec's traits.

pub mod codec;
pub mod json_eq;
pub mod mcpd_error;
pub mod members;
pub mod message;
pub mod normalise;
pub mod oversize;
pub mod pending;
pub mod reply;
mod scan;
pub mod splice;
#[cfg(test)]
pub(crate) mod tests;

pub use self::message::{Message, MessageError, error_in, is_id, parse};
