//! Translation of the params of requests.
//!
//! Source: MCP 2026-07-28, `basic`, "`_meta`", and `basic/patterns/mrtr`.

use bytes::Bytes;

use super::legacy_client_meta::LegacyClientMeta;
use super::meta;
use crate::jsonrpc::json_eq::json_eq_except;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::object_edit::{cut, replace_members, with_last, without};
use crate::jsonrpc::splice::Change;

/// Members of `_meta` that only modern requests have.
const META_MEMBERS: [&str; 4] = [meta::PROTOCOL, meta::CLIENT, meta::CAPABILITIES, meta::LEVEL];
/// Members that only the retry of a modern request has.
const RETRY_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// Adds the client to the params of a legacy request, and removes members that mean something else in the modern era.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn to_modern(params: &Bytes, client_meta: &LegacyClientMeta) -> Result<Vec<Change>, NotAnObject> {
    let members_of_meta = client_meta.meta_members();
    let [meta] = members(params, ["_meta"])?;
    let [responses, state] = RETRY_MEMBERS;
    let Some(meta) = meta else {
        return replace_members(params, &["task", responses, state], &format!(r#""_meta":{{{members_of_meta}}}"#));
    };
    let mut changes = without(params, &["task", responses, state])?;
    if meta[..] == b"null"[..] {
        changes.push(Change { part: meta, replacement: format!("{{{members_of_meta}}}").into() });
    } else {
        changes.extend(replace_members(&meta, &META_MEMBERS, &members_of_meta)?);
    }
    Ok(changes)
}

/// Removes modern members from `params`, and `_meta` if nothing else is in it.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn to_legacy(params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [meta] = members(params, ["_meta"])?;
    let [responses, state] = RETRY_MEMBERS;
    match meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| cut(&meta, META_MEMBERS)).transpose()? {
        Some(meta) if !meta.leaves_any => without(params, &["_meta", "task", responses, state]),
        meta => {
            let mut changes = without(params, &["task", responses, state])?;
            changes.extend(meta.into_iter().flat_map(|meta| meta.changes));
            Ok(changes)
        }
    }
}

/// Adds inputs, each a raw key with a raw result, and the raw state to the `params` of a request that is sent again. The params have
/// neither yet: they are of a legacy request that [`to_modern`] is applied to, too, or of a modern request that is no retry.
#[must_use]
pub fn with_inputs(params: &Bytes, responses: &[(Bytes, Bytes)], state: Option<&Bytes>) -> Change {
    let text = |raw: &Bytes| String::from_utf8_lossy(raw).into_owned();
    let inputs: Vec<String> = responses.iter().map(|(key, result)| format!("{}:{}", text(key), text(result))).collect();
    let inputs = (!inputs.is_empty()).then(|| format!(r#""inputResponses":{{{}}}"#, inputs.join(",")));
    let state = state.map(|raw| format!(r#""requestState":{}"#, text(raw)));
    with_last(params, &inputs.into_iter().chain(state).collect::<Vec<_>>().join(","))
}

/// Whether a request with the params `retry` is a retry of the request with the params `first`: only `_meta` and the inputs differ.
/// `false` in case of doubt.
#[must_use]
pub fn is_retry(first: &Bytes, retry: &Bytes) -> bool {
    let [responses, state] = RETRY_MEMBERS;
    json_eq_except(first, retry, &["_meta", responses, state])
}

#[cfg(test)]
mod tests;
