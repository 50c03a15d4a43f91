//! How a call ended.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use crate::jsonrpc::members::members_of_parsed;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With a result.
    Ok,
    /// With a result that has `isError`.
    ToolError,
    /// With a JSON-RPC error of the server's own.
    Error {
        /// Its code, if it has one.
        code: Option<i64>,
    },
    /// The agent cancelled it or disconnected.
    Cancelled,
    /// The server ended first.
    Died,
    /// The server took too long.
    TimedOut,
    /// A limit was reached.
    Overloaded,
    /// The server was down.
    Unavailable,
    /// The server, or the daemon, was being stopped.
    ShuttingDown,
    /// The response exceeded the message limit.
    TooLarge,
    /// The response was invalid.
    Malformed,
    /// The agent has no such tool. Denied and unknown tools are the same.
    UnknownTool,
}

impl CallOutcome {
    /// From the server's response: a raw result or a raw error object.
    #[must_use]
    pub fn of(response: Result<&Bytes, &Bytes>) -> Self {
        match response {
            Ok(result) if is_error_result(result) => Self::ToolError,
            Ok(_) => Self::Ok,
            Err(error) => Self::Error { code: error_code(error) },
        }
    }

    /// The word in JSON and tables, which users filter by.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Error { .. } => "error",
            Self::Cancelled => "cancelled",
            Self::Died => "died",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::ShuttingDown => "shutting_down",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::UnknownTool => "unknown_tool",
        }
    }

    /// The code of a server's own error.
    #[must_use]
    pub fn code(self) -> Option<i64> {
        match self {
            Self::Error { code } => code,
            _ => None,
        }
    }
}

fn error_code(error: &Bytes) -> Option<i64> {
    let [code] = members_of_parsed(error, ["code"]).ok()?;
    serde_json::from_slice(&code?).ok()
}

const IS_ERROR: &[u8] = b"\"isError\"";
/// Created once, since preparing the search costs more than searching a small result.
static FIND_IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(IS_ERROR));
/// Largest result that is parsed for its `isError`, in bytes. All data moves on one thread.
const MAX_PARSED_LEN: usize = 256 << 10;

/// Whether a result has the member `isError` with the value `true`.
///
/// Searching for the bytes costs a fraction of parsing. They cannot occur inside a JSON string, whose quotes are escaped, so a result
/// without them is not parsed. A key with `\u` escapes is not found. A result over [`MAX_PARSED_LEN`] is an error wherever the bytes are.
fn is_error_result(result: &Bytes) -> bool {
    // Most servers end a result like this. A longer key with this ending would have an escaped quote.
    if result.strip_suffix(br#""isError":false}"#).is_some_and(|before| !before.ends_with(br"\")) {
        return false;
    }
    let mut rest = &result[..];
    while let Some(at) = FIND_IS_ERROR.find(rest) {
        rest = &rest[at + IS_ERROR.len()..];
        if is_true(rest) {
            // The member may belong to a nested object.
            return result.len() > MAX_PARSED_LEN
                || matches!(members_of_parsed(result, ["isError"]), Ok([Some(value)]) if value[..] == b"true"[..]);
        }
    }
    false
}

/// Whether the text after a key of valid JSON begins with the value `true`.
fn is_true(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start(), [b':', value @ ..] if value.trim_ascii_start().first() == Some(&b't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_error_is_read_from_the_top_level_of_a_result() {
        let check = |result: &'static str, expected| {
            assert_eq!(CallOutcome::of(Ok(&Bytes::from_static(result.as_bytes()))), expected, "{result}");
        };
        check(r#"{"content":[]}"#, CallOutcome::Ok);
        check(r#"{"content":[],"isError":false}"#, CallOutcome::Ok);
        check(r#"{"content":[],"isError":true}"#, CallOutcome::ToolError);
        check(r#"{ "isError" : true , "content":[]}"#, CallOutcome::ToolError);
        check(r#"{"structuredContent":{"isError":true}}"#, CallOutcome::Ok);
        check(r#"{"structuredContent":{"isError":true},"isError":false}"#, CallOutcome::Ok);
        check(r#"{"isError":true,"\"isError":false}"#, CallOutcome::ToolError);
        check(r#"{"isError":true,"a":{"isError":false}}"#, CallOutcome::ToolError);
        check(r#"{"structuredContent":{"isError":false},"isError":true}"#, CallOutcome::ToolError);
        check(r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#, CallOutcome::Ok);
        check(r#"{"isError":"true"}"#, CallOutcome::Ok);
        check(r#""isError""#, CallOutcome::Ok);
    }

    #[test]
    fn code_of_an_error_is_read_if_it_is_an_integer() {
        let check = |error: &'static str, code| {
            assert_eq!(
                CallOutcome::of(Err(&Bytes::from_static(error.as_bytes()))),
                CallOutcome::Error { code },
                "{error}"
            );
        };
        check(r#"{"code":-32000,"message":"x"}"#, Some(-32000));
        check(r#"{"code":1.5}"#, None);
        check(r#"{"message":"x"}"#, None);
    }
}
