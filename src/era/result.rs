//! Translation of results.
//!
//! Source: MCP 2026-07-28, `basic`, "ResultType", and `server/utilities/caching`.

use bytes::Bytes;

use super::input::RequiredInputs;
use super::meta;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::object_edit::{Cut, cut_nested, replace_members, with_first};
use crate::jsonrpc::splice::Change;
use crate::printable::excerpt;

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
pub fn to_legacy(result: &Bytes) -> Result<ToLegacy, NotAnObject> {
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
        members(result, ["resultType", "inputRequests", "requestState", "taskId"]).ok()?;
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
pub fn to_modern(result: &Bytes, caching: Caching) -> Result<Vec<Change>, NotAnObject> {
    let [kind, ttl, scope] = members(result, ["resultType", "ttlMs", "cacheScope"])?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::splice::applied;
    use crate::jsonrpc::test_support::{bytes, text};

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
            let Ok(ToLegacy::Complete(changes)) = to_legacy(&result) else { panic!("{modern} is complete") };
            assert_eq!(text(&applied(&result, &changes)), legacy);
        }
    }

    #[test]
    fn result_type_decides_the_meaning_of_a_result() {
        let read = |result: &str| to_legacy(&bytes(result));
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
                let changes = to_modern(&result, cached).expect("an object");
                let modern = Bytes::from(applied(&result, &changes));
                assert_eq!(text(&modern), expected);
                if !legacy.contains("ttlMs") {
                    let Ok(ToLegacy::Complete(changes)) = to_legacy(&modern) else { panic!("{modern:?} is complete") };
                    assert_eq!(text(&applied(&modern, &changes)), legacy);
                }
            }
        }
        assert_eq!(to_modern(&bytes("[]"), Caching::No), Err(NotAnObject));
    }
}
