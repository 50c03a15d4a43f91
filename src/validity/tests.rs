//! What is mended, what is left out, and that valid items pass unchanged.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::tests::bytes;

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
        (format!(r#"{name}"inputSchema":{{"type":null}}}}"#), Some(format!("{name}{OBJECT}}}"))),
        (format!(r#"{name}"inputSchema":{{"type":"object","properties":{{}},"properties":{{}}}}}}"#), None),
        (
            format!(r#"{name}{OBJECT},"outputSchema":{{"type":"object","type":"object"}}}}"#),
            Some(format!("{name}{OBJECT}}}")),
        ),
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
        (ListKind::Resources, r#"{"uri":"x://a","name":null,"size":1.5}"#, Some(r#"{"uri":"x://a","name":"x://a"}"#)),
        (ListKind::Resources, r#"{"name":5,"uri":"x://a"}"#, Some(r#"{"name":"x://a","uri":"x://a"}"#)),
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
        check_result(kind, &result, legacy.as_deref(), modern);
    }
}

#[test]
fn members_of_other_types_are_mended_in_results() {
    for (kind, result, expected) in [
        (
            ResultKind::Call,
            r#"{"content":[{"type":"text","text":"a","annotations":[]}],"isError":"false","_meta": []}"#,
            Some(r#"{"content":[{"type":"text","text":"a"}]}"#),
        ),
        (
            ResultKind::Call,
            r#"{"content":[{"type":"resource_link","uri":"x:a","name":5}]}"#,
            Some(r#"{"content":[{"type":"resource_link","uri":"x:a","name":"x:a"}]}"#),
        ),
        (ResultKind::Call, r#"{"content":[null]}"#, Some(r#"{"content":[]}"#)),
        (ResultKind::Call, r#"{"content":[{"type":"text","text":null}]}"#, None),
    ] {
        check_result(kind, result, expected, true);
    }
}

/// `expected` is what legacy agents see, and modern ones if `is_for_both` is set. Others see the result as it is.
fn check_result(kind: ResultKind, result: &str, expected: Option<&str>, is_for_both: bool) {
    let line = |result: &str| Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n"));
    let mended = |era| mended_response(kind, &line(result), era);
    let expected = expected.map(line);
    assert_eq!(mended(Era::Legacy), expected, "{result}");
    assert_eq!(mended(Era::Modern), expected.clone().filter(|_| is_for_both), "{result}");
    assert!(expected.is_none() || may_be_malformed(kind, &line(result)), "{result}");
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

/// A limit for what must be linear. What grows with the square of the size takes hours.
const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn the_time_for_an_item_is_linear_in_its_size() {
    let tool = |rest: &str| bytes(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},{rest}}}"#));
    let input = |rest: &str| bytes(&format!(r#"{{"name":"t","inputSchema":{{"type":"object",{rest}}}}}"#));
    let references: Vec<String> =
        (0..50_000).map(|number| format!(r##"{{"$ref":"#/$defs/a/properties/b{number}"}}"##)).collect();
    let nested = (0..60).fold(format!(r#"{{"enum":[{}1]}}"#, "1,".repeat(200_000)), |inner, _| {
        format!(r#"{{"properties":{{"a":{inner}}}}}"#)
    });
    let begin = Instant::now();
    for (item, is_left_out) in [
        (input(&format!(r#""required":[{}"a"]"#, "1,".repeat(500_000))), false),
        (input(&format!(r#""required":[{}"a"]"#, r#"1,"a","#.repeat(100_000))), true),
        (input(&format!(r#""properties":{{{}}}"#, r#""a":true,"#.repeat(100_000).trim_end_matches(','))), true),
        (tool(&format!(r#""outputSchema":{{"type":"object","anyOf":[{}]}}"#, references.join(","))), false),
        (tool(&format!(r#""outputSchema":{{"type":"object","not":{nested}}}"#)), false),
    ] {
        let validity = Validity::of_item(ListKind::Tools, &item);
        assert_eq!(validity.is_left_out(), is_left_out, "{:?}", validity.reasons().first());
        assert!(validity.reasons().len() <= MAX_REASONS && validity.changes(Era::Legacy).len() <= MAX_CHANGES);
        if is_left_out {
            assert_eq!((&*validity.reasons()[0].path, validity.reasons()[0].problem), ("", Problem::TooLong));
        }
    }
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}

#[test]
fn the_time_for_a_result_is_linear_in_its_size() {
    let blocks = vec![r#"{"type":"text","text":"[1,"}"#; 1000].join(",");
    let result = format!(r#"{{"content":[{blocks}],"structuredContent":[{}1]}}"#, "1,".repeat(1 << 20));
    let line = Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n"));
    let begin = Instant::now();
    let mended = mended_response(ResultKind::Call, &line, Era::Legacy).expect("it is mended");
    assert!(mended.len() > line.len() && begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}

#[test]
fn references_lead_to_parts_of_the_schema() {
    for (reference, leads) in [
        ("#", true),
        ("#/$defs/a", true),
        ("#/$defs/a~1b/items/1", true),
        ("#/%24defs/a", true),
        ("#/$defs/b", false),
        ("#/$defs/a~1b/items/2", false),
        ("a", false),
        ("#a", false),
    ] {
        let defs = r#""$defs":{"a":{},"a/b":{"items":[{},{}]}}"#;
        let schema = format!(r#"{{"type":"object",{defs},"not":{{"$ref":"{reference}"}}}}"#);
        let tool = bytes(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}"#));
        assert_eq!(Validity::of_item(ListKind::Tools, &tool).reasons().is_empty(), leads, "{reference}");
    }
}

#[test]
fn long_names_are_shortened_in_reasons_and_longer_definitions_are_counted() {
    let name = "n".repeat(1 << 20);
    let tool = bytes(&format!(
        r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"{name}":false}}}},"title":null}}"#
    ));
    let validity = Validity::of_item(ListKind::Tools, &tool);
    assert!(validity.reasons().iter().all(|reason| reason.path.len() < 300));
    assert_eq!(validity.growth(), 0, "`false` grows by 5 bytes, but a longer member is dropped");
    let resource = bytes(r#"{"uri":"x://long/uri","name":5}"#);
    assert_eq!(Validity::of_item(ListKind::Resources, &resource).growth(), r#""x://long/uri""#.len() - 1);
}

#[test]
fn server_info_without_a_fit_version_keeps_its_name() {
    for (info, expected) in [
        (r#"{"name":"s","version":1}"#, Some(r#"{"name":"s","version":"unknown"}"#)),
        (r#"{"version":null,"name":"s"}"#, Some(r#"{"version":"unknown","name":"s"}"#)),
        (r#"{"name":"s"}"#, Some(r#"{"version":"unknown","name":"s"}"#)),
        (r#"{"version":"1"}"#, None),
    ] {
        assert_eq!(mended_info(&bytes(info)).as_deref(), expected.map(str::as_bytes), "{info}");
    }
}

#[test]
fn only_results_that_may_be_malformed_are_looked_at() {
    let text = r#"{"type":"text","text":"a null or [] or \"_meta\": 5 in prose"}"#.replace("null", "nil");
    for (kind, result, is_suspicious) in [
        (ResultKind::Call, format!(r#"{{"content":[{text}],"isError":false}}"#), false),
        (ResultKind::Call, format!(r#"{{"content" : [{text}] , "isError" : true , "_meta" : {{}}}}"#), false),
        (ResultKind::Call, r#"{"content":[],"structuredContent":{"a":[]}}"#.to_owned(), false),
        (ResultKind::Call, r#"{"content":[{"type":"image","data":"","mimeType":"a/b"}]}"#.to_owned(), false),
        (ResultKind::Prompt, format!(r#"{{"messages":[{{"role":"user","content":{text}}}]}}"#), false),
        (ResultKind::Read, r#"{"contents":[{"uri":"x:a","mimeType":"a/b","text":"a"}]}"#.to_owned(), false),
        (ResultKind::Completion, r#"{"completion":{"values":["a"],"hasMore":false}}"#.to_owned(), false),
        (ResultKind::Call, r#"{"isError":false}"#.to_owned(), false),
        (ResultKind::Call, r#"{"content":[],"isError":"false"}"#.to_owned(), true),
        (ResultKind::Call, r#"{"content":[],"_meta": []}"#.to_owned(), true),
        (ResultKind::Call, r#"{"content":[{"type":"text","text":"","annotations":[]}]}"#.to_owned(), true),
        (ResultKind::Call, r#"{"content":[],"structuredContent":"a"}"#.to_owned(), true),
        (ResultKind::Call, r#"{"content":[null]}"#.to_owned(), true),
        (ResultKind::Call, r#"{"content":[{"type":"resource_link","uri":"x:a"}]}"#.to_owned(), true),
        (ResultKind::Completion, r#"{"completion":{"values":["a"],"total":1.5}}"#.to_owned(), true),
    ] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
        assert_eq!(may_be_malformed(kind, line.as_bytes()), is_suspicious, "{result}");
    }
}
