//! A received request, with the ranges of its line that are replaced before it is sent to a server. Pure.

use bytes::Bytes;

use super::splice::{Change, Edit, splice};

/// A request line. All parts are slices of it, except the name on the server.
#[derive(Debug, Clone)]
pub struct RequestLine {
    /// The whole request, without its newline.
    pub line: Bytes,
    /// The caller's id, raw.
    pub id: Bytes,
    /// The name in the request, if it has one.
    pub rename: Option<Rename>,
    /// The caller's progress token, raw.
    pub progress_token: Option<Bytes>,
}

/// An exposed name, and the name on the server that replaces it.
#[derive(Debug, Clone)]
pub struct Rename {
    /// The exposed name, raw.
    pub exposed: Bytes,
    /// The name on the server, raw.
    pub server_name: Bytes,
}

impl RequestLine {
    /// The line for the server: with `id`, these changes and a newline.
    #[must_use]
    pub fn numbered(&self, id: u64, changes: &[Change]) -> Bytes {
        let mut digits = itoa::Buffer::new();
        let id = digits.format(id).as_bytes();
        let nothing = Edit { part: &self.line[..0], replacement: b"" };
        let rename = self
            .rename
            .as_ref()
            .map(|Rename { exposed, server_name }| Edit { part: exposed, replacement: server_name });
        // Two agents can choose the same token. The request id is unique, so it replaces the token.
        let token = self.progress_token.as_ref().map(|part| Edit { part, replacement: id });
        let mut edits = [Edit { part: &self.id, replacement: id }, rename.unwrap_or(nothing), token.unwrap_or(nothing)];
        if changes.is_empty() {
            return splice(&self.line, &mut edits);
        }
        splice(&self.line, &mut edits.into_iter().chain(changes.iter().map(Change::edit)).collect::<Vec<_>>())
    }
}
