//! A cancellation as its sender wrote it.

use bytes::Bytes;

/// A `notifications/cancelled` that is passed on.
///
/// Source: MCP 2025-11-25, `basic/utilities/cancellation`.
#[derive(Debug, Clone)]
pub struct Cancellation {
    /// The whole notification, without its newline.
    pub line: Bytes,
    /// The sender's id of the request, raw: a slice of `line`.
    pub request: Bytes,
}
