//! Percent-encodes a path for use in a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Encodes an absolute path for the path or query of a URL. No character of the result ends that part, and no segment leads above it.
/// Source: RFC 3986, 2.1 (other characters) and 5.2.4 (`..`).
pub(super) fn percent_encode(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        match segment {
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    utf8_percent_encode(&format!("/{}", segments.join("/")), ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_a_url_is_nothing_but_a_path() {
        for (directory, expected) in [
            ("/home/u/a-b_c.d~", "/home/u/a-b_c.d~"),
            ("/a b/c?d#e&f=g+h%41", "/a%20b/c%3Fd%23e%26f%3Dg%2Bh%2541"),
            ("/ä:@;", "/%C3%A4%3A%40%3B"),
            ("/a/../../b/./c/", "/b/c"),
            ("/..a/...", "/..a/..."),
            ("/", "/"),
        ] {
            assert_eq!(percent_encode(directory), expected, "{directory}");
        }
    }
}
