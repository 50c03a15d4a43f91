//! Replaces parts of a line. All other bytes stay unchanged.

use bytes::{BufMut, Bytes, BytesMut};

/// A part of a line and its replacement.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// A slice of the line.
    pub part: &'a [u8],
    /// Raw JSON.
    pub replacement: &'a [u8],
}

/// An owned [`Edit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// A slice of the line. An empty slice is an insertion point.
    pub part: Bytes,
    /// Raw JSON, or a fragment of it.
    pub replacement: Bytes,
}

impl Change {
    /// This change as an edit.
    #[must_use]
    pub fn edit(&self) -> Edit<'_> {
        Edit { part: &self.part, replacement: &self.replacement }
    }
}

/// `line` with each edit applied and a newline at its end. Edits can be in any order.
///
/// # Panics
/// If a part is not a slice of `line`, or two parts overlap.
#[must_use]
pub fn splice(line: &[u8], edits: &mut [Edit<'_>]) -> Bytes {
    let replaced: usize = edits.iter().map(|edit| edit.part.len()).sum();
    let added: usize = edits.iter().map(|edit| edit.replacement.len()).sum();
    // The exact capacity lets `Bytes` take the vector without a copy.
    let mut spliced = BytesMut::with_capacity(line.len() - replaced + added + 1);
    splice_into(&mut spliced, line, edits);
    spliced.put_u8(b'\n');
    spliced.freeze()
}

/// `text` with each change applied.
///
/// # Panics
/// As [`splice`].
#[must_use]
pub fn applied(text: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut out = BytesMut::with_capacity(text.len() + changes.iter().map(|c| c.replacement.len()).sum::<usize>());
    splice_into(&mut out, text, &mut changes.iter().map(Change::edit).collect::<Vec<_>>());
    out.into()
}

/// Appends `text` to `out` with each edit applied.
///
/// # Panics
/// If a part is not a slice of `text`, or two parts overlap.
pub fn splice_into(out: &mut BytesMut, text: &[u8], edits: &mut [Edit<'_>]) {
    // At the same offset, insertions come before replacements.
    edits.sort_unstable_by_key(|edit| (offset(text, edit.part), edit.part.len()));
    let mut copied = 0;
    for edit in edits {
        let start = offset(text, edit.part);
        out.put_slice(&text[copied..start]);
        out.put_slice(edit.replacement);
        copied = start + edit.part.len();
    }
    out.put_slice(&text[copied..]);
}

fn offset(line: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_parts_change() {
        let line = br#"{"id" : "a", "n": 1.10, "params":{"name":"x"}}"#;
        let (id, name) = (&line[8..11], &line[41..44]);
        let mut edits = [Edit { part: name, replacement: b"\"tool\"" }, Edit { part: id, replacement: b"7" }];
        assert_eq!(&splice(line, &mut edits)[..], b"{\"id\" : 7, \"n\": 1.10, \"params\":{\"name\":\"tool\"}}\n");
    }

    proptest! {
        #[test]
        fn splicing_back_gives_the_line(line in "[a-z]{1,40}", cut in 0..40usize, with in "[0-9]{0,9}") {
            let cut = cut % line.len();
            let spliced = splice(line.as_bytes(), &mut [Edit { part: &line.as_bytes()[cut..=cut], replacement: with.as_bytes() }]);
            let back = splice(&spliced[..spliced.len() - 1], &mut [
                Edit { part: &spliced[cut..cut + with.len()], replacement: &line.as_bytes()[cut..=cut] },
            ]);
            prop_assert_eq!(&back[..back.len() - 1], line.as_bytes());
        }
    }
}
