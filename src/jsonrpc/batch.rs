//! Taking a batch apart (JSON-RPC 2.0, "Batch"). MCP has batches in 2025-03-26 and in no other version.

use bytes::Bytes;

use super::entries::parts;

/// Most members of a batch: as many as one connection may have unanswered. A line of nothing but `1,1,1` would otherwise cost
/// fifty times its size.
pub const MAX_BATCH: usize = 256;

/// The members of the array `line`, raw and each with memory of its own; `None` if it is no array, or has more than [`MAX_BATCH`].
#[must_use]
pub fn split(line: &Bytes) -> Option<Vec<Bytes>> {
    let parts = parts(line, MAX_BATCH).ok()?;
    // A small member that is kept would otherwise keep the whole line.
    (parts.len() <= MAX_BATCH).then(|| parts.into_iter().map(Bytes::copy_from_slice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let found = split(&Bytes::copy_from_slice(line.as_bytes()));
        let expected = expected.map(|parts| parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect());
        assert_eq!(found, expected, "{line:.80}");
    }

    #[test]
    fn members_are_found_as_they_are_spelled() {
        check("[]", Some(&[]));
        check(r#" [ {"id": 1.50} , [1,2],"],",null ] "#, Some(&[r#"{"id": 1.50}"#, "[1,2]", r#""],""#, "null"]));
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        check(&format!("[{deep}]"), Some(&[&deep]));
    }

    #[test]
    fn what_is_no_array_or_too_long_a_one_is_none() {
        for line in ["", "{}", "[", "[1,]", "[1", "[1]2", "[1,\r2]", "[tru]"] {
            check(line, None);
        }
        let of = |count| format!("[{}1]", "1,".repeat(count - 1));
        assert_eq!(split(&Bytes::from(of(MAX_BATCH))).map(|parts| parts.len()), Some(MAX_BATCH));
        check(&of(MAX_BATCH + 1), None);
    }
}
