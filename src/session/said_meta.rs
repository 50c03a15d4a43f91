//! What an agent says in `_meta` of its `initialize` for mcpd alone, under keys of mcpd's own. Pure.
//!
//! Source: MCP 2025-11-25, `basic/index`, "_meta": a key may have a prefix of who means it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::pending::minted;

/// Where the agent works.
pub(crate) const CWD: &str = "mcpd/cwd";
/// The version of the `mcpd connect` that it comes through.
pub(crate) const CONNECT: &str = "mcpd/connect";
/// The first number that it may be asked under: it has been asked under lower ones by a daemon before.
pub(crate) const IDS_FROM: &str = "mcpd/ids_from";

/// Numbers that every agent can tell apart, whatever its language makes of them: those below 2^53.
const LARGEST_ID: u64 = 1 << 52;
/// Longest version that is told of, in bytes.
const LONGEST_VERSION: usize = 64;

/// All of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// An absolute path: the kernel cannot know it of one in a container, say.
    pub(super) cwd: Option<Arc<str>>,
    pub(super) connect: Option<String>,
    pub(super) ids_from: Option<u64>,
}

impl Said {
    /// Reads a raw `_meta`. What has another form than it should counts as not said.
    pub(super) fn read(meta: &Bytes) -> Self {
        let Ok([cwd, connect, ids_from]) = members(meta, [CWD, CONNECT, IDS_FROM]) else { return Self::default() };
        let string = |raw: Option<Bytes>| String::from_utf8(text(&raw?)?.into()).ok();
        Self {
            cwd: string(cwd).filter(|cwd| Path::new(cwd).is_absolute() && !cwd.contains('\0')).map(Into::into),
            connect: string(connect).filter(|version| version.len() <= LONGEST_VERSION),
            ids_from: ids_from.and_then(|raw| minted(&raw)).filter(|id| *id <= LARGEST_ID),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_another_form_was_not_said() {
        for (meta, cwd, connect, ids_from) in [
            (r#"{"mcpd/cwd":"/a","mcpd/connect":"1.2","mcpd/ids_from":7}"#, Some("/a"), Some("1.2"), Some(7)),
            (r#"{"mcpd/cwd":"a","mcpd/connect":1,"mcpd/ids_from":"7"}"#, None, None, None),
            (r#"{"mcpd/cwd":"/a\u0000","mcpd/ids_from":4503599627370496}"#, None, None, Some(1 << 52)),
            (r#"{"mcpd/ids_from":4503599627370497,"progressToken":1}"#, None, None, None),
            (r#"{"mcpd/ids_from":0}"#, None, None, None),
            ("{}", None, None, None),
            ("[]", None, None, None),
        ] {
            let connect = connect.map(str::to_owned);
            let expected = Said { cwd: cwd.map(Into::into), connect, ids_from };
            assert_eq!(Said::read(&Bytes::from_static(meta.as_bytes())), expected, "{meta}");
        }
    }
}
