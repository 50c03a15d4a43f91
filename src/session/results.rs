//! The results and errors with which mcpd itself answers: `initialize`, `server/discover` and lists. Pure.
//!
//! Lists come in parts, so that all agents share one copy of a long list. Source: MCP 2025-11-25, `basic/lifecycle`; MCP
//! 2026-07-28, `server/discover`, `server/utilities/caching`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::declaration::{Declaration, daemon_info};
use crate::catalog::{CacheHint, Catalog};
use crate::era::{self, Era};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::list_kind::ListKind;

/// The error for invalid params.
pub(super) fn invalid(why: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, why)
}

/// The result of `initialize`.
pub(super) fn initialize(declaration: &Declaration<'_>) -> String {
    let Declaration { protocol, .. } = declaration;
    let (capabilities, server_info) = (declaration.capabilities(), declaration.server_info());
    let head = format!(r#"{{"protocolVersion":"{protocol}","capabilities":{capabilities},"serverInfo":{server_info}"#);
    with_instructions(head, declaration)
}

/// The result of `server/discover`.
pub(super) fn discover(declaration: &Declaration<'_>) -> String {
    let (head, capabilities) =
        (complete_result(Some(CacheHint::default()), &declaration.server_info()), declaration.capabilities());
    let head = format!(r#"{head},"supportedVersions":["{}"],"capabilities":{capabilities}"#, era::MODERN);
    with_instructions(head, declaration)
}

fn with_instructions(head: String, declaration: &Declaration<'_>) -> String {
    match declaration.instructions() {
        Some(instructions) => format!(r#"{head},"instructions":{}}}"#, Value::from(&*instructions)),
        None => head + "}",
    }
}

/// The answer to `completion/complete` for a server that completes nothing.
pub(super) fn empty_completion(id: &Bytes, era: Era) -> Bytes {
    let mut result = json!({ "completion": { "values": [] } });
    if era == Era::Modern {
        result["resultType"] = "complete".into();
    }
    reply::result(id, result.to_string().as_bytes())
}

/// The response to a request for a list of an extension: the member with these items. Modern results have a time to live if the
/// servers state one.
pub(super) fn merged_list(id: &Bytes, era: Era, member: &[u8], items: &[Bytes], ttl: Option<u64>) -> Bytes {
    let mut result = match era {
        Era::Legacy => String::from("{"),
        Era::Modern => {
            let cache_hint = ttl.map(|ttl| CacheHint::of_all([CacheHint { ttl }]));
            complete_result(cache_hint, &daemon_info()) + ","
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
pub(super) fn list(id: &Bytes, kind: ListKind, catalog: &Catalog) -> [Bytes; 3] {
    reply::result_in_parts(id, catalog.list(kind))
}

/// The response to a modern request for a list.
pub(super) fn modern_list(id: &Bytes, kind: ListKind, declaration: &Declaration<'_>) -> [Bytes; 3] {
    let catalog = &declaration.view.catalog;
    let members = complete_result(Some(catalog.keep(kind)), &declaration.server_info());
    let head = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{members},"#, String::from_utf8_lossy(id));
    [head.into(), catalog.modern_list(kind).slice(1..), Bytes::from_static(b"}\n")]
}

/// An object, without its closing brace, of the members that a modern result has. One with a cache hint may be cached.
fn complete_result(cache_hint: Option<CacheHint>, server_info: &str) -> String {
    let cache_hint = cache_hint.map(|hint| format!(r#""ttlMs":{},"cacheScope":"private","#, hint.ttl));
    let (cache_hint, server) = (cache_hint.unwrap_or_default(), era::meta::SERVER);
    format!(r#"{{"resultType":"complete",{cache_hint}"_meta":{{"{server}":{server_info}}}"#)
}
