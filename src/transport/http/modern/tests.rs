//! Tables of schemas and calls.

use super::*;

/// A tool with this schema.
fn tool(schema: &str) -> Bytes {
    format!(r#"{{"name":"t","description":"x-mcp-header","inputSchema":{schema}}}"#).into()
}

/// The headers of a call of a tool with these properties.
fn headers(properties: &str, arguments: &'static str) -> Vec<(String, String)> {
    let mut header_params = HeaderParams::default();
    header_params.note("t", &tool(&format!(r#"{{"type":"object","properties":{properties}}}"#))).expect("a tool");
    let mut headers = HeaderMap::new();
    header_params.add(b"t", &Bytes::from_static(arguments.as_bytes()), &mut headers);
    let mut all: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().expect("visible").to_owned())).collect();
    all.sort();
    all
}

fn check(properties: &str, arguments: &'static str, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| (format!("mcp-param-{name}"), (*value).into())).collect();
    assert_eq!(headers(properties, arguments), expected, "{properties} {arguments}");
}

#[test]
fn only_header_params_become_headers() {
    let region = r#"{"r":{"type":"string","x-mcp-header":"Region"},"q":{"type":"string"}}"#;
    check(region, r#"{"r":"us-west1","q":"x"}"#, &[("region", "us-west1")]);
    check(region, r#"{"q":"x", "\u0072":"caf\u00e9"}"#, &[("region", "=?base64?Y2Fmw6k=?=")]);
    check(region, r#"{"r":""}"#, &[("region", "")]);
    check(region, r#"{"R":"x"}"#, &[]);
    for without in [r#"{"r":null}"#, r#"{"r":{}}"#, r#"{"r":["a"]}"#, "{}", "[]", "null", r#"{"r":"\ud800"}"#] {
        check(region, without, &[]);
    }
}

#[test]
fn numbers_and_booleans_have_canonical_form() {
    let all = r#"{"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"}}"#;
    check(all, r#"{"n":42,"b":true}"#, &[("b", "true"), ("n", "42")]);
    check(all, r#"{"b" : false ,"n": -7 }"#, &[("b", "false"), ("n", "-7")]);
    for (written, expected) in [
        (r#"{"n":42.0}"#, "42"),
        (r#"{"n":1e3}"#, "1000"),
        (r#"{"n":-2.50E1}"#, "-25"),
        (r#"{"n":9007199254740991}"#, "9007199254740991"),
        (r#"{"n":1e300}"#, "1e300"),
        (r#"{"n":0.5}"#, "0.5"),
    ] {
        check(all, written, &[("n", expected)]);
    }
}

#[test]
fn nested_params_become_headers() {
    let nested = r#"{"a":{"type":"object","properties":{
        "b":{"type":"object","properties":{"c":{"type":"string","x-mcp-header":"C"}}},
        "d":{"type":"string","x-mcp-header":"D"}}}}"#;
    check(nested, r#"{"a":{"b":{"c":"1"},"d":"2"},"c":"3"}"#, &[("c", "1"), ("d", "2")]);
    check(nested, r#"{"a":{"b":"1","d":null}}"#, &[]);
}

#[test]
fn keyword_as_property_name_or_data_names_no_header() {
    check(r#"{"x-mcp-header":{"type":"string"}}"#, r#"{"x-mcp-header":"a"}"#, &[]);
    check(r#"{"p":{"type":"object","default":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}]}}"#, "{}", &[]);
}

#[test]
fn tool_with_invalid_header_params_is_refused() {
    let on =
        |name: &str, of_type: &str| format!(r#"{{"properties":{{"p":{{"type":{of_type},"x-mcp-header":{name}}}}}}}"#);
    let good = on(r#""A""#, r#""string""#);
    let two = |one: &str, other: &str| {
        format!(
            r#"{{"properties":{{"p":{{"type":"string","x-mcp-header":"{one}"}},"q":{{"type":"integer","x-mcp-header":"{other}"}}}}}}"#
        )
    };
    let many = (0..=MAX_HEADERS)
        .map(|n| format!(r#""p{n}":{{"type":"string","x-mcp-header":"H{n}"}}"#))
        .collect::<Vec<_>>()
        .join(",");
    let within =
        |keyword: &str| format!(r#"{{"properties":{{"p":{{"{keyword}":{{"type":"string","x-mcp-header":"A"}}}}}}}}"#);
    let below = |keyword: &str| format!(r#"{{"{keyword}":{{"x":{{"type":"string","x-mcp-header":"A"}}}}}}"#);
    let deep = format!("{}{good}{}", r#"{"x":"#.repeat(200), "}".repeat(200));
    let mut invalid = vec![
        on(r#""""#, r#""string""#),
        on("1", r#""string""#),
        on(r#""My Region""#, r#""string""#),
        on(r#""a:b""#, r#""string""#),
        on(r#""a\tb""#, r#""string""#),
        on(r#""a\r\nb""#, r#""string""#),
        on(r#""Région""#, r#""string""#),
        two("A", "A"),
        two("Field", "fIELD"),
        format!(r#"{{"properties":{{{many}}}}}"#),
        r#"{"type":"string","x-mcp-header":"A"}"#.into(),
        r#"{"properties":{"p":{"x-mcp-header":"A"}}}"#.into(),
        r#"{"properties":{"p":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}}"#.into(),
        r#"{"items":{"properties":{"p":{"type":"string","x-mcp-header":"A"}}}}"#.into(),
        deep,
    ];
    let types = [r#""number""#, r#""object""#, r#""array""#, r#""null""#, r#"["string","null"]"#];
    invalid.extend(types.map(|of_type| on(r#""A""#, of_type)));
    invalid.extend(SCHEMAS.iter().map(|keyword| within(keyword)));
    invalid.extend(NAMED_SCHEMAS.iter().map(|keyword| below(keyword)));
    for schema in invalid {
        let mut header_params = HeaderParams::default();
        assert!(header_params.note("t", &tool(&schema)).is_err(), "{schema}");
        assert!(header_params.0.is_empty(), "{schema}");
    }
    for schema in [good, two("A", "B"), "true".into(), "{}".into()] {
        HeaderParams::default().note("t", &tool(&schema)).expect("a tool");
    }
}

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

fn check_name(method: &str, params: &str, expected: Option<&str>) {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let headers = request_headers(&Bytes::from(line), &HeaderParams::default()).expect("it is short");
    assert_eq!(headers.get(PROTOCOL).expect("a version"), "2026-07-28");
    assert_eq!(headers.get(METHOD).expect("a method"), method);
    assert_eq!(headers.get(NAME).map(|name| name.to_str().expect("visible")), expected, "{params}");
}

#[test]
fn headers_name_the_method_and_its_target() {
    check_name("tools/call", r#"{"name":"get_weather","arguments":{"name":"x"}}"#, Some("get_weather"));
    check_name("prompts/get", r#"{"arguments":{},"name":"wétter"}"#, Some("=?base64?d8OpdHRlcg==?="));
    check_name("resources/read", r#"{"uri":"file:///a b","name":"n"}"#, Some("file:///a b"));
    check_name("tasks/get", r#"{"taskId":"7-1"}"#, Some("7-1"));
    check_name("tasks/update", r#"{"taskId":"7-1","inputResponses":{}}"#, Some("7-1"));
    check_name("tools/list", r#"{"name":"x"}"#, None);
    check_name("server/discover", "{}", None);
    check_name("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":["file:///a"]}}"#, None);
}

#[test]
fn missing_or_repeated_names_add_no_header() {
    for params in ["{}", "[]", "null", r#"{"name":7}"#, r#"{"name":"a","name":"b"}"#, r#"{"name":"a","Name":"b"}"#] {
        check_name("tools/call", params, None);
    }
    let nothing = request_headers(&Bytes::from_static(b"{}"), &HeaderParams::default()).expect("it is short");
    assert_eq!((nothing.len(), nothing.get(PROTOCOL).is_some()), (1, true));
}

#[test]
fn call_has_the_header_params_of_its_tool() {
    let mut header_params = HeaderParams::default();
    let definition = r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}"#;
    header_params.note("t", &Bytes::from_static(definition.as_bytes())).expect("a tool");
    for (method, tool, expected) in [("tools/call", "t", true), ("tools/call", "u", false), ("prompts/get", "t", false)]
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
        assert_eq!(request_headers(&Bytes::from(line), &HeaderParams::default()).is_ok(), fits, "{} bytes", uri.len());
    }
}
