//! Params of both eras, side by side.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::tests::{bytes, members_of, text};
use crate::log_level::LogLevel;

const META: &str =
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

#[test]
fn legacy_request_gets_the_members_that_name_its_client() {
    for (legacy, modern) in [
        ("{}", r#"{"_meta":{META}}"#),
        (r#"{"name":"a","arguments":{"n":1.0}}"#, r#"{"_meta":{META},"name":"a","arguments":{"n":1.0}}"#),
        (r#"{"name":"a", "_meta":{}}"#, r#"{"name":"a", "_meta":{META}}"#),
        (r#"{"_meta":null,"name":"a"}"#, r#"{"_meta":{META},"name":"a"}"#),
        (
            r#"{"_meta":{"progressToken":7, "traceparent":"00-1"},"name":"a","task":{"ttl":5}}"#,
            r#"{"_meta":{META,"progressToken":7, "traceparent":"00-1"},"name":"a"}"#,
        ),
        (r#"{"task":{}}"#, r#"{"_meta":{META}}"#),
        // What a legacy client cannot have meant is removed.
        (
            r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/related-task":{"taskId":"t"}},"requestState":"x"}"#,
            r#"{"_meta":{META,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
        ),
    ] {
        let params = bytes(legacy);
        let changes = params_to_modern(&params, &LegacyClientMeta::default()).expect("an object");
        assert_eq!(text(&applied(&params, &changes)), modern.replace("META", META), "{legacy}");
    }
}

#[test]
fn a_modern_request_keeps_what_legacy_servers_may_know() {
    for (modern, legacy) in [
        (r#"{"_meta":{META}}"#, "{}"),
        (r#"{"name":"a","_meta":{META, "io.modelcontextprotocol/logLevel":"info"} }"#, r#"{"name":"a" }"#),
        (r#"{"_meta":{META,"progressToken":"p"},"name":"a"}"#, r#"{"_meta":{"progressToken":"p"},"name":"a"}"#),
        (r#"{"_meta":{"a/b":1,META},"uri":"u"}"#, r#"{"_meta":{"a/b":1},"uri":"u"}"#),
        (r#"{"inputResponses":{"a":{}},"_meta":{META},"requestState":"s","name":"a"}"#, r#"{"name":"a"}"#),
        (r#"{"_meta":null,"requestState":"s"}"#, r#"{"_meta":null}"#),
        (r#"{"name":"a","task":{"ttl":5},"_meta":{META}}"#, r#"{"name":"a"}"#),
        (r#"{"name":"a"}"#, r#"{"name":"a"}"#),
    ] {
        let params = bytes(&modern.replace("META", META));
        let changes = params_to_legacy(&params).expect("an object");
        assert_eq!(text(&applied(&params, &changes)), legacy, "{modern}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    for params in ["[]", "7", r#"{"_meta":7}"#, r#"{"_meta":{},"_meta":{}}"#, r#"{"_Meta":{}}"#] {
        assert_eq!(params_to_modern(&bytes(params), &LegacyClientMeta::default()), Err(NotAnObject), "{params}");
        assert_eq!(params_to_legacy(&bytes(params)), Err(NotAnObject), "{params}");
    }
}

#[test]
fn a_request_is_made_again_with_what_was_answered() {
    let params = bytes(r#"{"name":"a"}"#);
    let both = [(bytes(r#""k\n""#), bytes(r#"{"action":"accept"}"#)), (bytes(r#""l""#), bytes(r#"{"roots":[]}"#))];
    for (responses, state, expected) in [
        (
            &both[..1],
            Some(r#""s\/""#),
            r#"{"name":"a","inputResponses":{"k\n":{"action":"accept"}},"requestState":"s\/"}"#,
        ),
        (&both, None, r#"{"name":"a","inputResponses":{"k\n":{"action":"accept"},"l":{"roots":[]}}}"#),
        (&both[..0], Some(r#""s""#), r#"{"name":"a","requestState":"s"}"#),
        (&both[..0], None, r#"{"name":"a"}"#),
    ] {
        let change = with_inputs(&params, responses, state.map(bytes).as_ref());
        assert_eq!(text(&applied(&params, &[change])), expected);
    }
    for params in ["{}", r#"{"requestState":"old","task":{}}"#] {
        let params = bytes(params);
        let mut changes = params_to_modern(&params, &LegacyClientMeta::default()).expect("an object");
        changes.push(with_inputs(&params, &[], Some(&bytes(r#""s""#))));
        assert_eq!(text(&applied(&params, &changes)), format!(r#"{{"_meta":{{{META}}},"requestState":"s"}}"#));
    }
}

#[test]
fn retry_differs_only_in_meta_and_inputs() {
    let first = r#"{"name":"a","arguments":{"n":1.0,"m":[]},"_meta":{"progressToken":1}}"#;
    for (retry, expected) in [
        (r#"{"requestState":"s","inputResponses":{},"arguments":{"m":[ ],"n":1.0},"name":"\u0061"}"#, true),
        (r#"{"name":"a","arguments":{"n":1.0,"m":[]}}"#, true),
        (r#"{"name":"b","arguments":{"n":1.0,"m":[]},"requestState":"s"}"#, false),
        (r#"{"name":"a","arguments":{"n":2.0,"m":[]},"requestState":"s"}"#, false),
        (r#"{"name":"a","arguments":{"n":1.0,"m":[]},"x":1}"#, false),
        (r#"{"name":"a"}"#, false),
        ("[]", false),
    ] {
        assert_eq!(is_retry(&bytes(first), &bytes(retry)), expected, "{retry}");
    }
}

proptest! {
    #[test]
    fn there_and_back_gives_the_params_again(
        params in members_of(&["name", "arguments", "x"]),
        meta in members_of(&["progressToken", "traceparent", "a/b"]),
    ) {
        let meta = if meta.is_empty() { meta } else { format!("\"_meta\":{{{meta}}}") };
        let all: Vec<String> = [params, meta].into_iter().filter(|part| !part.is_empty()).collect();
        let params = bytes(&format!("{{{}}}", all.join(",")));
        let client_meta = LegacyClientMeta { level: Some(LogLevel::Info), ..LegacyClientMeta::default() };
        let modern = Bytes::from(applied(&params, &params_to_modern(&params, &client_meta).expect("an object")));
        let back = applied(&modern, &params_to_legacy(&modern).expect("an object"));
        prop_assert_eq!(text(&back), text(&params));
    }
}

fn read(meta: &'static str) -> Result<Meta, MetaError> {
    Meta::read(Some(&Bytes::from_static(meta.as_bytes())))
}

#[test]
fn request_with_a_version_is_modern() {
    for (meta, token, is_modern) in [
        ("{}", None, false),
        ("null", None, false),
        (r#"{"progressToken":7}"#, Some("7"), false),
        (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, None, false),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}"#,
            Some("\"t\""),
            true,
        ),
        (
            r#"{"io.modelcontextprotocol\/protocolVersion":"2026-07-2\u0038","io.modelcontextprotocol/clientCapabilities":{}}"#,
            None,
            true,
        ),
    ] {
        let found = read(meta).expect("well-formed");
        let expected = token.map(|token| Bytes::from_static(token.as_bytes()));
        assert_eq!((found.progress_token, found.modern.is_some()), (expected, is_modern), "{meta}");
    }
}

#[test]
fn tasks_are_accepted_if_their_extension_is_declared() {
    for (capabilities, expected) in [
        (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#, true),
        (r#"{"extensions":{"a/b":{}}}"#, false),
        (r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#, false),
        (r#"{"extensions":[]}"#, false),
        (r#"{"io.modelcontextprotocol/tasks":{}}"#, false),
        ("{}", false),
    ] {
        assert_eq!(supports_tasks(&Bytes::from_static(capabilities.as_bytes())), expected, "{capabilities}");
    }
}

#[test]
fn error_names_the_missing_or_malformed_member() {
    for (meta, expected) in [
        (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, Err("clientCapabilities")),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}"#,
            Err("clientCapabilities"),
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}"#,
            Err("logLevel"),
        ),
        (r#"{"io.modelcontextprotocol/protocolVersion":7}"#, Err("no string")),
        (r#"{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}"#, Ok("1900-01-01")),
        (r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#, Ok("2025-11-25")),
        (r#"{"progressToken":{}}"#, Err("progressToken")),
        ("[]", Err("malformed")),
    ] {
        let error = read(meta).expect_err(meta).to_object();
        match expected {
            Ok(version) => {
                let data = json!({ "supported": ["2026-07-28"], "requested": version });
                assert_eq!((error.code, error.data), (-32022, Some(data)), "{meta}");
            }
            Err(part) => assert!(error.code == -32602 && error.message.contains(part), "{meta}: {error:?}"),
        }
    }
}

fn client_meta(capabilities: &'static str) -> LegacyClientMeta {
    LegacyClientMeta { capabilities: Bytes::from_static(capabilities.as_bytes()), ..LegacyClientMeta::default() }
}

#[test]
fn request_names_its_client() {
    let all = LegacyClientMeta {
        client: Some(Bytes::from_static(br#"{"name":"a","version":"1.0"}"#)),
        level: Some(LogLevel::Warning),
        ..client_meta(r#"{"sampling":{}}"#)
    };
    let expected = concat!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1.0"},"#,
        r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"#,
        r#""io.modelcontextprotocol/logLevel":"warning""#,
    );
    assert_eq!(all.meta_members(), expected);
    let least = concat!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientCapabilities":{}"#
    );
    assert_eq!(client_meta("{}").meta_members(), least);
    let odd = LegacyClientMeta { client: Some(Bytes::from_static(b"7")), ..client_meta("null") };
    assert_eq!(odd.meta_members(), least);
}

#[test]
fn capabilities_pass_except_the_extension_for_tasks() {
    for (legacy, modern) in [
        ("{}", "{}"),
        (r#"{"roots": {"listChanged":true},"x":1.0}"#, r#"{"roots": {"listChanged":true},"x":1.0}"#),
        (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{"k":1}}}"#, r#"{"extensions":{"a/b":{}}}"#),
        (r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#, r#"{"extensions":{}}"#),
        (r#"{"extensions":null}"#, r#"{"extensions":null}"#),
        (r#"{"extensions":{},"extensions":{}}"#, "{}"),
    ] {
        assert_eq!(client_meta(legacy).modern_capabilities(), modern, "{legacy}");
    }
}
