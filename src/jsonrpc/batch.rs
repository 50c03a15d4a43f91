//! Splits batches (JSON-RPC 2.0, "Batch"). Only MCP 2025-03-26 has batches.

use bytes::Bytes;

use super::entries::parts;

/// Maximum members of a batch: the maximum of unanswered requests of one connection. Without it, a line such as `[1,1,1]` could take
/// fifty times its size in memory.
pub const MAX_BATCH: usize = 256;

/// The raw members of the array `line`, each copied. `None` if `line` is not an array, or has more than [`MAX_BATCH`] members.
#[must_use]
pub fn split(line: &Bytes) -> Option<Vec<Bytes>> {
    let parts = parts(line, MAX_BATCH).ok()?;
    // Copy, because a small slice would keep the whole line in memory.
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
