//! The `mcpd/…` members in `_meta` of `initialize`, which `mcpd connect` sends. Pure.
//!
//! Source: MCP 2025-11-25, `basic/index`, "_meta", on key prefixes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::era::request_meta::SERVER;
use crate::jsonrpc::members::{members, string};
use crate::jsonrpc::pending::parse_own_id;

/// The agent's working directory.
pub(crate) const CWD: &str = "mcpd/cwd";
/// The version of `mcpd connect`.
pub(crate) const CONNECT: &str = "mcpd/connect";
/// The first id for requests to the agent: a previous daemon has used the lower ones.
pub(crate) const IDS_FROM: &str = "mcpd/ids_from";

/// Ids count up from here and must stay below 2^53, so that every language represents them exactly.
const MAX_ID: u64 = 1 << 52;
/// In bytes; a longer version is ignored.
const MAX_VERSION_LEN: usize = 64;

#[derive(Debug, Default, PartialEq)]
pub(super) struct InitializeMeta {
    /// An absolute path. The kernel does not know it for an agent in a container.
    pub(super) cwd: Option<Arc<str>>,
    pub(super) connect: Option<String>,
    pub(super) ids_from: Option<u64>,
    /// The server whose face the agent uses.
    pub(super) face: Option<Arc<str>>,
}

impl InitializeMeta {
    /// Reads the `_meta` of the raw params of `initialize`.
    pub(super) fn of(params: &Bytes) -> Self {
        let meta = members(params, ["_meta"]).ok().and_then(|[meta]| meta);
        meta.as_ref().map(Self::read).unwrap_or_default()
    }

    /// Reads a raw `_meta`. Malformed members are ignored.
    pub(super) fn read(meta: &Bytes) -> Self {
        let Ok([cwd, connect, ids_from, face]) = members(meta, [CWD, CONNECT, IDS_FROM, SERVER]) else {
            return Self::default();
        };
        let string = |raw: Option<Bytes>| string(&raw?);
        Self {
            cwd: string(cwd).filter(|cwd| Path::new(cwd).is_absolute() && !cwd.contains('\0')).map(Into::into),
            connect: string(connect).filter(|version| version.len() <= MAX_VERSION_LEN),
            ids_from: ids_from.and_then(|raw| parse_own_id(&raw)).filter(|id| *id <= MAX_ID),
            face: string(face).map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_members_are_ignored() {
        for (meta, cwd, connect, ids_from, face) in [
            (r#"{"mcpd/cwd":"/a","mcpd/connect":"1.2","mcpd/ids_from":7}"#, Some("/a"), Some("1.2"), Some(7), None),
            (r#"{"mcpd/cwd":"a","mcpd/connect":1,"mcpd/ids_from":"7","mcpd/server":7}"#, None, None, None, None),
            (r#"{"mcpd/cwd":"/a\u0000","mcpd/ids_from":4503599627370496}"#, None, None, Some(1 << 52), None),
            (r#"{"mcpd/ids_from":4503599627370497,"progressToken":1}"#, None, None, None, None),
            (r#"{"mcpd/ids_from":0}"#, None, None, None, None),
            (r#"{"mcpd/server":"files"}"#, None, None, None, Some("files")),
            ("{}", None, None, None, None),
            ("[]", None, None, None, None),
        ] {
            let connect = connect.map(str::to_owned);
            let expected = InitializeMeta { cwd: cwd.map(Into::into), connect, ids_from, face: face.map(Into::into) };
            assert_eq!(InitializeMeta::read(&Bytes::from_static(meta.as_bytes())), expected, "{meta}");
        }
    }
}
