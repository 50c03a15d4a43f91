//! The line of a call as a server gets it. Pure.

use bytes::Bytes;

use crate::jsonrpc::splice::{Change, Edit, splice};

/// The request `line`, of which these parts are the id, the name with what is to stand in its place, and the progress token, as a
/// server gets it: numbered `id`, changed for its era, with a newline.
pub(crate) fn numbered(
    line: &Bytes,
    (own, rename, token): (&Bytes, Option<&(Bytes, Bytes)>, Option<&Bytes>),
    id: u64,
    changes: &[Change],
) -> Bytes {
    let mut digits = itoa::Buffer::new();
    let id = digits.format(id).as_bytes();
    let nothing = Edit { part: &line[..0], replacement: b"" };
    let rename = rename.map(|(part, replacement)| Edit { part, replacement });
    // Two agents may choose the same token; the request's own id is as unique and leads back to it.
    let token = token.map(|part| Edit { part, replacement: id });
    let mut edits = [Edit { part: own, replacement: id }, rename.unwrap_or(nothing), token.unwrap_or(nothing)];
    if changes.is_empty() {
        return splice(line, &mut edits);
    }
    splice(line, &mut edits.into_iter().chain(changes.iter().map(Change::edit)).collect::<Vec<_>>())
}
