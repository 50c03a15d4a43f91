//! Responses of both eras: the translation of results and errors, and tasks in results of the modern era.
//!
//! In the modern era, tasks are an extension: the server decides to create a task for a client that supports tasks. Source: MCP
//! 2026-07-28, `basic`, "ResultType" and "Error Codes", `server/resources`, "Error Handling", and `server/utilities/caching`; extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28.

use bytes::Bytes;
use serde_json::json;

use super::input::{self, RequiredInputs};
use super::{MISSING_CAPABILITY, TASKS, meta};
use crate::jsonrpc::members::{NotAnObject, elements, members, members_of_parsed, text};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Cut, cut_nested, replace_members, with_first};
use crate::printable::excerpt;

/// A person has to open a URL first. MCP 2025-11-25 only (`client/elicitation`, "Error Handling").
const URL_REQUIRED: i32 = -32042;
/// Prefix of the keys of such URLs in `inputRequests`.
const URL_KEY: &str = "url-";
/// Codes that the modern era reserves.
const RESERVED: std::ops::RangeInclusive<i32> = -32099..=-32020;

/// Translates `error` of a modern server for a legacy agent. The error answers a request of this method.
///
/// In the modern era an unknown resource is an invalid parameter. Its `data` has the `uri`, which distinguishes it from others.
#[must_use]
pub fn error_to_legacy(method: &[u8], error: &Bytes) -> Option<Change> {
    if method != b"resources/read" {
        return None;
    }
    let (code, number) = code(error)?;
    let [data] = members(error, ["data"]).ok()?;
    let [uri] = members(&data?, ["uri"]).ok()?;
    let is_not_found = number == INVALID_PARAMS && uri.as_ref().and_then(text).is_some();
    is_not_found.then(|| replaced(code, RESOURCE_NOT_FOUND))
}

/// The modern form of an error of a legacy server.
#[derive(Debug, PartialEq, Eq)]
pub enum ErrorToModern {
    /// The same error.
    Unchanged,
    /// The error with another code.
    Changed(Change),
    /// This result, which requires that URLs are opened before a retry without a state. Only for an agent that has declared the
    /// capability.
    Required(Vec<u8>),
}

/// Translates `error` of a legacy server for a modern agent. The error answers a request of this method.
#[must_use]
pub fn error_to_modern(method: &[u8], error: &Bytes) -> ErrorToModern {
    let Some((code, number)) = code(error) else { return ErrorToModern::Unchanged };
    match number {
        RESOURCE_NOT_FOUND => ErrorToModern::Changed(replaced(code, INVALID_PARAMS)),
        URL_REQUIRED if input::may_be_required(method) => match urls(error) {
            Some(result) => ErrorToModern::Required(result),
            None => ErrorToModern::Changed(replaced(code, INTERNAL_ERROR)),
        },
        reserved if RESERVED.contains(&reserved) => ErrorToModern::Changed(replaced(code, INTERNAL_ERROR)),
        _ => ErrorToModern::Unchanged,
    }
}

/// Replaces the code of an error that requires URLs, for an agent that cannot open them.
#[must_use]
pub fn without_urls(error: &Bytes) -> Option<Change> {
    let (code, number) = code(error)?;
    (number == URL_REQUIRED).then(|| replaced(code, INTERNAL_ERROR))
}

/// The error for a request that has to declare this client capability, such as `elicitation.url`: the server has failed without it.
///
/// Source: MCP 2026-07-28, `basic`, "Error Codes".
#[must_use]
pub fn missing_capability(capability: &str, server: &str) -> ErrorObject {
    let declared = capability.rsplit('.').fold(json!({}), |inner, name| json!({ name: inner }));
    let message = format!("server `{server}` requires `{capability}`, which the request does not declare");
    let data = Some(json!({ "requiredCapabilities": declared }));
    ErrorObject { data, ..ErrorObject::new(MISSING_CAPABILITY, message) }
}

