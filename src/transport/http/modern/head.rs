//! The headers of one request. Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Standard Request Headers".

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::Mirrors;
use super::value::value;
use crate::era;
use crate::jsonrpc::members::{members, text};

const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Most bytes of what a request has in its head of its own, names and values: many servers take no more of a whole head.
const MOST: usize = 8 << 10;

/// What a request has to have in its head is more than servers take.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport::http) struct TooLong;

/// What the request `line` has in its head. They are read from what is sent, so that the two never differ; what is not in it, or
/// twice, is left out, and is the server's to refuse.
///
/// # Errors
/// If it is over [`MOST`].
pub(in crate::transport::http) fn head(line: &Bytes, mirrors: &Mirrors) -> Result<HeaderMap, TooLong> {
    let headers = headers(line, mirrors);
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MOST { Err(TooLong) } else { Ok(headers) }
}

fn headers(line: &Bytes, mirrors: &Mirrors) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PROTOCOL, HeaderValue::from_static(era::MODERN));
    let [method, params] = members(line, ["method", "params"]).unwrap_or_default();
    let Some(method) = method.and_then(|raw| text(&raw)) else { return headers };
    headers.insert(METHOD, value(&method));
    if let (Some(params), Some(named_by)) = (params, named_by(&method)) {
        let [name, arguments] = members(&params, [named_by, "arguments"]).unwrap_or_default();
        let Some(name) = name.and_then(|raw| text(&raw)) else { return headers };
        headers.insert(NAME, value(&name));
        if let Some(arguments) = arguments.filter(|_| method[..] == *b"tools/call") {
            mirrors.add(&name, &arguments, &mut headers);
        }
    }
    headers
}

/// The member of a method's params that says what it is about. Those of tasks are of the extension (`io.modelcontextprotocol/tasks`,
/// SEP-2663, "Streamable HTTP").
fn named_by(method: &[u8]) -> Option<&'static str> {
    match method {
        b"tools/call" | b"prompts/get" => Some("name"),
        b"resources/read" => Some("uri"),
        b"tasks/get" | b"tasks/update" | b"tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, params: &str, expected: Option<&str>) {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let headers = head(&Bytes::from(line), &Mirrors::default()).expect("it is short");
        assert_eq!(headers.get(PROTOCOL).expect("a version"), "2026-07-28");
        assert_eq!(headers.get(METHOD).expect("a method"), method);
        assert_eq!(headers.get(NAME).map(|name| name.to_str().expect("visible")), expected, "{params}");
    }

    #[test]
    fn a_request_says_what_it_does_and_with_what() {
        check("tools/call", r#"{"name":"get_weather","arguments":{"name":"x"}}"#, Some("get_weather"));
        check("prompts/get", r#"{"arguments":{},"name":"wétter"}"#, Some("=?base64?d8OpdHRlcg==?="));
        check("resources/read", r#"{"uri":"file:///a b","name":"n"}"#, Some("file:///a b"));
        check("tasks/get", r#"{"taskId":"7-1"}"#, Some("7-1"));
        check("tasks/update", r#"{"taskId":"7-1","inputResponses":{}}"#, Some("7-1"));
        check("tools/list", r#"{"name":"x"}"#, None);
        check("server/discover", "{}", None);
        check("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":["file:///a"]}}"#, None);
    }

    #[test]
    fn what_is_not_in_a_request_is_not_in_its_head() {
        for params in ["{}", "[]", "null", r#"{"name":7}"#, r#"{"name":"a","name":"b"}"#, r#"{"name":"a","Name":"b"}"#]
        {
            check("tools/call", params, None);
        }
        let nothing = head(&Bytes::from_static(b"{}"), &Mirrors::default()).expect("it is short");
        assert_eq!((nothing.len(), nothing.get(PROTOCOL).is_some()), (1, true));
    }

    #[test]
    fn a_call_shows_the_arguments_that_its_tool_wants_shown() {
        let mut mirrors = Mirrors::default();
        let definition = r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}"#;
        mirrors.note("t", &Bytes::from_static(definition.as_bytes())).expect("a tool");
        for (method, tool, expected) in
            [("tools/call", "t", true), ("tools/call", "u", false), ("prompts/get", "t", false)]
        {
            let params = format!(r#"{{"name":"{tool}","arguments":{{"r":"eu"}}}}"#);
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let headers = head(&Bytes::from(line), &mirrors).expect("it is short");
            assert_eq!(headers.get("mcp-param-region").is_some(), expected, "{method} {tool}");
        }
    }

    #[test]
    fn what_is_too_much_for_a_head_is_refused_as_it_would_be_sent() {
        for (uri, fits) in [("x".repeat(MOST - 100), true), ("x".repeat(MOST), false), ("é".repeat(MOST / 2), false)] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#);
            assert_eq!(head(&Bytes::from(line), &Mirrors::default()).is_ok(), fits, "{} bytes", uri.len());
        }
    }
}
