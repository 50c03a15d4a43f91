//! What a server says that answers nobody, on its way to a session. Pure.

use std::sync::Arc;

use bytes::Bytes;

/// A notification of a server that belongs to no call.
#[derive(Debug, Clone)]
pub enum Unasked {
    /// A resource has changed.
    Updated(Box<Updated>),
}

/// That a resource has changed.
#[derive(Debug, Clone)]
pub struct Updated {
    /// The configured server.
    pub server: Arc<str>,
    /// Its URI as text.
    pub uri: Bytes,
    /// The whole line.
    pub line: Bytes,
}
