//! The client of a request, which each modern request names.
//!
//! Source: MCP 2026-07-28, `basic`, "Per-request protocol fields".

use bytes::Bytes;

use super::{MODERN, TASKS, meta};
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::object_edit::{cut, replace_members, without};
use crate::jsonrpc::splice::{Change, applied};
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
    /// The reserved members of a request's `_meta`. With `makes_task`, the response may be a task.
    #[must_use]
    pub fn meta_members(&self, makes_task: bool) -> String {
        let mut members = format!(r#""{}":"{MODERN}""#, meta::PROTOCOL);
        let mut add = |key: &str, raw: &str| members.extend([",\"", key, "\":", raw]);
        // A server would refuse every request with any other value.
        if let Some(client) = self.client.as_ref().filter(|raw| raw.first() == Some(&b'{')) {
            add(meta::CLIENT, &String::from_utf8_lossy(client));
        }
        add(meta::CAPABILITIES, &self.modern_capabilities(makes_task));
        if let Some(level) = self.level {
            add(meta::LEVEL, &format!("\"{}\"", level.word()));
        }
        members
    }

    /// Its capabilities in their modern form; none if they are malformed.
    fn modern_capabilities(&self, makes_task: bool) -> String {
        let changes = modern_capabilities(&self.capabilities, makes_task);
        let raw = changes.map_or_else(|_| b"{}".to_vec(), |changes| applied(&self.capabilities, &changes));
        String::from_utf8_lossy(&raw).into_owned()
    }
}

/// Translates raw capabilities. Tasks are an extension in the modern era. The legacy member `tasks` is about tasks that a client
/// creates for its server, which the modern era lacks.
fn modern_capabilities(legacy: &Bytes, makes_task: bool) -> Result<Vec<Change>, NotAnObject> {
    let [extensions] = cut(legacy, ["extensions"])?.values;
    let tasks = format!(r#""{TASKS}":{{}}"#);
    match extensions {
        Some(extensions) if extensions.first() == Some(&b'{') => {
            let mut changes = without(legacy, &["tasks"])?;
            let known = cut(&extensions, [TASKS])?;
            match (makes_task, &known.values) {
                (true, [None]) => changes.extend(replace_members(&extensions, &[], &tasks)?),
                (true, [Some(_)]) => {}
                (false, _) => changes.extend(known.changes),
            }
            Ok(changes)
        }
        _ if makes_task => replace_members(legacy, &["tasks", "extensions"], &format!(r#""extensions":{{{tasks}}}"#)),
        _ => without(legacy, &["tasks"]),
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
        assert_eq!(all.meta_members(false), expected);
        let least = concat!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientCapabilities":{}"#
        );
        assert_eq!(client_meta("{}").meta_members(false), least);
        let odd = LegacyClientMeta { client: Some(Bytes::from_static(b"7")), ..client_meta("null") };
        assert_eq!(odd.meta_members(false), least);
    }

    #[test]
    fn capabilities_pass_but_for_tasks() {
        for (legacy, plain, with_task) in [
            ("{}", "{}", r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#),
            (
                r#"{"roots": {"listChanged":true},"tasks":{"list":{}},"x":1.0}"#,
                r#"{"roots": {"listChanged":true},"x":1.0}"#,
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"roots": {"listChanged":true},"x":1.0}"#,
            ),
            (
                r#"{"extensions":{"a/b":{}},"tasks":{}}"#,
                r#"{"extensions":{"a/b":{}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}"#,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{"k":1}}}"#,
                r#"{"extensions":{}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{"k":1}}}"#,
            ),
            (
                r#"{"extensions":null}"#,
                r#"{"extensions":null}"#,
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            ),
        ] {
            let client_meta = client_meta(legacy);
            assert_eq!(client_meta.modern_capabilities(false), plain, "{legacy}");
            assert_eq!(client_meta.modern_capabilities(true), with_task, "{legacy}");
        }
    }
}
