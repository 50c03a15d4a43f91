//! Inputs that a server requires before it answers: a result in the modern era, requests of the server in the legacy era.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`.

use bytes::Bytes;
use serde_json::json;

use crate::jsonrpc::members::{NotAnObject, entries, members, text};
use crate::jsonrpc::splice::{Change, with_first};

/// Maximum number of inputs that a server may require at once, far more than a person would answer.
pub const MAX_INPUTS: usize = 64;

/// Whether a server may require inputs before it answers a request of this method.
///
/// Source: MCP 2026-07-28, `basic/patterns/mrtr`, "Supported Requests".
#[must_use]
pub fn may_be_required(method: &[u8]) -> bool {
    matches!(method, b"tools/call" | b"prompts/get" | b"resources/read")
}

/// One input that a server requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The key of the response, raw.
    pub key: Bytes,
    /// The method of the input request, as text.
    pub method: Bytes,
    /// Its params, raw.
    pub params: Option<Bytes>,
}

/// All inputs that a server requires before it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredInputs {
    /// In the order of the server. If there are none, the request only has to be sent again.
    pub inputs: Vec<Input>,
    /// The `requestState` that the retry has to repeat, raw.
    pub request_state: Option<Bytes>,
}

impl RequiredInputs {
    /// Reads a result whose `resultType` is `input_required`.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn read(result: &Bytes) -> Result<Self, &'static str> {
        let [requests, state] = members(result, ["inputRequests", "requestState"]).map_err(|_| "it is malformed")?;
        let is_present = |raw: &Bytes| raw[..] != b"null"[..];
        let (requests, state) = (requests.filter(is_present), state.filter(is_present));
        if requests.is_none() && state.is_none() {
            return Err("it has neither `inputRequests` nor `requestState`");
        }
        let inputs = requests.map_or(Ok(Vec::new()), |requests| inputs(&requests))?;
        Ok(Self { inputs, request_state: state })
    }
}

/// Reads a raw `inputRequests`. The error says what is wrong with them, for a person.
fn inputs(requests: &Bytes) -> Result<Vec<Input>, &'static str> {
    let found = entries(requests, MAX_INPUTS).ok_or("its `inputRequests` is no object with at most 64 members")?;
    let mut inputs: Vec<Input> = Vec::with_capacity(found.len());
    for (key, request) in found {
        let [method, params] = members(&request, ["method", "params"]).map_err(|_| "an input request is malformed")?;
        let method = method.as_ref().and_then(text).ok_or("an input request has no method")?;
        // Compared as text, because JSON can spell a key in several ways.
        if inputs.iter().any(|other| text(&other.key) == text(&key)) {
            return Err("two input requests have the same key");
        }
        inputs.push(Input { key, method, params: params.filter(|raw| raw[..] != b"null"[..]) });
    }
    Ok(inputs)
}

/// The result that requires `inputs` of an agent, each a key, a method as text and raw params. The retry has to repeat `state`.
#[must_use]
pub fn required<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>, state: &str) -> Vec<u8> {
    let requests = requests(inputs);
    format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":{}}}"#, json!(state))
        .into()
}

/// The same without a state.
pub(super) fn required_without_state<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>,
) -> Vec<u8> {
    format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, requests(inputs)).into()
}

/// The members of `inputRequests`.
fn requests<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>) -> String {
    let request = |(key, method, params): (&str, &[u8], Option<&Bytes>)| {
        let method = json!(String::from_utf8_lossy(method));
        let params = params.map_or_else(String::new, |raw| format!(r#","params":{}"#, String::from_utf8_lossy(raw)));
        format!(r#"{}:{{"method":{method}{params}}}"#, json!(key))
    };
    inputs.into_iter().map(request).collect::<Vec<_>>().join(",")
}

/// Adds an id to the params of a modern elicitation by URL, which legacy agents require. The server never reports the end of the
/// elicitation with this id, which agents have to expect.
///
/// Source: MCP 2025-11-25, `client/elicitation`, "URL Mode Elicitation Requests"; MCP 2026-07-28, `changelog`.
#[must_use]
pub fn elicitation_to_legacy(params: &Bytes, id: &str) -> Option<Change> {
    let [mode, known] = members(params, ["mode", "elicitationId"]).ok()?;
    let by_url = mode.as_ref().and_then(text).is_some_and(|mode| mode[..] == b"url"[..]);
    (by_url && known.is_none()).then(|| with_first(params, &format!(r#""elicitationId":{}"#, json!(id))))
}

/// The input responses of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryResponses {
    /// Raw responses, each with its key as text.
    pub responses: Vec<(Bytes, Bytes)>,
    /// The `requestState`, as text.
    pub request_state: Bytes,
}

/// Reads the input responses of a retry from its params. `None` if the request is no retry.
///
/// # Errors
/// If they are malformed, with a state or without, or have more than [`MAX_INPUTS`] answers.
pub fn retry_responses(params: &Bytes) -> Result<Option<RetryResponses>, NotAnObject> {
    let [responses, state] = members(params, ["inputResponses", "requestState"])?;
    let responses = self::responses(responses.as_ref())?;
    let Some(state) = state.filter(|raw| raw[..] != b"null"[..]) else { return Ok(None) };
    let state = text(&state).ok_or(NotAnObject)?;
    Ok(Some(RetryResponses { responses, request_state: state }))
}

/// Reads a raw `inputResponses`: raw responses, each with its key as text.
///
/// # Errors
/// If it is no object of objects, has a key twice, or more than [`MAX_INPUTS`].
pub fn responses(raw: Option<&Bytes>) -> Result<Vec<(Bytes, Bytes)>, NotAnObject> {
    let found = raw.map_or(Some(Vec::new()), |raw| entries(raw, MAX_INPUTS)).ok_or(NotAnObject)?;
    let mut responses: Vec<(Bytes, Bytes)> = Vec::with_capacity(found.len());
    for (key, response) in found {
        let key = text(&key).ok_or(NotAnObject)?;
        if !response.starts_with(b"{") || responses.iter().any(|(other, _)| *other == key) {
            return Err(NotAnObject);
        }
        responses.push((key, response));
    }
    Ok(responses)
}

#[cfg(test)]
mod tests;