/// A URL required by [`error_to_modern`] that the retry with these params reports as not opened: its key, and the refusal. The server would
/// only require the URL again.
#[must_use]
pub fn unopened(params: &Bytes) -> Option<(String, &'static str)> {
    // Few requests have such a key.
    memchr::memmem::find(params, URL_KEY.as_bytes())?;
    let [responses, state] = members_of_parsed(params, ["inputResponses", "requestState"]).ok()?;
    if state.is_some_and(|raw| raw[..] != b"null"[..]) {
        return None;
    }
    let refusal = |response: &Bytes| match &members(response, ["action"]).ok().and_then(|[action]| text(&action?))?[..]
    {
        b"decline" => Some("declined"),
        b"cancel" => Some("cancelled"),
        _ => None,
    };
    let all = input::responses(Some(&responses?)).ok()?;
    all.iter()
        .filter(|(key, _)| key.starts_with(URL_KEY.as_bytes()))
        .find_map(|(key, response)| Some((String::from_utf8_lossy(key).into_owned(), refusal(response)?)))
}

/// The result that requires the URLs of this error.
fn urls(error: &Bytes) -> Option<Vec<u8>> {
    let [data] = members(error, ["data"]).ok()?;
    let [all] = members(&data?, ["elicitations"]).ok()?;
    let all = elements(&all?, input::MAX_INPUTS)?;
    let are_objects = all.iter().all(|raw| raw.first() == Some(&b'{'));
    let keys: Vec<String> = (1..=all.len()).map(|number| format!("{URL_KEY}{number}")).collect();
    let inputs = keys.iter().zip(&all).map(|(key, params)| (&key[..], &b"elicitation/create"[..], Some(params)));
    (are_objects && !all.is_empty()).then(|| input::required_without_state(inputs))
}

/// The code, raw and as a number.
fn code(error: &Bytes) -> Option<(Bytes, i32)> {
    let [code] = members(error, ["code"]).ok()?;
    let code = code?;
    let number = serde_json::from_slice(&code).ok()?;
    Some((code, number))
}

fn replaced(code: Bytes, number: i32) -> Change {
    Change { part: code, replacement: number.to_string().into() }
}

/// Maximum number of characters of a `resultType` that is quoted in an error.
const MAX_KIND_LEN: usize = 40;

