//! Translation of errors.
//!
//! Source: MCP 2026-07-28, `basic`, "Error Codes", and `server/resources`, "Error Handling".

use bytes::Bytes;

use serde_json::json;

use super::{MISSING_CAPABILITY, input};
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::splice::Change;

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
pub fn to_legacy(method: &[u8], error: &Bytes) -> Option<Change> {
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
pub fn to_modern(method: &[u8], error: &Bytes) -> ErrorToModern {
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

/// A URL required by [`to_modern`] that the retry with these params reports as not opened: its key, and the refusal. The server would
/// only require the URL again.
#[must_use]
pub fn unopened(params: &Bytes) -> Option<(String, &'static str)> {
    // Few requests have such a key.
    memchr::memmem::find(params, URL_KEY.as_bytes())?;
    let [responses, state] = members(params, ["inputResponses", "requestState"]).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::input::{Input, RequiredInputs};
    use crate::jsonrpc::splice::applied;
    use crate::jsonrpc::test_support::{bytes, text};

    #[test]
    fn unknown_resource_has_its_own_code_in_the_legacy_era() {
        let legacy = |method: &str, error: &str| {
            let error = bytes(error);
            to_legacy(method.as_bytes(), &error).map(|change| text(&applied(&error, &[change])))
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
            let changed = match to_modern(method.as_bytes(), &error) {
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
        let ErrorToModern::Required(result) = to_modern(b"tools/call", &error) else { panic!("URLs are asked for") };
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
            assert!(matches!(to_modern(b"tools/call", &error), ErrorToModern::Changed(_)), "{none}");
        }
    }
}
