//! The beginning of the last line that was queued for a server. Pure.

use memchr::memmem;

/// Bytes that are kept of the line. The method stands in them, except after large params.
const MAX_KEPT: usize = 96;

/// The beginning of the last line.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    beginning: Vec<u8>,
    /// The id, if it is a request.
    pub(super) request: Option<u64>,
}

impl LastLine {
    pub(super) fn note(&mut self, line: &[u8], request: Option<u64>) {
        self.beginning.clear();
        self.beginning.extend_from_slice(&line[..line.len().min(MAX_KEPT)]);
        self.request = request;
    }

    /// The method, if the line has one and it stands before the params.
    pub(super) fn method(&self) -> Option<String> {
        let envelope = &self.beginning[..memmem::find(&self.beginning, br#""params""#).unwrap_or(self.beginning.len())];
        let at = memmem::find(envelope, br#""method""#)? + br#""method""#.len();
        let value = envelope[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', value)?;
        String::from_utf8(value[..end].to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_is_read_only_before_the_params() {
        for (line, method) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, Some("tools/call")),
            (r#"{"method" : "ping", "id":1}"#, Some("ping")),
            (r#"{"params":{"method":"secret"},"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"method":"cut"#, None),
        ] {
            let mut last = LastLine::default();
            last.note(line.as_bytes(), None);
            assert_eq!(last.method().as_deref(), method, "{line}");
        }
    }
}
