//! JSON-RPC 2.0 as lines of raw bytes.
//!
//! Lives here: framing ([`codec`]), the envelope ([`message`]), batches ([`batch`]), a walk over JSON text ([`scan`]) to members of
//! objects ([`members`], [`entries`]), comparing values ([`json_eq`]), replacing fields in place ([`splice`]) and members of objects
//! ([`object_edit`]), the table of unanswered requests ([`pending`]), answers of our own ([`reply`]). Knows: nothing of MCP beyond its
//! error codes. Must not touch: tokio, except that the codec implements its traits. Everything is a function of bytes.
//!
//! A message is never decoded into a model: the envelope and a handful of members are found by range, the rest passes
//! as the bytes that came.

pub mod batch;
pub mod codec;
pub mod entries;
pub mod json_eq;
pub mod mcpd_error;
pub mod members;
pub mod message;
pub mod object_edit;
pub mod oversize;
pub mod pending;
pub mod reply;
pub mod request_line;
mod scan;
pub mod splice;
#[cfg(test)]
pub(crate) mod test_support;

pub use self::message::{Message, MessageError, is_id, parse};
