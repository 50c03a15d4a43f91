//! What a server declares in its result of `initialize` or `server/discover`. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::shortened;
use crate::era::{self, Era, request_meta};
use crate::extensions::SKILLS;
use crate::jsonrpc::members::{members, text};
use crate::list_kind::{ListKind, PerKind};
use crate::server::error::ServerError;
use crate::server::identity::ServerIdentity;
use crate::server::instance::NotificationSupport;
use crate::task_state::TaskSupport;

/// Maximum characters of a server's text to show.
const MAX_EXCERPT_LEN: usize = 200;

/// The declarations of a server.
#[derive(Debug, PartialEq)]
pub(in crate::server) struct ServerInfo {
    pub(in crate::server) protocol: &'static str,
    pub(in crate::server) software: Option<String>,
    /// The kinds of lists that it has. mcpd requests no others.
    pub(in crate::server) offers: PerKind<bool>,
    /// Whether it supports `logging/setLevel`.
    pub(in crate::server) logs: bool,
    /// Its support of tasks.
    pub(in crate::server) tasks: TaskSupport,
    /// The notifications that it sends to subscribers.
    pub(in crate::server) notifications: NotificationSupport,
    /// What it has sent about itself.
    pub(in crate::server) identity: Arc<ServerIdentity>,
}

impl ServerInfo {
    /// Reads the raw result of `initialize`.
    ///
    /// # Errors
    /// The result is malformed, or its version is unsupported.
    pub(super) fn from_initialize(result: &Bytes) -> Result<Self, ServerError> {
        let malformed = || ServerError::MalformedInitialize { result: shortened(result) };
        let [version, capabilities, info] =
            members(result, ["protocolVersion", "capabilities", "serverInfo"]).map_err(|_| malformed())?;
        let version = version.as_ref().and_then(text).ok_or_else(malformed)?;
        let version = String::from_utf8_lossy(&version);
        let unsupported = || ServerError::UnsupportedVersion { versions: shortened(version.as_bytes()) };
        let protocol = era::known(&version).ok_or_else(unsupported)?;
        let capabilities = capabilities.unwrap_or_else(|| Bytes::from_static(b"{}"));
        Self::read(protocol, result, &capabilities, info.as_ref()).ok_or_else(malformed)
    }

    /// Reads the raw result of `server/discover`; `None` if that does not list the version of the modern era.
    pub(super) fn from_discover(result: &Bytes) -> Option<Self> {
        let [versions, capabilities, meta] = members(result, ["supportedVersions", "capabilities", "_meta"]).ok()?;
        let versions: Vec<String> = serde_json::from_slice(&versions?).ok()?;
        if !versions.iter().any(|version| version == era::MODERN) {
            return None;
        }
        let info = meta.and_then(|meta| members(&meta, [era::meta::SERVER]).ok()).and_then(|[info]| info);
        Self::read(era::MODERN, result, &capabilities?, info.as_ref())
    }

    fn read(protocol: &'static str, result: &Bytes, capabilities: &Bytes, info: Option<&Bytes>) -> Option<Self> {
        // Invalid instructions are ignored.
        let instructions = members(result, ["instructions"]).ok().and_then(|[raw]| raw);
        let identity = ServerIdentity::read(protocol, info, capabilities, instructions.as_ref())?;
        let [tools, prompts, resources, logging] =
            members(&identity.capabilities, ["tools", "prompts", "resources", "logging"]).ok()?;
        let tasks = identity.tasks();
        let of_kind = |kind| match kind {
            ListKind::Tools => &tools,
            ListKind::Prompts => &prompts,
            ListKind::Resources | ListKind::Templates | ListKind::Skills => &resources,
        };
        let is_modern = era::of(protocol) == Era::Modern;
        let declares = |name: &str, raw: &Option<Bytes>| {
            let declared = raw.as_ref().and_then(|raw| members(raw, [name]).ok()).and_then(|[declared]| declared);
            is_modern && declared.is_some_and(|declared| declared[..] == *b"true")
        };
        let notifications = NotificationSupport {
            changes: PerKind::from_fn(|kind| declares("listChanged", of_kind(kind))),
            updates: declares("subscribe", &resources),
            tasks: is_modern && tasks.declared,
        };
        Some(Self {
            protocol,
            software: info.and_then(|info| request_meta::name_and_version(info, MAX_EXCERPT_LEN)),
            offers: PerKind::from_fn(|kind| match kind {
                ListKind::Skills => identity.extensions().iter().any(|one| *one.id == *SKILLS),
                _ => of_kind(kind).is_some(),
            }),
            logs: !is_modern && logging.is_some(),
            tasks,
            notifications,
            identity: Arc::new(identity),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &'static str, expected: Result<(&str, Option<&str>, bool), &str>) {
        let found = ServerInfo::from_initialize(&Bytes::from_static(result.as_bytes()));
        match (found, expected) {
            (Ok(info), Ok(expected)) => {
                assert_eq!(
                    (info.protocol, info.software.as_deref(), info.offers[ListKind::Tools]),
                    expected,
                    "{result}"
                );
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, _) => panic!("{result}: {found:?}"),
        }
    }

    #[test]
    fn initialize_result_is_read() {
        let full = r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"a\u001b","version":"1"},"x":1}"#;
        check(full, Ok(("2024-11-05", Some("a\u{1b} 1"), true)));
        check(r#"{"protocolVersion":"2025-11-25"}"#, Ok(("2025-11-25", None, true)));
        check(r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{}}}"#, Ok(("2025-11-25", None, false)));
    }

    #[test]
    fn unsupported_versions_and_malformed_results_are_refused() {
        check(r#"{"protocolVersion":"1999-01-01","capabilities":{}}"#, Err("1999-01-01"));
        check(r#"{"protocolVersion":"2026-07-28","capabilities":{}}"#, Err("2026-07-28"));
        check(r#"{"capabilities":{}}"#, Err("malformed"));
        check("[]", Err("malformed"));
        check(r#"{"protocolVersion":"2025-11-25","capabilities":[1]}"#, Err("malformed"));
        check(r#"{"protocolVersion":7,"capabilities":{}}"#, Err("malformed"));
    }

    #[test]
    fn discover_result_is_read() {
        let found = |result: &'static str| ServerInfo::from_discover(&Bytes::from_static(result.as_bytes()));
        let full = r#"{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{},"extensions":{"a/b":{}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a","version":"1"}},"instructions":"be kind"}"#;
        let info = found(full).expect("a modern server");
        assert_eq!((info.protocol, info.software.as_deref()), ("2026-07-28", Some("a 1")));
        assert_eq!((info.logs, &info.tasks), (false, &TaskSupport::default()));
        assert_eq!(info.notifications.changes, PerKind::from_fn(|kind| kind == ListKind::Tools));
        assert!(info.notifications.updates);
        assert_eq!(info.identity.instructions.as_deref(), Some("be kind"));
        assert_eq!(info.identity.extensions().iter().map(|one| &*one.id).collect::<Vec<_>>(), ["a/b"]);
        for other in [
            r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#,
            r#"{"supportedVersions":["2026-07-28"]}"#,
            r#"{"capabilities":{}}"#,
            "[]",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
