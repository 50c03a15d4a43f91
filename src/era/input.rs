//! What a server needs to know before it can answer: a result in the modern era, requests of the server's in the legacy one.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`.

use bytes::Bytes;
use serde_json::json;

use crate::jsonrpc::entries::entries;
use crate::jsonrpc::exchange::with_first;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::splice::Change;

/// Most things that a server asks for at once: far more than a person would answer.
pub const MOST: usize = 64;

/// Whether a server may ask for something before it answers a request of this method.
///
/// Source: MCP 2026-07-28, `basic/patterns/mrtr`, "Supported Requests".
#[must_use]
pub fn may_be_required(method: &[u8]) -> bool {
    matches!(method, b"tools/call" | b"prompts/get" | b"resources/read")
}

/// One thing that a server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// By which the answer is known, raw.
    pub key: Bytes,
    /// What would have been the method of a request of the server's, as text.
    pub method: Bytes,
    /// Its params, raw.
    pub params: Option<Bytes>,
}

/// All that a server asks for before it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    /// What it asks for, in its order; if nothing, it wants to be asked again.
    pub inputs: Vec<Input>,
    /// What it is to be told again, raw.
    pub state: Option<Bytes>,
}

impl Required {
    /// What a result whose `resultType` is `input_required` says.
    ///
    /// # Errors
    /// Why it cannot be carried out, for a person.
    pub fn read(result: &Bytes) -> Result<Self, &'static str> {
        let [requests, state] = members(result, ["inputRequests", "requestState"]).map_err(|_| "it is malformed")?;
        let is_said = |raw: &Bytes| raw[..] != b"null"[..];
        let (requests, state) = (requests.filter(is_said), state.filter(is_said));
        if requests.is_none() && state.is_none() {
            return Err("it has neither `inputRequests` nor `requestState`");
        }
        let inputs = requests.map_or(Ok(Vec::new()), |requests| inputs(&requests))?;
        Ok(Self { inputs, state })
    }
}

/// What `requests`, a raw `inputRequests`, asks for: in a result, or of a task that waits for it.
///
/// # Errors
/// Why it cannot be carried out, for a person.
pub fn inputs(requests: &Bytes) -> Result<Vec<Input>, &'static str> {
    let found = entries(requests, MOST).map_err(|_| "its `inputRequests` is no object")?;
    if found.len() > MOST {
        return Err("it asks for more than 64 things at once");
    }
    let mut inputs: Vec<Input> = Vec::with_capacity(found.len());
    for (key, request) in found {
        let [method, params] = members(&request, ["method", "params"]).map_err(|_| "an input request is malformed")?;
        let method = method.as_ref().and_then(text).ok_or("an input request has no method")?;
        // Keys as text: they may be spelled in two ways.
        if inputs.iter().any(|other| text(&other.key) == text(&key)) {
            return Err("two input requests have the same key");
        }
        inputs.push(Input { key, method, params: params.filter(|raw| raw[..] != b"null"[..]) });
    }
    Ok(inputs)
}

/// The result by which an agent is asked for `inputs`, each a key, a method as text and raw params, and is to come back with `state`.
#[must_use]
pub fn required<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>, state: &str) -> Vec<u8> {
    let requests = requests(inputs);
    format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":{}}}"#, json!(state))
        .into()
}

/// The same where what is wanted next needs no state.
pub(super) fn required_without_state<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>,
) -> Vec<u8> {
    format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, requests(inputs)).into()
}

/// The members of `inputRequests`.
#[must_use]
pub fn requests<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8], Option<&'a Bytes>)>) -> String {
    let request = |(key, method, params): (&str, &[u8], Option<&Bytes>)| {
        let method = json!(String::from_utf8_lossy(method));
        let params = params.map_or_else(String::new, |raw| format!(r#","params":{}"#, String::from_utf8_lossy(raw)));
        format!(r#"{}:{{"method":{method}{params}}}"#, json!(key))
    };
    inputs.into_iter().map(request).collect::<Vec<_>>().join(",")
}

/// What the params of an elicitation of a modern server need for a legacy agent: one by URL has an id there, by which the server may
/// tell that it is over. The agent waits for that in vain, which it has to expect.
///
/// Source: MCP 2025-11-25, `client/elicitation`, "URL Mode Elicitation Requests"; MCP 2026-07-28, `changelog`.
#[must_use]
pub fn elicitation_to_legacy(params: &Bytes, id: &str) -> Option<Change> {
    let [mode, known] = members(params, ["mode", "elicitationId"]).ok()?;
    let by_url = mode.as_ref().and_then(text).is_some_and(|mode| mode[..] == b"url"[..]);
    (by_url && known.is_none()).then(|| with_first(params, &format!(r#""elicitationId":{}"#, json!(id))))
}

/// What an agent comes back with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its answers, each with its key as text, raw.
    pub responses: Vec<(Bytes, Bytes)>,
    /// What it was told to say again, as text.
    pub state: Bytes,
}

/// What the params of a request say that was made before; `None` if they do not say of any.
///
/// # Errors
/// If they are malformed, with a state or without, or have more than [`MOST`] answers.
pub fn given(params: &Bytes) -> Result<Option<Given>, NotAnObject> {
    let [responses, state] = members(params, ["inputResponses", "requestState"])?;
    let responses = self::responses(responses.as_ref())?;
    let Some(state) = state.filter(|raw| raw[..] != b"null"[..]) else { return Ok(None) };
    let state = text(&state).ok_or(NotAnObject)?;
    Ok(Some(Given { responses, state }))
}

/// The answers of a raw `inputResponses`, each with its key as text, raw.
///
/// # Errors
/// If it is no object of objects, has a key twice, or more than [`MOST`].
pub fn responses(raw: Option<&Bytes>) -> Result<Vec<(Bytes, Bytes)>, NotAnObject> {
    let found = raw.map_or(Ok(Vec::new()), |raw| entries(raw, MOST))?;
    if found.len() > MOST {
        return Err(NotAnObject);
    }
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
