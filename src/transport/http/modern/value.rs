//! Text as a header value. Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Value Encoding".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::HeaderValue;

/// Delimiters around base64.
const OPENS: &[u8] = b"=?base64?";
const CLOSES: &[u8] = b"?=";

/// Returns `text` as it is if that is unambiguous, otherwise in base64.
pub(super) fn value(text: &Bytes) -> HeaderValue {
    let plain = Some(text).filter(|text| is_plain(text)).cloned();
    let encoded = || Bytes::from([OPENS, STANDARD.encode(text).as_bytes(), CLOSES].concat());
    HeaderValue::from_maybe_shared(plain.unwrap_or_else(encoded)).expect("both are visible ASCII and spaces")
}

/// Whether the text survives as a header value.
fn is_plain(text: &[u8]) -> bool {
    let is_visible = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.first() == Some(&b' ') || text.last() == Some(&b' ');
    let looks_encoded = text.starts_with(OPENS) && text.ends_with(CLOSES);
    is_visible && !is_padded && !looks_encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_plain_header_value_is_encoded() {
        for (text, expected) in [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("", ""),
            ("file:///a%20b?c=~", "file:///a%20b?c=~"),
            ("=?base64?", "=?base64?"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("line1\r\nX-Key: 1", "=?base64?bGluZTENClgtS2V5OiAx?="),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("a\u{7f}", "=?base64?YX8=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(value(&Bytes::from(text)), expected, "{text:?}");
        }
    }
}
