//! What a request of the modern era has in its head beside what every request has: parts of its body, for those between who route
//! by them and read no bodies.
//!
//! Pure. `value` (text as a header has it) · `mirrors` (the arguments that tools want there) · `head` (all of one request).
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Request Metadata".

mod head;
mod mirrors;
mod value;

pub(super) use self::head::{TooLong, head};
pub(crate) use self::mirrors::Mirrors;
