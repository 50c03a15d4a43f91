//! Messages over byte streams: reading them whole, writing them without waiting.
//!
//! Knows: [`crate::jsonrpc`] and tokio's I/O traits. Must not touch: MCP, processes, who is at the other end. Pipes of a
//! server and an agent's socket are served by the same two types.

pub mod http;
mod outbox;
mod patience;
mod reader;

pub use self::outbox::Outbox;
pub use self::reader::{Incoming, MessageReader};
