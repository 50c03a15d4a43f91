//! The params of a request, from one era into the other.
//!
//! Source: MCP 2026-07-28, `basic`, "`_meta`", and `basic/patterns/mrtr`; MCP 2025-11-25, `basic/utilities/tasks`, "Creating Tasks".

use bytes::Bytes;

use super::meta;
use super::speaker::Speaker;
use crate::jsonrpc::exchange::{cut, exchange, with_last, without};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::same::same_apart_from;
use crate::jsonrpc::splice::Change;

/// What only a request of the modern era has in its `_meta`.
const OF_META: [&str; 4] = [meta::PROTOCOL, meta::CLIENT, meta::CAPABILITIES, meta::LEVEL];
/// What a request has that is made again, with what was asked for.
const OF_AGAIN: [&str; 2] = ["inputResponses", "requestState"];

/// Says in `params` of a legacy request for whom it is. Members that mean something in the modern era only are not kept of a
/// client that does not speak it.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn to_modern(params: &Bytes, speaker: &Speaker, makes_task: bool) -> Result<Vec<Change>, NotAnObject> {
    let said = speaker.meta_members(makes_task);
    let [meta] = members(params, ["_meta"])?;
    let [responses, state] = OF_AGAIN;
    let Some(meta) = meta else {
        return exchange(params, &["task", responses, state], &format!(r#""_meta":{{{said}}}"#));
    };
    let mut changes = without(params, &["task", responses, state])?;
    if meta[..] == b"null"[..] {
        changes.push(Change { part: meta, replacement: format!("{{{said}}}").into() });
    } else {
        changes.extend(exchange(&meta, &OF_META, &said)?);
    }
    Ok(changes)
}

/// Leaves out of `params` what only the modern era has. What would ask a legacy server for a task, which is not what a modern client asks
/// for, stands there if and only if one is to be made. `_meta` goes with its last member.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn to_legacy(params: &Bytes, makes_task: bool) -> Result<Vec<Change>, NotAnObject> {
    let [meta] = members(params, ["_meta"])?;
    let [responses, state] = OF_AGAIN;
    let task = if makes_task { r#""task":{}"# } else { "" };
    match meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| cut(&meta, OF_META)).transpose()? {
        Some(meta) if !meta.leaves_any => rest(params, &["_meta", "task", responses, state], task),
        meta => {
            let mut changes = rest(params, &["task", responses, state], task)?;
            changes.extend(meta.into_iter().flat_map(|meta| meta.changes));
            Ok(changes)
        }
    }
}

/// Leaves these members out of `object`, and puts `member` in, if that is one.
fn rest(object: &Bytes, names: &[&str], member: &str) -> Result<Vec<Change>, NotAnObject> {
    if member.is_empty() { without(object, names) } else { exchange(object, names, member) }
}

/// Puts what was answered, each a raw key with a raw result, and the raw state into the `params` of a request that is made again.
/// They are those of a legacy request, and [`to_modern`] is applied to them too; or those of a modern one that was never made again.
#[must_use]
pub fn again(params: &Bytes, responses: &[(Bytes, Bytes)], state: Option<&Bytes>) -> Change {
    let text = |raw: &Bytes| String::from_utf8_lossy(raw).into_owned();
    let given: Vec<String> = responses.iter().map(|(key, result)| format!("{}:{}", text(key), text(result))).collect();
    let given = (!given.is_empty()).then(|| format!(r#""inputResponses":{{{}}}"#, given.join(",")));
    let state = state.map(|raw| format!(r#""requestState":{}"#, text(raw)));
    with_last(params, &given.into_iter().chain(state).collect::<Vec<_>>().join(","))
}

/// Whether the params `again` are those of the request with the params `first`, made again: they say the same but for who asks, and
/// for what was answered. In case of doubt they are not.
#[must_use]
pub fn is_again(first: &Bytes, again: &Bytes) -> bool {
    let [responses, state] = OF_AGAIN;
    same_apart_from(first, again, &["_meta", responses, state])
}

#[cfg(test)]
mod tests;
