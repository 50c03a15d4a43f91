//! The results with which mcpd itself answers: `initialize`, `server/discover` and lists. Pure.
//!
//! Lists come in parts, so that all agents share one copy of a long list. Source: MCP 2025-11-25, `basic/lifecycle`; MCP
//! 2026-07-28, `server/discover`, `server/utilities/caching`.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::catalog::{CacheHint, Catalog};
use crate::era::{self, Era};
use crate::jsonrpc::reply;
use crate::list_kind::ListKind;
use crate::manager::View;

/// The result of `initialize`.
pub(super) fn initialize(protocol_version: &str, view: &View) -> Value {
    let mut result = json!({
        "protocolVersion": protocol_version,
        "capabilities": era::capabilities(protocol_version),
        "serverInfo": server_info(),
    });
    add_extensions(&mut result, view, Era::Legacy);
    if let Some(instructions) = view.instructions(Era::Legacy) {
        result["instructions"] = instructions.into();
    }
    result
}

/// The result of `server/discover`.
pub(super) fn discover(view: &View) -> Value {
    let mut result = cacheable_result(CacheHint::default());
    result["supportedVersions"] = json!([era::MODERN]);
    result["capabilities"] = era::capabilities(era::MODERN);
    add_extensions(&mut result, view, Era::Modern);
    if let Some(instructions) = view.instructions(Era::Modern) {
        result["instructions"] = instructions.into();
    }
    result
}

fn add_extensions(result: &mut Value, view: &View, era: Era) {
    let extensions = view.extensions(era);
    if !extensions.is_empty() {
        result["capabilities"]["extensions"] = Value::Object(extensions);
    }
}

/// The response to a request for a list of an extension: the member with these items. Modern results have a time to live if the
/// servers state one.
pub(super) fn merged_list(id: &Bytes, era: Era, member: &[u8], items: &[Bytes], ttl: Option<u64>) -> Bytes {
    let mut result = match era {
        Era::Legacy => String::from("{"),
        Era::Modern => {
            let mut members =
                cacheable_result(ttl.map_or_else(CacheHint::default, |ttl| CacheHint::of_all([CacheHint { ttl }])));
            if let (None, Some(members)) = (ttl, members.as_object_mut()) {
                members.retain(|name, _| name != "ttlMs" && name != "cacheScope");
            }
            let members = members.to_string();
            format!("{},", members.strip_suffix('}').unwrap_or_default())
        }
    }
    .into_bytes();
    result.extend(Value::from(String::from_utf8_lossy(member)).to_string().bytes());
    result.extend(b":[");
    result.extend(items.join(&b','));
    result.extend(b"]}");
    reply::result(id, &result)
}

/// The response to a legacy request for a list.
pub(super) fn list(id: &Bytes, kind: ListKind, catalog: &Catalog, has_tasks: bool) -> [Bytes; 3] {
    let list = if has_tasks { catalog.list_for_tasks(kind) } else { catalog.list(kind) };
    reply::result_in_parts(id, list)
}

/// The response to a modern request for a list.
pub(super) fn modern_list(id: &Bytes, kind: ListKind, catalog: &Catalog) -> [Bytes; 3] {
    let members = cacheable_result(catalog.keep(kind)).to_string();
    let members = members.strip_suffix('}').unwrap_or_default();
    let head = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{members},"#, String::from_utf8_lossy(id));
    [head.into(), catalog.list(kind).slice(1..), Bytes::from_static(b"}\n")]
}

/// The members that every cacheable modern result has.
fn cacheable_result(cache_hint: CacheHint) -> Value {
    json!({
        "resultType": "complete",
        "ttlMs": cache_hint.ttl,
        "cacheScope": "private",
        "_meta": { era::meta::SERVER: server_info() },
    })
}

fn server_info() -> Value {
    json!({ "name": "mcpd", "version": env!("CARGO_PKG_VERSION") })
}
