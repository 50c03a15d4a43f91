//! What a server wrote and mcpd did not understand, in bounded size. Pure.

use std::fmt;

use crate::printable::excerpt;

/// Maximum characters of a quoted line.
const MAX_LINE_LEN: usize = 200;
/// Maximum characters of a quoted id.
const MAX_ID_LEN: usize = 40;

/// The output of one instance that was no answer to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The first line that was not a message, shortened and printable.
    pub first_skipped: Option<Box<str>>,
    /// Responses with an id that no request had.
    pub unused_ids: u64,
    /// The first such id, shortened and printable.
    pub first_unused_id: Option<Box<str>>,
}

impl Evidence {
    pub(super) fn note_skipped(&mut self, line: &[u8]) {
        self.first_skipped.get_or_insert_with(|| quoted(line, MAX_LINE_LEN));
    }

    pub(super) fn note_unused_id(&mut self, id: &[u8]) {
        self.unused_ids += 1;
        self.first_unused_id.get_or_insert_with(|| quoted(id, MAX_ID_LEN));
    }
}

/// Continues a sentence about the server. Empty without evidence.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = &self.first_unused_id {
            write!(f, "; it answered with the id `{id}`, which no request had")?;
        }
        if let Some(line) = &self.first_skipped {
            write!(f, "; it wrote a line that is no message: `{line}`")?;
        }
        Ok(())
    }
}

fn quoted(raw: &[u8], most: usize) -> Box<str> {
    // Cut first, so that a large line is not copied.
    let beginning = &raw[..raw.len().min(4 * most)];
    excerpt(&String::from_utf8_lossy(beginning), most).into()
}
