//! What is asked for, as peers spell it.

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::tests::bytes;

fn input(key: &str, method: &str, params: Option<&str>) -> Input {
    Input { key: bytes(key), method: bytes(method), params: params.map(bytes) }
}

#[test]
fn what_a_server_asks_for_is_read_as_it_is_spelled() {
    let result = bytes(
        r#"{"inputRequests":{"na\u006de":{"method":"elicitation/create","params":{"n":1.0}},"r":{"method":"roots\/list"}},
            "requestState":"s\n","resultType":"input_required"}"#,
    );
    let inputs =
        vec![input(r#""na\u006de""#, "elicitation/create", Some(r#"{"n":1.0}"#)), input(r#""r""#, "roots/list", None)];
    assert_eq!(RequiredInputs::read(&result), Ok(RequiredInputs { inputs, request_state: Some(bytes(r#""s\n""#)) }));
    let only_state = RequiredInputs { inputs: Vec::new(), request_state: Some(bytes("\"s\"")) };
    assert_eq!(RequiredInputs::read(&bytes(r#"{"requestState":"s"}"#)), Ok(only_state.clone()));
    assert_eq!(RequiredInputs::read(&bytes(r#"{"inputRequests":null,"requestState":"s"}"#)), Ok(only_state));
    let nothing = RequiredInputs { inputs: Vec::new(), request_state: None };
    assert_eq!(RequiredInputs::read(&bytes(r#"{"inputRequests":{},"requestState":null}"#)), Ok(nothing));
}

#[test]
fn malformed_input_requests_are_refused_with_the_reason() {
    let many = |count: usize| {
        let inputs: Vec<String> = (0..count).map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#)).collect();
        format!(r#"{{"inputRequests":{{{}}}}}"#, inputs.join(","))
    };
    assert_eq!(RequiredInputs::read(&bytes(&many(MAX_INPUTS))).map(|required| required.inputs.len()), Ok(MAX_INPUTS));
    for (result, why) in [
        (many(MAX_INPUTS + 1), "its `inputRequests` is no object with at most 64 members"),
        ("{}".to_owned(), "it has neither `inputRequests` nor `requestState`"),
        ("[]".to_owned(), "it is malformed"),
        (r#"{"inputRequests":[]}"#.to_owned(), "its `inputRequests` is no object with at most 64 members"),
        (r#"{"inputRequests":{"a":{}}}"#.to_owned(), "an input request has no method"),
        (r#"{"inputRequests":{"a":7}}"#.to_owned(), "an input request is malformed"),
        (
            r#"{"inputRequests":{"a":{"method":"x"},"\u0061":{"method":"y"}}}"#.to_owned(),
            "two input requests have the same key",
        ),
    ] {
        assert_eq!(RequiredInputs::read(&bytes(&result)), Err(why), "{result:.80}");
    }
}

#[test]
fn written_input_requests_can_be_read_again() {
    let params = bytes(r#"{"message":"Who?"}"#);
    let result = required([("a\"", &b"elicitation/create"[..], Some(&params)), ("b", b"roots/list", None)], "x\"y");
    let inputs = vec![
        input(r#""a\"""#, "elicitation/create", Some(r#"{"message":"Who?"}"#)),
        input("\"b\"", "roots/list", None),
    ];
    assert_eq!(
        RequiredInputs::read(&result.into()),
        Ok(RequiredInputs { inputs, request_state: Some(bytes(r#""x\"y""#)) })
    );
}

#[test]
fn what_comes_back_is_read_if_it_says_from_where() {
    let read = |params: &str| retry_responses(&bytes(params));
    let expected =
        RetryResponses { responses: vec![(bytes("a\n"), bytes(r#"{"action":"accept"}"#))], request_state: bytes("s") };
    assert_eq!(
        read(r#"{"name":"t","requestState":"\u0073","inputResponses":{"a\n":{"action":"accept"}}}"#),
        Ok(Some(expected))
    );
    assert_eq!(
        read(r#"{"requestState":"s"}"#),
        Ok(Some(RetryResponses { responses: Vec::new(), request_state: bytes("s") }))
    );
    for none in ["{}", r#"{"inputResponses":{"a":{}}}"#, r#"{"requestState":null}"#] {
        assert_eq!(read(none), Ok(None), "{none}");
    }
    for bad in [
        "7",
        r#"{"requestState":7}"#,
        r#"{"requestState":"s","inputResponses":[]}"#,
        r#"{"requestState":"s","inputResponses":{"a":{},"a":{}}}"#,
        r#"{"requestState":"s","inputResponses":{"\ud800":{}}}"#,
        r#"{"requestState":"s","inputResponses":{"a":1}}"#,
        r#"{"inputResponses":{"a":1}}"#,
        r#"{"inputResponses":null}"#,
    ] {
        assert_eq!(read(bad), Err(NotAnObject), "{bad}");
    }
    let many: Vec<String> = (0..=MAX_INPUTS).map(|n| format!(r#""{n}":{{}}"#)).collect();
    assert_eq!(read(&format!(r#"{{"requestState":"s","inputResponses":{{{}}}}}"#, many.join(","))), Err(NotAnObject));
}

#[test]
fn an_elicitation_by_url_has_an_id_for_legacy_agents() {
    for (params, expected) in [
        (r#"{"mode":"url","url":"u"}"#, Some(r#"{"elicitationId":"e","mode":"url","url":"u"}"#)),
        (r#"{"mode":"url","elicitationId":"own"}"#, None),
        (r#"{"mode":"form"}"#, None),
        ("{}", None),
    ] {
        let params = bytes(params);
        let change = elicitation_to_legacy(&params, "e");
        assert_eq!(change.map(|change| applied(&params, &[change])), expected.map(|text| text.as_bytes().to_vec()));
    }
}
