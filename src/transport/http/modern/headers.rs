//! The headers of one request. Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Standard Request Headers".

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::HeaderParams;
use super::value::value;
use crate::era::{self, VERSION_HEADER};
use crate::jsonrpc::members::{members, text};

const PROTOCOL: HeaderName = HeaderName::from_static(VERSION_HEADER);
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Maximum size of these headers, names and values, in bytes: many servers accept no more for all headers.
const MAX_SIZE: usize = 8 << 10;

/// The required headers exceed what servers accept.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport::http) struct HeadersTooLarge;

/// The headers of the request `line`. They are read from the line itself, so both always agree. A missing or repeated
/// member is left out, for the server to refuse.
///
/// # Errors
/// If they exceed [`MAX_SIZE`].
pub(in crate::transport::http) fn request_headers(
    line: &Bytes,
    header_params: &HeaderParams,
) -> Result<HeaderMap, HeadersTooLarge> {
    let headers = headers(line, header_params);
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MAX_SIZE { Err(HeadersTooLarge) } else { Ok(headers) }
}

fn headers(line: &Bytes, header_params: &HeaderParams) -> HeaderMap {
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
            header_params.add(&name, &arguments, &mut headers);
        }
    }
    headers
}

/// The param that names a method's target. Task methods belong to the extension `io.modelcontextprotocol/tasks`
/// (SEP-2663, "Streamable HTTP").
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
        let headers = request_headers(&Bytes::from(line), &HeaderParams::default()).expect("it is short");
        assert_eq!(headers.get(PROTOCOL).expect("a version"), "2026-07-28");
        assert_eq!(headers.get(METHOD).expect("a method"), method);
        assert_eq!(headers.get(NAME).map(|name| name.to_str().expect("visible")), expected, "{params}");
    }

    #[test]
    fn headers_name_the_method_and_its_target() {
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
    fn missing_or_repeated_names_add_no_header() {
        for params in ["{}", "[]", "null", r#"{"name":7}"#, r#"{"name":"a","name":"b"}"#, r#"{"name":"a","Name":"b"}"#]
        {
            check("tools/call", params, None);
        }
        let nothing = request_headers(&Bytes::from_static(b"{}"), &HeaderParams::default()).expect("it is short");
        assert_eq!((nothing.len(), nothing.get(PROTOCOL).is_some()), (1, true));
    }

    #[test]
    fn call_has_the_header_params_of_its_tool() {
        let mut header_params = HeaderParams::default();
        let definition = r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}"#;
        header_params.note("t", &Bytes::from_static(definition.as_bytes())).expect("a tool");
        for (method, tool, expected) in
            [("tools/call", "t", true), ("tools/call", "u", false), ("prompts/get", "t", false)]
        {
            let params = format!(r#"{{"name":"{tool}","arguments":{{"r":"eu"}}}}"#);
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let headers = request_headers(&Bytes::from(line), &header_params).expect("it is short");
            assert_eq!(headers.get("mcp-param-region").is_some(), expected, "{method} {tool}");
        }
    }

    #[test]
    fn size_limit_applies_to_encoded_headers() {
        for (uri, fits) in
            [("x".repeat(MAX_SIZE - 100), true), ("x".repeat(MAX_SIZE), false), ("é".repeat(MAX_SIZE / 2), false)]
        {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#);
            assert_eq!(
                request_headers(&Bytes::from(line), &HeaderParams::default()).is_ok(),
                fits,
                "{} bytes",
                uri.len()
            );
        }
    }
}
