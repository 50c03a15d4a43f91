//! The agent's `initialize`: annotated, replayed to the next daemon, and its result. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, "Initialization". For modern agents see [`super::request`].

use bytes::Bytes;
use serde_json::{Value, json};

use crate::jsonrpc::Message;
use crate::jsonrpc::codec::without_marks;
use crate::jsonrpc::members::{members, string, text};
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::splice::{Edit, splice};
use crate::methods::USE_FACE;
use crate::session::{CONNECT, CWD, IDS_FROM};
use crate::transport::Incoming;

/// What the shim tells the daemon.
#[derive(Debug, Clone)]
pub(crate) struct ShimInfo {
    /// Its working directory, if that is UTF-8.
    pub(crate) cwd: Option<String>,
    /// Its version.
    pub(crate) version: &'static str,
    /// The server whose face the agent uses.
    pub(crate) server: Option<String>,
}

/// The result of `initialize`.
#[derive(Debug, PartialEq)]
pub(super) struct InitializeResult {
    /// The negotiated protocol version.
    pub(super) protocol: Bytes,
    /// The daemon's version, if it is mcpd.
    pub(super) daemon: Option<String>,
}

/// A line as JSON: without its end and leading marks.
pub(super) fn trim(line: &Bytes) -> Bytes {
    let inner = line.strip_suffix(b"\n").unwrap_or(line);
    line.slice_ref(without_marks(inner))
}

/// Adds the shim's metadata to the agent's line. An unreadable line stays as it is, for the daemon to refuse.
pub(super) fn annotate(line: &Bytes, info: &ShimInfo) -> Bytes {
    let cwd = info.cwd.as_ref().map(|cwd| (CWD, Value::from(cwd.as_str())));
    let members = cwd.into_iter().chain([(CONNECT, Value::from(info.version))]);
    edit(line, &[], members.collect()).unwrap_or_else(|| line.clone())
}

/// The notification with which each connection begins, if the agent uses the face of a server.
pub(super) fn use_face(info: &ShimInfo) -> Option<Bytes> {
    let params = json!({ "server": info.server.as_ref()? });
    Some(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{USE_FACE}\",\"params\":{params}}}\n").into())
}

/// The line for another daemon, with another id and protocol version. That daemon numbers its requests from `ids_from`
/// on.
pub(super) fn replay(line: &Bytes, id: &str, protocol: &[u8], ids_from: u64) -> Option<Bytes> {
    edit(line, &[("id", id.as_bytes()), ("protocolVersion", &quoted(protocol))], vec![(IDS_FROM, ids_from.into())])
}

/// Parses a raw result.
pub(super) fn parse_result(result: &Bytes) -> Option<InitializeResult> {
    let [protocol, info] = members(result, ["protocolVersion", "serverInfo"]).ok()?;
    Some(InitializeResult { protocol: text(&protocol?)?, daemon: info.and_then(|info| mcpd_version(&info)) })
}

/// The version in raw `serverInfo`, if it is mcpd's.
pub(super) fn mcpd_version(info: &Bytes) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let is_mcpd = text(&name?)?[..] == *b"mcpd";
    string(&version?).filter(|_| is_mcpd)
}

/// Changes values of members, and adds missing members of `_meta`.
fn edit(line: &Bytes, values: &[(&str, &[u8])], meta: Vec<(&str, Value)>) -> Option<Bytes> {
    let (incoming, _) = Incoming::read(trim(line), Sender::Agent);
    let Incoming::Message { line, message: Message::Request { id, params: Some(params), .. } } = incoming else {
        return None;
    };
    let [protocol, existing] = members(&params, ["protocolVersion", "_meta"]).ok()?;
    let (protocol, mut edits) = (protocol?, Vec::new());
    for (name, value) in values {
        edits.push(Edit { part: if *name == "id" { &id } else { &protocol }, replacement: value });
    }
    let (object, before, after) = match &existing {
        Some(null) if null[..] == *b"null" => (null, "{", "}"),
        Some(meta) if meta.starts_with(b"{") => (meta, "{", ""),
        Some(_) => return None,
        None => (&params, "{\"_meta\":{", "}"),
    };
    let is_present =
        |key: &str| existing.as_ref().is_some_and(|meta| members(meta, [key]).is_ok_and(|[value]| value.is_some()));
    let added: Vec<_> =
        meta.iter().filter(|(key, _)| !is_present(key)).map(|(key, value)| format!("\"{key}\":{value}")).collect();
    // A null `_meta` is replaced as a whole, an object from its brace on.
    let replaced = if object[..] == *b"null" { object.len() } else { 1 };
    let is_last = replaced > 1 || object[1..].trim_ascii_start().starts_with(b"}");
    let opening = format!("{before}{}{after}{}", added.join(","), if is_last { "" } else { "," });
    if !added.is_empty() {
        edits.push(Edit { part: &object[..replaced], replacement: opening.as_bytes() });
    }
    Some(splice(&line, &mut edits))
}

