//! Params of both eras, side by side.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::test_support::{bytes, members_of, text};
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
        let changes = to_modern(&params, &LegacyClientMeta::default()).expect("an object");
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
        let changes = to_legacy(&params).expect("an object");
        assert_eq!(text(&applied(&params, &changes)), legacy, "{modern}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    for params in ["[]", "7", r#"{"_meta":7}"#, r#"{"_meta":{},"_meta":{}}"#, r#"{"_Meta":{}}"#] {
        assert_eq!(to_modern(&bytes(params), &LegacyClientMeta::default()), Err(NotAnObject), "{params}");
        assert_eq!(to_legacy(&bytes(params)), Err(NotAnObject), "{params}");
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
        let mut changes = to_modern(&params, &LegacyClientMeta::default()).expect("an object");
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
        let modern = Bytes::from(applied(&params, &to_modern(&params, &client_meta).expect("an object")));
        let back = applied(&modern, &to_legacy(&modern).expect("an object"));
        prop_assert_eq!(text(&back), text(&params));
    }
}