/// The meaning of a modern result for a legacy agent.
#[derive(Debug, PartialEq, Eq)]
pub enum ToLegacy {
    /// A result, with these changes.
    Complete(Vec<Change>),
    /// The server requires inputs first.
    Required(RequiredInputs),
    /// A kind of result that legacy agents do not know: its printable `resultType`.
    Unknown(String),
    /// The required inputs are malformed; the reason is for a person.
    Malformed(&'static str),
}

/// Translates a modern result for a legacy agent. The name, version and icons of the server are removed, because a legacy client
/// gets them with `initialize`.
///
/// # Errors
/// If it is no object.
pub fn result_to_legacy(result: &Bytes) -> Result<ToLegacy, NotAnObject> {
    let names = ["resultType", "ttlMs", "cacheScope"];
    let Cut { values: [kind, ..], changes, .. } = cut_nested(result, names, ("_meta", meta::SERVER))?;
    // A modern server may omit it.
    let Some(kind) = kind.filter(|raw| raw[..] != b"null"[..]) else { return Ok(ToLegacy::Complete(changes)) };
    let kind = text(&kind).unwrap_or(kind);
    Ok(match &kind[..] {
        b"complete" => ToLegacy::Complete(changes),
        b"input_required" => RequiredInputs::read(result).map_or_else(ToLegacy::Malformed, ToLegacy::Required),
        other => ToLegacy::Unknown(excerpt(&String::from_utf8_lossy(other), MAX_KIND_LEN)),
    })
}

/// The changes that add `resultType` to a modern result without one. `None` if it has one, requests input or is about a task.
#[must_use]
pub fn with_result_type(result: &Bytes) -> Option<Vec<Change>> {
    let [kind, inputs, state, task] =
        members_of_parsed(result, ["resultType", "inputRequests", "requestState", "taskId"]).ok()?;
    let is_complete = [inputs, state, task].iter().all(Option::is_none);
    let lacks_type = kind.is_none_or(|kind| kind[..] == *b"null");
    (lacks_type && is_complete).then(|| replace_members(result, &["resultType"], r#""resultType":"complete""#).ok())?
}

/// Whether the results of a method have cache hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Of any other method.
    No,
    /// Of one of the lists, `resources/read` or `server/discover`.
    Yes,
}

/// Translates the result of a legacy server for a modern agent. Missing cache hints forbid caching, because the server has given
/// none.
///
/// # Errors
/// If it is no object.
pub fn result_to_modern(result: &Bytes, caching: Caching) -> Result<Vec<Change>, NotAnObject> {
    let [kind, ttl, scope] = members_of_parsed(result, ["resultType", "ttlMs", "cacheScope"])?;
    let is_cached = caching == Caching::Yes;
    let missing: Vec<&str> = [
        (kind.is_none(), r#""resultType":"complete""#),
        (is_cached && ttl.is_none(), r#""ttlMs":0"#),
        (is_cached && scope.is_none(), r#""cacheScope":"private""#),
    ]
    .into_iter()
    .filter_map(|(is_missing, member)| is_missing.then_some(member))
    .collect();
    Ok(if missing.is_empty() { Vec::new() } else { vec![with_first(result, &missing.join(","))] })
}

/// How a modern result reports a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskReport {
    /// It says that the call has created the task.
    Created,
    /// It is the state of the task.
    State,
}

/// The raw id of the task that this modern result reports in this way.
#[must_use]
pub fn reported_task_id(result: &Bytes, report: TaskReport) -> Option<Bytes> {
    let [kind, id] = members_of_parsed(result, ["resultType", "taskId"]).ok()?;
    let is_made = kind.as_ref().and_then(text).is_some_and(|kind| kind[..] == *b"task");
    id.filter(|_| is_made == (report == TaskReport::Created))
}

/// The error for a request that does not declare the extension for tasks.
///
/// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
#[must_use]
pub fn missing_task_support() -> ErrorObject {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    ErrorObject {
        data: Some(data),
        ..ErrorObject::new(MISSING_CAPABILITY, "the request does not declare the extension for tasks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::input::{Input, RequiredInputs};
    use crate::jsonrpc::splice::applied;
    use crate::jsonrpc::tests::{bytes, text};

    #[test]
    fn unknown_resource_has_its_own_code_in_the_legacy_era() {
        let legacy = |method: &str, error: &str| {
            let error = bytes(error);
            error_to_legacy(method.as_bytes(), &error).map(|change| text(&applied(&error, &[change])))
        };
        let not_found = r#"{"code": -32602,"message":"Resource not found","data":{"uri":"a://b","n":1.0}}"#;
        let expected = not_found.replace("-32602", "-32002");
        assert_eq!(legacy("resources/read", not_found), Some(expected));
        assert_eq!(legacy("tools/call", not_found), None);
        for other in [
            r#"{"code":-32602,"message":"uri is missing"}"#,
            r#"{"code":-32602,"message":"","data":"a://b"}"#,
            r#"{"code":-32602,"message":"","data":{"uri":7}}"#,
            r#"{"code":-32603,"message":"","data":{"uri":"a://b"}}"#,
            r#"{"code":"-32602","data":{"uri":"a://b"}}"#,
            "{}",
            "7",
        ] {
            assert_eq!(legacy("resources/read", other), None, "{other}");
        }
    }

    #[test]
    fn code_unknown_to_the_modern_era_is_replaced() {
        for (method, code, expected) in [
            ("resources/read", "-32002", Some("-32602")),
            ("tools/call", "-32002", Some("-32602")),
            ("tools/call", "-32022", Some("-32603")),
            ("tools/call", "-32099", Some("-32603")),
            ("tools/list", "-32042", Some("-32603")),
            ("tools/call", "-32042", Some("-32603")),
            ("tools/call", "-32001", None),
            ("tools/call", "-32100", None),
            ("tools/call", "-31001", None),
            ("tools/call", "-32602.5", None),
            ("tools/call", "1e400", None),
        ] {
            let error = bytes(&format!(r#"{{"message":"m","code":{code},"data":[1.0]}}"#));
            let changed = match error_to_modern(method.as_bytes(), &error) {
                ErrorToModern::Changed(change) => Some(text(&applied(&error, &[change]))),
                ErrorToModern::Unchanged => None,
                ErrorToModern::Required(_) => panic!("{code} asks for nothing"),
            };
            let expected = expected.map(|code| format!(r#"{{"message":"m","code":{code},"data":[1.0]}}"#));
            assert_eq!(changed, expected, "{method} {code}");
        }
    }

    #[test]
    fn required_urls_become_required_inputs() {
        let url = r#"{"mode":"url","elicitationId":"e","url":"https://a","message":"m"}"#;
        let error = bytes(&format!(r#"{{"code":-32042,"message":"m","data":{{"elicitations":[{url}, {url}]}}}}"#));
        let ErrorToModern::Required(result) = error_to_modern(b"tools/call", &error) else {
            panic!("URLs are asked for")
        };
        let input =
            |key: &str| Input { key: bytes(key), method: bytes("elicitation/create"), params: Some(bytes(url)) };
        let inputs = vec![input(r#""url-1""#), input(r#""url-2""#)];
        assert_eq!(RequiredInputs::read(&result.into()), Ok(RequiredInputs { inputs, request_state: None }));
        let instead = applied(&error, &[without_urls(&error).expect("its code is of the legacy era")]);
        assert!(text(&instead).starts_with(r#"{"code":-32603,"message":"m","data":{"#));
        for (responses, expected) in [
            (r#"{"url-1":{"action":"accept"},"url-2":{"action":"decline"}}"#, Some(("url-2".to_owned(), "declined"))),
            (r#"{"url-2":{"action":"cancel"}}"#, Some(("url-2".to_owned(), "cancelled"))),
            (r#"{"url-1":{"action":"accept"}}"#, None),
            (r#"{"1":{"action":"decline"},"url-1":7}"#, None),
            ("null", None),
        ] {
            let params = format!(r#"{{"name":"t","inputResponses":{responses}}}"#);
            assert_eq!(unopened(&params.clone().into()), expected, "{params}");
            let with_state = params.replacen('{', r#"{"requestState":"s","#, 1);
            assert_eq!(unopened(&with_state.into()), None);
        }
        for none in ["[]", "[7]", "{}", "null"] {
            let error = bytes(&format!(r#"{{"code":-32042,"message":"m","data":{{"elicitations":{none}}}}}"#));
            assert!(matches!(error_to_modern(b"tools/call", &error), ErrorToModern::Changed(_)), "{none}");
        }
    }

    #[test]
    fn complete_result_loses_modern_members() {
        for (modern, legacy) in [
            (r#"{"resultType":"complete","content":[],"isError":false}"#, r#"{"content":[],"isError":false}"#),
            (r#"{"resultType":"complete"}"#, "{}"),
            (
                r#"{"contents":[{"ttlMs":1}], "ttlMs":5,"resultType":"complete" ,"cacheScope":"public"}"#,
                r#"{"contents":[{"ttlMs":1}]}"#,
            ),
            (r#"{"content":[],"n":1.0}"#, r#"{"content":[],"n":1.0}"#),
            (r#"{"resultType":null,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#, "{}"),
            (
                r#"{"_meta":{"io.modelcontextprotocol\/serverInfo":{"icons":[]}},"resultType":"complete","a":1}"#,
                r#"{"a":1}"#,
            ),
            (
                r#"{"resultType":"complete","_meta":{"a":1.0, "io.modelcontextprotocol/serverInfo":{}},"ttlMs":1}"#,
                r#"{"_meta":{"a":1.0}}"#,
            ),
            (r#"{"resultType":"complete","_meta":{}}"#, r#"{"_meta":{}}"#),
            (r#"{"resultType":"complete","_meta":[1.0]}"#, r#"{"_meta":[1.0]}"#),
            (r#"{"resultType":"\u0063omplete","a":1}"#, r#"{"a":1}"#),
        ] {
            let result = bytes(modern);
            let Ok(ToLegacy::Complete(changes)) = result_to_legacy(&result) else { panic!("{modern} is complete") };
            assert_eq!(text(&applied(&result, &changes)), legacy);
        }
    }

    #[test]
    fn result_type_decides_the_meaning_of_a_result() {
        let read = |result: &str| result_to_legacy(&bytes(result));
        let required = RequiredInputs { inputs: Vec::new(), request_state: Some(bytes("\"s\"")) };
        assert_eq!(read(r#"{"resultType":"input_required","requestState":"s"}"#), Ok(ToLegacy::Required(required)));
        let why = "it has neither `inputRequests` nor `requestState`";
        assert_eq!(read(r#"{"resultType":"input_required"}"#), Ok(ToLegacy::Malformed(why)));
        assert_eq!(read(r#"{"resultType":"task","taskId":"t"}"#), Ok(ToLegacy::Unknown("task".to_owned())));
        assert_eq!(read(r#"{"resultType":"a\nb"}"#), Ok(ToLegacy::Unknown("a\\nb".to_owned())));
        assert_eq!(read(r#"{"resultType":7}"#), Ok(ToLegacy::Unknown("7".to_owned())));
        let Ok(ToLegacy::Unknown(shown)) = read(&format!(r#"{{"resultType":"{}"}}"#, "x".repeat(99))) else { panic!() };
        assert_eq!(shown, "x".repeat(MAX_KIND_LEN) + "…");
        for bad in ["[]", "null", r#"{"resultType":"complete","resultType":"complete"}"#, r#"{"ResultType":"task"}"#] {
            assert_eq!(read(bad), Err(NotAnObject), "{bad}");
        }
    }

    #[test]
    fn modern_result_without_a_type_is_complete() {
        for (result, expected) in [
            ("{}", Some(r#"{"resultType":"complete"}"#)),
            (r#"{"content":[{"resultType":1}]}"#, Some(r#"{"resultType":"complete","content":[{"resultType":1}]}"#)),
            (r#"{"a":1,"resultType":null}"#, Some(r#"{"resultType":"complete","a":1}"#)),
            (r#"{"resultType":"complete"}"#, None),
            (r#"{"resultType":7}"#, None),
            (r#"{"inputRequests":{}}"#, None),
            (r#"{"requestState":"s"}"#, None),
            (r#"{"taskId":"t"}"#, None),
            ("[]", None),
        ] {
            let result = Bytes::from_static(result.as_bytes());
            let found = with_result_type(&result).map(|changes| applied(&result, &changes));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{result:?}");
        }
    }

    #[test]
    fn legacy_result_gets_a_result_type_and_cache_hints() {
        for (legacy, plain, cached) in [
            ("{}", r#"{"resultType":"complete"}"#, r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#),
            (
                r#"{"contents":[], "n":1.0}"#,
                r#"{"resultType":"complete","contents":[], "n":1.0}"#,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[], "n":1.0}"#,
            ),
            (
                r#"{"ttlMs":5,"resultType":"x"}"#,
                r#"{"ttlMs":5,"resultType":"x"}"#,
                r#"{"cacheScope":"private","ttlMs":5,"resultType":"x"}"#,
            ),
        ] {
            let result = bytes(legacy);
            for (cached, expected) in [(Caching::No, plain), (Caching::Yes, cached)] {
                let changes = result_to_modern(&result, cached).expect("an object");
                let modern = Bytes::from(applied(&result, &changes));
                assert_eq!(text(&modern), expected);
                if !legacy.contains("ttlMs") {
                    let Ok(ToLegacy::Complete(changes)) = result_to_legacy(&modern) else {
                        panic!("{modern:?} is complete")
                    };
                    assert_eq!(text(&applied(&modern, &changes)), legacy);
                }
            }
        }
        assert_eq!(result_to_modern(&bytes("[]"), Caching::No), Err(NotAnObject));
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
}
