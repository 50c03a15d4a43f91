//! Headers of a modern request: parts of its body, for intermediaries that route without reading bodies.
//!
//! Pure. `value` (text as a header value) · `header_params` (arguments that tools require in headers) · `headers` (all
//! headers of one request). Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Request Metadata".

mod header_params;
mod headers;
mod value;

pub(crate) use self::header_params::HeaderParams;
pub(super) use self::headers::{HeadersTooLarge, request_headers};
