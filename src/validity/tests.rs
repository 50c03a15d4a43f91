//! What is mended, what is left out, and that valid items pass unchanged.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::test_support::bytes;

/// The definition as agents of an era see it; `None` if it is left out.
fn seen(kind: ListKind, definition: &Bytes, era: Era) -> Option<Bytes> {
    let validity = Validity::of_item(kind, definition);
    (!validity.is_left_out()).then(|| applied(definition, validity.changes(era)).into())
}

#[test]
fn a_tool_is_mended_or_left_out() {
    const OBJECT: &str = r#""inputSchema":{"type":"object"}"#;
    let name = r#"{"name":"t","#;
    for (tool, expected) in [
        (format!(r#"{name}"description":null,{OBJECT}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (format!(r#"{name}{OBJECT} , "title":7}}"#), Some(format!("{name}{OBJECT}}}"))),
        (format!(r#"{{ "icons" : null , "name":"t",{OBJECT}}}"#), Some(format!("{{ \"name\":\"t\",{OBJECT}}}"))),
        (
            format!(r#"{name}{OBJECT},"annotations":{{"title":"T","readOnlyHint":null,"x":null}}}}"#),
            Some(format!(r#"{name}{OBJECT},"annotations":{{"title":"T","x":null}}}}"#)),
        ),
        (format!(r#"{name}{OBJECT},"annotations":[]}}"#), Some(format!("{name}{OBJECT}}}"))),
        (
            format!(r#"{name}{OBJECT},"icons":[{{"src":"a"}},null,{{}},{{"src":"b","sizes":"9x9"}}]}}"#),
            Some(format!(r#"{name}{OBJECT},"icons":[{{"src":"a"}},{{"src":"b"}}]}}"#)),
        ),
        (format!(r#"{name}"inputSchema":{{}}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (format!(r#"{name}"inputSchema":{{"required":null, "properties":null}}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (
            format!(r#"{name}"inputSchema":{{"anyOf":[]}}}}"#),
            Some(format!(r#"{name}"inputSchema":{{"type":"object","anyOf":[]}}}}"#)),
        ),
        (format!(r#"{name}"inputSchema":{{"type":["object","null"]}}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (format!(r#"{name}"inputSchema":{{"type":"string"}}}}"#), None),
        (format!(r#"{name}"inputSchema":null}}"#), None),
        (r#"{"name":"t"}"#.to_owned(), None),
        (format!(r#"{name}{OBJECT},{OBJECT}}}"#), None),
        (
            format!(
                r#"{name}"inputSchema":{{"type":"object","properties":{{"a":true,"b":false,"c":null,"d":{{}}}},"required":null}}}}"#
            ),
            Some(format!(
                r#"{name}"inputSchema":{{"type":"object","properties":{{"a":{{}},"b":{{"not":{{}}}},"c":{{}},"d":{{}}}}}}}}"#
            )),
        ),
        (format!(r#"{name}"inputSchema":{{"type":"object","properties":{{"a":"text"}}}}}}"#), None),
        (format!(r#"{name}{OBJECT},"outputSchema":{{"type":"array"}}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (
            format!(r#"{name}{OBJECT},"outputSchema":{{"type":"object","properties":{{"a":{{"type":"int"}}}}}}}}"#),
            Some(format!("{name}{OBJECT}}}")),
        ),
    ] {
        let found = seen(ListKind::Tools, &bytes(&tool), Era::Legacy);
        assert_eq!(found.map(|found| String::from_utf8(found.into()).expect("text")), expected, "{tool}");
    }
}

#[test]
fn modern_agents_receive_what_their_version_permits() {
    let input = r#""inputSchema":{"type":"object","properties":{"a":true}}"#;
    for rest in [
        input.to_owned(),
        format!(r#"{input},"outputSchema":{{"type":"array"}}"#),
        format!(r#"{input},"outputSchema":{{}}"#),
    ] {
        let tool = bytes(&format!(r#"{{"name":"t",{rest}}}"#));
        assert_eq!(seen(ListKind::Tools, &tool, Era::Modern).as_ref(), Some(&tool));
        let validity = Validity::of_item(ListKind::Tools, &tool);
        assert!(validity.differs_by_era() && validity.reasons().iter().all(|reason| reason.is_legacy_only), "{rest}");
    }
}

#[test]
fn other_kinds_are_mended_or_left_out() {
    for (kind, item, expected) in [
        (ListKind::Prompts, r#"{"name":"p","arguments":null}"#, Some(r#"{"name":"p"}"#)),
        (
            ListKind::Prompts,
            r#"{"name":"p","arguments":[null,{"name":"a","required":"yes"}]}"#,
            Some(r#"{"name":"p","arguments":[{"name":"a"}]}"#),
        ),
        (ListKind::Prompts, r#"{"name":"p","arguments":[{"description":"a"}]}"#, None),
        (ListKind::Resources, r#"{"uri":"x://a","name":null,"size":1.5}"#, Some(r#"{"name":"x://a","uri":"x://a"}"#)),
        (ListKind::Resources, r#"{"uri":"a/b","name":"a"}"#, None),
        (
            ListKind::Resources,
            r#"{"uri":"x:a","name":"a","annotations":{"priority":2,"audience":["x","user"],"lastModified":"2025-01-12"}}"#,
            Some(r#"{"uri":"x:a","name":"a","annotations":{"audience":["user"]}}"#),
        ),
        (ListKind::Templates, r#"{"uriTemplate":"x://{a}"}"#, Some(r#"{"name":"x://{a}","uriTemplate":"x://{a}"}"#)),
    ] {
        for era in [Era::Legacy, Era::Modern] {
            let found = seen(kind, &bytes(item), era);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{item}");
        }
    }
}

#[test]
fn a_dropped_member_is_named_once_and_with_the_deepest_reason() {
    let tool = bytes(r#"{"name":"t","inputSchema":{"type":"object"},"icons":[{"mimeType":null}],"title":null}"#);
    let reasons: Vec<_> = Validity::of_item(ListKind::Tools, &tool).reasons().to_vec();
    let reason =
        |path: &str, problem| Reason { path: path.into(), problem, action: Action::Dropped, is_legacy_only: false };
    assert_eq!(reasons, [reason("icons[0].src", Problem::Missing), reason("title", Problem::Null)]);
}

#[test]
fn results_are_mended_for_their_era() {
    let text = r#"{"type":"text","text":"[1]"}"#;
    for (kind, result, legacy, modern) in [
        (ResultKind::Call, r#"{"content":[],"isError":null}"#.to_owned(), Some(r#"{"content":[]}"#.to_owned()), true),
        (
            ResultKind::Call,
            r#"{"content":[],"structuredContent":[1]}"#.to_owned(),
            Some(format!(r#"{{"content":[{text}]}}"#)),
            false,
        ),
        (
            ResultKind::Call,
            format!(r#"{{"content":[{text}],"structuredContent":[ 1 ]}}"#),
            Some(format!(r#"{{"content":[{text}]}}"#)),
            false,
        ),
        (
            ResultKind::Call,
            r#"{"structuredContent":{"a":null}}"#.to_owned(),
            Some(r#"{"content":[],"structuredContent":{"a":null}}"#.to_owned()),
            true,
        ),
        (ResultKind::Call, r#"{"content":[],"structuredContent":{"a":null}}"#.to_owned(), None, false),
        (ResultKind::Call, r#"{"content":[{"type":"video","x":null}],"isError":null}"#.to_owned(), None, false),
        (ResultKind::Call, r#"{"resultType":"task","content":null}"#.to_owned(), None, false),
        (ResultKind::Call, r#"{"task":{"taskId":"t","ttl":null}}"#.to_owned(), None, false),
        (
            ResultKind::Read,
            r#"{"contents":[{"uri":"x://a","text":"a","blob":null,"mimeType":null}]}"#.to_owned(),
            Some(r#"{"contents":[{"uri":"x://a","text":"a"}]}"#.to_owned()),
            true,
        ),
        (
            ResultKind::Prompt,
            r#"{"description":null,"messages":[{"role":"user","content":{"type":"text","text":"a","_meta":null}}]}"#
                .to_owned(),
            Some(r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#.to_owned()),
            true,
        ),
        (
            ResultKind::Completion,
            r#"{"completion":{"values":["a"],"total":null}}"#.to_owned(),
            Some(r#"{"completion":{"values":["a"]}}"#.to_owned()),
            true,
        ),
    ] {
        let line = |result: &str| Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n"));
        let mended = |era| mended_response(kind, &line(&result), era);
        let expected = legacy.as_deref().map(line);
        assert_eq!(mended(Era::Legacy), expected, "{result}");
        assert_eq!(mended(Era::Modern), expected.filter(|_| modern), "{result}");
    }
}

/// Values that servers send in place of others.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3i64).prop_map(Value::from),
        "[a-c]{0,3}|object|string|user|x://a".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c]|type|properties|required|src|audience|name|anyOf", inner, 0..4)
                .prop_map(|members| json!(members)),
        ]
    })
}

/// An item of a kind with its key and some members, of any value or of the usual one.
fn any_item() -> impl Strategy<Value = (ListKind, Bytes)> {
    const NAMES: [&str; 14] = [
        "title",
        "description",
        "icons",
        "inputSchema",
        "outputSchema",
        "annotations",
        "execution",
        "_meta",
        "arguments",
        "size",
        "mimeType",
        "name",
        "uri",
        "x",
    ];
    let kind = prop::sample::select(&ListKind::ALL[..]);
    (kind, prop::collection::hash_map(prop::sample::select(&NAMES[..]), any_value(), 0..6)).prop_map(
        |(kind, members)| {
            let mut item = json!({ "inputSchema": { "type": "object" } });
            members.into_iter().for_each(|(name, value)| item[name] = value);
            item[kind.key()] = json!("x://a");
            (kind, Bytes::from(item.to_string()))
        },
    )
}

proptest! {
    #[test]
    fn a_mended_item_is_valid_and_a_valid_one_untouched((kind, item) in any_item()) {
        for era in [Era::Legacy, Era::Modern] {
            let Some(mended) = seen(kind, &item, era) else { continue };
            prop_assert!(serde_json::from_slice::<Value>(&mended).is_ok(), "{:?}", mended);
            let (changes, reasons) = judge(rules::of_kind(kind), &mended, era, MAX_CHANGES).expect("it fits");
            prop_assert!(changes.is_empty() && reasons.is_empty(), "{:?} {:?}", mended, reasons);
        }
    }
}
