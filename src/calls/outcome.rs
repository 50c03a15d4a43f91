//! How a call ended.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use crate::jsonrpc::members::members;

/// How a call ended. The words of [`Outcome::word`] are what users filter by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Ok,
    /// With a result that says `isError`.
    ToolError,
    /// With a JSON-RPC error of the server's own.
    Error {
        /// Its code, if it has one.
        code: Option<i64>,
    },
    /// The agent cancelled it, or left.
    Cancelled,
    /// The server ended first.
    Died,
    /// The server took too long.
    TimedOut,
    /// A cap was reached.
    Overloaded,
    /// The server was down.
    Unavailable,
    /// The server, or the daemon, was being stopped.
    ShuttingDown,
    /// The answer was over the message cap.
    TooLarge,
    /// The answer was no valid response.
    Malformed,
    /// The agent has no such tool; denied and unknown are the same.
    UnknownTool,
}

impl Outcome {
    /// What the server's response says of it: a raw result, or a raw error object.
    #[must_use]
    pub fn of(response: Result<&Bytes, &Bytes>) -> Self {
        match response {
            Ok(result) if says_error(result) => Self::ToolError,
            Ok(_) => Self::Ok,
            Err(error) => Self::Error { code: error_code(error) },
        }
    }

    /// One word.
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
    let [code] = members(error, ["code"]).ok()?;
    serde_json::from_slice(&code?).ok()
}

const IS_ERROR: &[u8] = b"\"isError\"";
/// Made once: preparing the search costs more than searching a small result.
static FIND_IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(IS_ERROR));
/// Largest result that is parsed for its `isError`, in bytes. All data moves on one thread.
const LONGEST_PARSED: usize = 256 << 10;

/// Whether a result has the member `isError` with the value `true`.
///
/// Looking for the bytes costs a fraction of parsing, and the result is parsed only if they are there, which inside a
/// JSON string they cannot be: its quotes are escaped. A key spelled with `\u` escapes is not looked for, and a very large
/// result is taken for an error wherever in it the bytes are.
fn says_error(result: &Bytes) -> bool {
    // As most servers end a result; the quote of a key that only ends so would be escaped.
    if result.strip_suffix(br#""isError":false}"#).is_some_and(|before| !before.ends_with(br"\")) {
        return false;
    }
    let mut rest = &result[..];
    while let Some(at) = FIND_IS_ERROR.find(rest) {
        rest = &rest[at + IS_ERROR.len()..];
        if is_true(rest) {
            // It may be a member of something else in the result.
            return result.len() > LONGEST_PARSED
                || matches!(members(result, ["isError"]), Ok([Some(own)]) if own[..] == b"true"[..]);
        }
    }
    false
}

/// Whether this, from behind a key of valid JSON, is the value `true`.
fn is_true(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start(), [b':', value @ ..] if value.trim_ascii_start().first() == Some(&b't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_itself_whether_it_is_an_error() {
        let check = |result: &'static str, expected| {
            assert_eq!(Outcome::of(Ok(&Bytes::from_static(result.as_bytes()))), expected, "{result}");
        };
        check(r#"{"content":[]}"#, Outcome::Ok);
        check(r#"{"content":[],"isError":false}"#, Outcome::Ok);
        check(r#"{"content":[],"isError":true}"#, Outcome::ToolError);
        check(r#"{ "isError" : true , "content":[]}"#, Outcome::ToolError);
        check(r#"{"structuredContent":{"isError":true}}"#, Outcome::Ok);
        check(r#"{"structuredContent":{"isError":true},"isError":false}"#, Outcome::Ok);
        check(r#"{"isError":true,"\"isError":false}"#, Outcome::ToolError);
        check(r#"{"isError":true,"a":{"isError":false}}"#, Outcome::ToolError);
        check(r#"{"structuredContent":{"isError":false},"isError":true}"#, Outcome::ToolError);
        check(r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#, Outcome::Ok);
        check(r#"{"isError":"true"}"#, Outcome::Ok);
        check(r#""isError""#, Outcome::Ok);
    }

    #[test]
    fn an_error_is_known_by_its_code() {
        let check = |error: &'static str, code| {
            assert_eq!(Outcome::of(Err(&Bytes::from_static(error.as_bytes()))), Outcome::Error { code }, "{error}");
        };
        check(r#"{"code":-32000,"message":"x"}"#, Some(-32000));
        check(r#"{"code":1.5}"#, None);
        check(r#"{"message":"x"}"#, None);
    }
}
