//! The client of a request, which each modern request names.
//!
//! Source: MCP 2026-07-28, `basic`, "Per-request protocol fields".

use bytes::Bytes;

use super::{MODERN, TASKS, meta};
use crate::jsonrpc::members::members;
use crate::jsonrpc::object_edit::without;
use crate::jsonrpc::splice::applied;
use crate::log_level::LogLevel;

/// A legacy client, which has introduced itself once for its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyClientMeta {
    /// Its capabilities in their legacy form, raw; `{}` for none.
    pub capabilities: Bytes,
    /// Its name and version, raw.
    pub client: Option<Bytes>,
    /// The lowest level of log messages that it has requested; `None` for no messages.
    pub level: Option<LogLevel>,
}

/// A client without capabilities and log messages.
impl Default for LegacyClientMeta {
    fn default() -> Self {
        Self { capabilities: Bytes::from_static(b"{}"), client: None, level: None }
    }
}

impl LegacyClientMeta {
    /// The reserved members of a request's `_meta`.
    #[must_use]
    pub fn meta_members(&self) -> String {
        let mut members = format!(r#""{}":"{MODERN}""#, meta::PROTOCOL);
        let mut add = |key: &str, raw: &str| members.extend([",\"", key, "\":", raw]);
        // A server would refuse every request with any other value.
        if let Some(client) = self.client.as_ref().filter(|raw| raw.first() == Some(&b'{')) {
            add(meta::CLIENT, &String::from_utf8_lossy(client));
        }
        add(meta::CAPABILITIES, &self.modern_capabilities());
        if let Some(level) = self.level {
            add(meta::LEVEL, &format!("\"{}\"", level.word()));
        }
        members
    }

    /// Its capabilities without the extension for tasks; none if they are malformed. A task of a modern server would not reach the client.
    fn modern_capabilities(&self) -> String {
        let extensions = members(&self.capabilities, ["extensions"]);
        let changes = extensions.and_then(|[extensions]| match extensions {
            Some(extensions) if extensions.starts_with(b"{") => without(&extensions, &[TASKS]),
            _ => Ok(Vec::new()),
        });
        let raw = changes.map_or_else(|_| b"{}".to_vec(), |changes| applied(&self.capabilities, &changes));
        String::from_utf8_lossy(&raw).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_meta(capabilities: &'static str) -> LegacyClientMeta {
        LegacyClientMeta { capabilities: Bytes::from_static(capabilities.as_bytes()), ..LegacyClientMeta::default() }
    }

    #[test]
    fn request_names_its_client() {
        let all = LegacyClientMeta {
            client: Some(Bytes::from_static(br#"{"name":"a","version":"1.0"}"#)),
            level: Some(LogLevel::Warning),
            ..client_meta(r#"{"sampling":{}}"#)
        };
        let expected = concat!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1.0"},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"#,
            r#""io.modelcontextprotocol/logLevel":"warning""#,
        );
        assert_eq!(all.meta_members(), expected);
        let least = concat!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientCapabilities":{}"#
        );
        assert_eq!(client_meta("{}").meta_members(), least);
        let odd = LegacyClientMeta { client: Some(Bytes::from_static(b"7")), ..client_meta("null") };
        assert_eq!(odd.meta_members(), least);
    }

    #[test]
    fn capabilities_pass_except_the_extension_for_tasks() {
        for (legacy, modern) in [
            ("{}", "{}"),
            (r#"{"roots": {"listChanged":true},"x":1.0}"#, r#"{"roots": {"listChanged":true},"x":1.0}"#),
            (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{"k":1}}}"#, r#"{"extensions":{"a/b":{}}}"#),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#, r#"{"extensions":{}}"#),
            (r#"{"extensions":null}"#, r#"{"extensions":null}"#),
            (r#"{"extensions":{},"extensions":{}}"#, "{}"),
        ] {
            assert_eq!(client_meta(legacy).modern_capabilities(), modern, "{legacy}");
        }
    }
}
