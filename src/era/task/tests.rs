//! What both eras say of a task, side by side.

use super::*;
use crate::jsonrpc::splice::applied;
use crate::jsonrpc::test_support::{bytes, text};

fn changed(raw: &str, change: impl Fn(&Bytes) -> Result<Vec<Change>, NotAnObject>) -> Result<String, NotAnObject> {
    let raw = bytes(raw);
    let changes = change(&raw)?;
    Ok(text(&applied(&raw, &changes)))
}

#[test]
fn new_task_is_reported_in_the_form_of_each_era() {
    for (modern, legacy) in [
        (r#"{"resultType":"task","taskId":"t"}"#, r#"{"task":{"taskId":"t"}}"#),
        (
            r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":6e4, "pollIntervalMs":5,"x":[]}"#,
            r#"{"task":{"taskId":"t","status":"working","ttl":6e4, "pollInterval":5,"x":[]}}"#,
        ),
        (
            r#"{"resultType":"task","ttlMs":null,"taskId":"t","_meta":{"a":1.0}}"#,
            r#"{"task":{"ttl":null,"taskId":"t"},"_meta":{"a":1.0}}"#,
        ),
    ] {
        assert_eq!(changed(modern, creation_to_legacy), Ok(legacy.to_owned()));
        assert_eq!(changed(legacy, creation_to_modern), Ok(modern.to_owned()));
    }
    for (legacy, modern) in [
        (
            r#"{"_meta":{}, "task" : { "taskId":"t" }, "status":"x"}"#,
            r#"{"resultType":"task","_meta":{},  "taskId":"t" }"#,
        ),
        (r#"{"taskId":"x","task":{"_meta":{},"taskId":"t"}}"#, r#"{"resultType":"task","taskId":"t"}"#),
    ] {
        assert_eq!(changed(legacy, creation_to_modern), Ok(modern.to_owned()), "{legacy}");
    }
    for none in ["[]", "{}", r#"{"task":{}}"#, r#"{"task":[]}"#, r#"{"task":{"taskId":7}}"#, r#"{"taskId":7}"#] {
        assert_eq!(changed(none, creation_to_modern), Err(NotAnObject), "{none}");
        assert_eq!(changed(none, creation_to_legacy), Err(NotAnObject), "{none}");
    }
}

#[test]
fn legacy_task_state_does_not_name_the_server() {
    const INFO: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"s","icons":[]}"#;
    for (meta, left) in [(INFO.to_owned(), ""), (format!(r#"{INFO},"a":1.0"#), r#""a":1.0"#)] {
        let in_meta = |members: &str| match members {
            "" => String::new(),
            members => format!(r#","_meta":{{{members}}}"#),
        };
        let made = format!(r#"{{"resultType":"task","taskId":"t","_meta":{{{meta}}}}}"#);
        assert_eq!(changed(&made, creation_to_legacy), Ok(format!(r#"{{"task":{{"taskId":"t"}}{}}}"#, in_meta(left))));
        let state = format!(r#"{{"taskId":"t","_meta":{{{meta}}},"status":"working"}}"#);
        let legacy = format!(r#"{{"taskId":"t"{},"status":"working"}}"#, in_meta(left));
        assert_eq!(changed(&state, state_to_legacy), Ok(legacy));
        let result = format!(r#"{{"content":[],"_meta":{{{meta}}}}}"#);
        let related = r#""io.modelcontextprotocol/related-task":{"taskId":"t"}"#;
        let members = if left.is_empty() { related.to_owned() } else { format!("{related},{left}") };
        let legacy = format!(r#"{{"content":[]{}}}"#, in_meta(&members));
        assert_eq!(changed(&result, |result| result_to_legacy(result, &bytes(r#""t""#))), Ok(legacy));
    }
}

#[test]
fn a_modern_state_has_more_than_a_legacy_one() {
    for (modern, legacy) in [
        (
            r#"{"resultType":"complete","taskId":"t","status":"completed","ttlMs":1.0,"result":{"content":[]}}"#,
            r#"{"taskId":"t","status":"completed","ttl":1.0}"#,
        ),
        (r#"{"taskId":"t","inputRequests":{},"pollIntervalMs":5}"#, r#"{"taskId":"t","pollInterval":5}"#),
        (r#"{"error":{},"ttlMs":1,"ttl":2}"#, r#"{"ttlMs":1,"ttl":2}"#),
        (r#"{"status":"completed","result":{"isError":true}}"#, r#"{"status":"failed"}"#),
        (r#"{"result":{"isError":false},"status":"completed"}"#, r#"{"status":"completed"}"#),
        (r#"{"status":"cancelled","result":{"isError":true}}"#, r#"{"status":"cancelled"}"#),
    ] {
        assert_eq!(changed(modern, state_to_legacy), Ok(legacy.to_owned()));
    }
    let modern = |legacy: &str, detail| changed(legacy, |state| state_to_modern(state, detail));
    let (result, inputs) = (bytes(r#"{"isError":true}"#), bytes(r#"{"k":{"method":"roots/list"}}"#));
    let failed = r#"{"taskId":"t","status":"failed","ttl":null,"x":1.0}"#;
    for (detail, expected) in [
        (Detail::None, r#"{"resultType":"complete","taskId":"t","status":"failed","ttlMs":null,"x":1.0}"#),
        (
            Detail::Result(&result),
            r#"{"resultType":"complete","result":{"isError":true},"taskId":"t","status":"completed","ttlMs":null,"x":1.0}"#,
        ),
        (
            Detail::Error(&result),
            r#"{"resultType":"complete","error":{"isError":true},"taskId":"t","status":"failed","ttlMs":null,"x":1.0}"#,
        ),
        (
            Detail::Inputs(&inputs),
            r#"{"resultType":"complete","inputRequests":{"k":{"method":"roots/list"}},"taskId":"t","status":"input_required","ttlMs":null,"x":1.0}"#,
        ),
        (Detail::InputsPending, r#"{"resultType":"complete","taskId":"t","status":"working","ttlMs":null,"x":1.0}"#),
    ] {
        assert_eq!(modern(failed, detail), Ok(expected.to_owned()));
    }
    assert_eq!(modern("[]", Detail::None), Err(NotAnObject));
}

#[test]
fn reported_task_depends_on_the_kind_of_report() {
    for (result, report, expected) in [
        (r#"{"resultType":"task","taskId":"t\n"}"#, TaskReport::Created, Some(r#""t\n""#)),
        (r#"{"resultType":"task","taskId":"t"}"#, TaskReport::State, None),
        (r#"{"resultType":"complete","taskId":"t"}"#, TaskReport::State, Some(r#""t""#)),
        (r#"{"resultType":"complete","taskId":"t"}"#, TaskReport::Created, None),
        (r#"{"resultType":"complete"}"#, TaskReport::State, None),
        ("[]", TaskReport::State, None),
    ] {
        assert_eq!(reported_task_id(&bytes(result), report), expected.map(bytes), "{result}");
    }
}

#[test]
fn how_far_a_task_is_can_be_read() {
    let read = |state: &str| Status::read(&bytes(state));
    for (state, expected) in [
        (r#"{"status":"working"}"#, Some(Status::Working)),
        (r#"{"status":"completed","result":{"a":1}}"#, Some(Status::Completed(Some(bytes(r#"{"a":1}"#))))),
        (r#"{"status":"completed"}"#, Some(Status::Completed(None))),
        (r#"{"status":"failed","error":{"code":1}}"#, Some(Status::Failed(Some(bytes(r#"{"code":1}"#))))),
        (r#"{"status":"input_required","inputRequests":{}}"#, Some(Status::InputRequired(Some(bytes("{}"))))),
        (r#"{"status":"cancelled","result":{}}"#, Some(Status::Cancelled)),
        (r#"{"status":"paused"}"#, None),
        ("{}", None),
        ("[]", None),
    ] {
        assert_eq!(read(state), expected, "{state}");
    }
}

#[test]
fn a_result_says_of_which_task_it_is_in_the_legacy_era() {
    for (modern, legacy) in [
        (
            r#"{"resultType":"complete","content":[]}"#,
            r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}},"content":[]}"#,
        ),
        (
            r#"{"content":[],"_meta":{"a":1.0}}"#,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"a":1.0}}"#,
        ),
        (r#"{"_meta":null}"#, r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#),
    ] {
        assert_eq!(changed(modern, |result| result_to_legacy(result, &bytes("\"t\""))), Ok(legacy.to_owned()));
    }
    assert_eq!((status_of(&bytes("{}")), status_of(&bytes(r#"{"isError":true}"#))), ("completed", "failed"));
    let question = |params: &str| changed(params, |params| input_params_to_legacy(params, &bytes("\"t\"")));
    let related = r#""io.modelcontextprotocol/related-task":{"taskId":"t"}"#;
    assert_eq!(question(r#"{"message":"?"}"#), Ok(format!(r#"{{"_meta":{{{related}}},"message":"?"}}"#)));
    assert_eq!(
        question(r#"{"ttlMs":1,"_meta":{"progressToken":7}}"#),
        Ok(format!(r#"{{"ttlMs":1,"_meta":{{{related},"progressToken":7}}}}"#))
    );
    assert_eq!(question("[]"), Err(NotAnObject));
}

#[test]
fn a_question_says_of_which_task_it_is_in_the_legacy_era_alone() {
    let related = r#""io.modelcontextprotocol/related-task":{"taskId":"\u0074","x":1}"#;
    for (legacy, modern) in [
        (r#"{"message":"m","_meta":{RELATED}}"#, r#"{"message":"m"}"#),
        (r#"{"_meta":{"progressToken":7,RELATED},"n":1.0}"#, r#"{"_meta":{"progressToken":7},"n":1.0}"#),
    ] {
        let legacy = legacy.replace("RELATED", related);
        assert_eq!(related_id(&bytes(&legacy)), Some(bytes("t")), "{legacy}");
        assert_eq!(changed(&legacy, input_params_to_modern), Ok(modern.to_owned()));
    }
    for other in [
        r#"{"message":"related-task"}"#,
        r#"{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#,
        r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":7}}}"#,
        r#"{"_meta":{"io.modelcontextprotocol/related-task":"t"}}"#,
        "[]",
    ] {
        assert_eq!(related_id(&bytes(other)), None, "{other}");
    }
}

#[test]
fn notification_has_the_name_and_the_state_of_its_era() {
    let modern = r#"{"jsonrpc":"2.0", "params":{"status":"completed","result":{"isError":true},"taskId":"t","ttlMs":1.0},"method":"notifications\/tasks"}"#;
    let legacy = r#"{"jsonrpc":"2.0", "params":{"status":"failed","taskId":"t","ttl":1.0},"method":"notifications/tasks/status"}"#;
    assert_eq!(changed(modern, notification_to_legacy), Ok(legacy.to_owned()));
    for none in [r#"{"method":"notifications/tasks"}"#, r#"{"method":"notifications/tasks","params":[]}"#] {
        assert_eq!(changed(none, notification_to_legacy), Err(NotAnObject), "{none}");
    }
    let state = bytes(r#"{"resultType":"complete","result":{"resultType":"complete"},"taskId":"t"}"#);
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tasks","params":{"result":{"resultType":"complete"},"taskId":"t"}}"#;
    assert_eq!(notification_of(&state).as_deref(), Ok(line.as_bytes()));
    assert_eq!(notification_of(&bytes("7")), Err(NotAnObject));
}
