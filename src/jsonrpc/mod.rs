//! JSON-RPC 2.0 as lines of raw bytes.
//!
//! Lives here: framing ([`codec`]), the envelope ([`message`]), batches ([`batch`]), a walk over JSON text ([`scan`]) to members of
//! objects ([`members`], [`entries`]), comparing values ([`same`]), replacing fields in place ([`splice`]) and members of objects
//! ([`exchange`]), the table of unanswered requests ([`pending`]), answers of our own ([`reply`]). Knows: nothing of MCP beyond its
//! error codes. Must not touch: tokio, except that the codec implements its traits. Everything is a function of bytes.
//!
//! A message is never decoded into a model: the envelope and a handful of members are found by range, the rest passes
//! as the bytes that came.

pub mod batch;
pub mod codec;
pub mod entries;
pub mod exchange;
#[cfg(test)]
pub(crate) mod made_up;
pub mod mcpd_error;
pub mod members;
pub mod message;
pub mod oversize;
pub mod pending;
pub mod reply;
pub mod request_line;
pub mod same;
mod scan;
pub mod splice;

pub use self::message::{Malformed, Message, is_id, parse};
