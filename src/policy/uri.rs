//! The spellings of a URI that a server may take for the same one.
//!
//! A pattern is written for the plain spelling. What an agent asks for has to hold in each of them, or `%2e%2e/` would lead
//! around it.

use std::borrow::Cow;

/// `uri` as it is, with its escapes undone, and with the steps back in its path taken.
pub(super) fn spellings(uri: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let decoded = decoded(uri);
    let direct = direct(decoded.as_deref().unwrap_or(uri));
    [Some(Cow::Borrowed(uri)), decoded.map(Cow::Owned), direct.map(Cow::Owned)].into_iter().flatten()
}

/// Without percent-encoding (RFC 3986, 2.1); `None` if it has none.
fn decoded(uri: &str) -> Option<String> {
    let (first, rest) = uri.split_once('%')?;
    let mut bytes = first.as_bytes().to_vec();
    for part in rest.split('%') {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        bytes.extend_from_slice(&part.as_bytes()[if byte.is_some() { 2 } else { 0 }..]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Without `.` and `..` in its path (RFC 3986, 5.2.4); `None` if it has none.
fn direct(uri: &str) -> Option<String> {
    let (path, rest) = uri.split_at(uri.find(['?', '#']).unwrap_or(uri.len()));
    if !path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return None;
    }
    // Of `file:///a/b`, the scheme and the host are no steps.
    let root = if path.contains("://") { 3 } else { 1 };
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." if kept.len() > root => drop(kept.pop()),
            ".." => {}
            segment => kept.push(segment),
        }
    }
    Some(kept.join("/") + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, others: &[&str]) {
        let found: Vec<_> = spellings(uri).collect();
        assert_eq!(found[0], uri);
        assert_eq!(found[1..], *others, "{uri}");
    }

    #[test]
    fn a_plain_uri_has_one_spelling() {
        for uri in ["x://1", "file:///a/b.txt", "mem:a", "", "x://h/a..b/...", "x://h/a?b=../c"] {
            check(uri, &[]);
        }
    }

    #[test]
    fn escapes_are_undone_once_and_steps_back_are_taken() {
        check("file:///%73ecret", &["file:///secret"]);
        check("file:///caf%C3%A9%", &["file:///café%"]);
        check("x://%2573", &["x://%73"]);
        check("x://a%zz%+1%é", &["x://a%zz%+1%é"]);
        check("file:///pub/../secret?x", &["file:///secret?x"]);
        check("file:///pub/%2e%2E/./secret", &["file:///pub/.././secret", "file:///secret"]);
        check("file:///../../a", &["file:///a"]);
        check("x://h/../../a", &["x://h/a"]);
        check("mem:a/../b", &["mem:a/b"]);
    }
}