fn quoted(text: &[u8]) -> Vec<u8> {
    Value::from(String::from_utf8_lossy(text)).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(params: &str) -> Bytes {
        Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\": 1.0, \"method\":\"initialize\",\"params\":{params}}}\n"))
    }

    #[test]
    fn metadata_is_added_only_where_missing() {
        let info = ShimInfo { cwd: Some("/a \"b\"".to_owned()), version: "1.2.3", server: None };
        let both = r#""mcpd/cwd":"/a \"b\"","mcpd/connect":"1.2.3""#;
        for (params, expected) in [
            (r#"{"protocolVersion":"v"}"#, format!(r#"{{"_meta":{{{both}}},"protocolVersion":"v"}}"#)),
            (
                r#"{ "protocolVersion":"v","_meta": { } }"#,
                format!(r#"{{ "protocolVersion":"v","_meta": {{{both} }} }}"#),
            ),
            (
                r#"{"_meta":{"a":1.0},"protocolVersion":"v"}"#,
                format!(r#"{{"_meta":{{{both},"a":1.0}},"protocolVersion":"v"}}"#),
            ),
            (
                r#"{"_meta":{"mcpd/cwd":"/x"},"protocolVersion":"v"}"#,
                r#"{"_meta":{"mcpd/connect":"1.2.3","mcpd/cwd":"/x"},"protocolVersion":"v"}"#.to_owned(),
            ),
            (r#"{"_meta":null,"protocolVersion":"v"}"#, format!(r#"{{"_meta":{{{both}}},"protocolVersion":"v"}}"#)),
            ("{}", "{}".to_owned()),
            ("[]", "[]".to_owned()),
            (r#"{"_meta":1,"protocolVersion":"v"}"#, r#"{"_meta":1,"protocolVersion":"v"}"#.to_owned()),
        ] {
            assert_eq!(annotate(&line(params), &info), line(&expected), "{params}");
        }
        let nowhere = ShimInfo { cwd: None, ..info };
        let expected = r#"{"_meta":{"mcpd/connect":"1.2.3"},"protocolVersion":"v"}"#;
        assert_eq!(annotate(&line(r#"{"protocolVersion":"v"}"#), &nowhere), line(expected));
    }

    #[test]
    fn replayed_initialize_has_the_negotiated_version() {
        let original =
            line(r#"{"_meta":{"mcpd/connect":"1"},"protocolVersion":"2099-01-01","capabilities":{"x":1.10}}"#);
        let expected = "{\"jsonrpc\":\"2.0\",\"id\": \"own\", \"method\":\"initialize\",\"params\":{\"_meta\":{\"mcpd/ids_from\":9,\
            \"mcpd/connect\":\"1\"},\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"x\":1.10}}}\n";
        assert_eq!(replay(&original, "\"own\"", b"2025-11-25", 9), Some(Bytes::from(expected)));
    }

    #[test]
    fn only_mcpd_has_a_daemon_version() {
        let check = |result: &'static str, protocol: &'static str, daemon: Option<&str>| {
            let expected = InitializeResult {
                protocol: Bytes::from_static(protocol.as_bytes()),
                daemon: daemon.map(str::to_owned),
            };
            assert_eq!(parse_result(&Bytes::from_static(result.as_bytes())), Some(expected), "{result}");
        };
        check(r#"{"protocolVersion":"v","serverInfo":{"name":"mcpd","version":"0.2.0"}}"#, "v", Some("0.2.0"));
        check(r#"{"protocolVersion":"v","serverInfo":{"name":"other","version":"0.2.0"}}"#, "v", None);
        check(r#"{"protocolVersion":"v"}"#, "v", None);
        assert_eq!(parse_result(&Bytes::from_static(b"{}")), None);
    }
}
