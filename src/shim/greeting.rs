//! The agent's `initialize`: with what mcpd wants to know, said again to another daemon, and what is answered to it. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, "Initialization". What is said in its place for an agent that never says it:
//! [`super::modern`].

use bytes::Bytes;
use serde_json::Value;

use crate::jsonrpc::Message;
use crate::jsonrpc::codec::without_marks;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::{Edit, splice};
use crate::session::initialize_meta::{CONNECT, CWD, IDS_FROM};
use crate::transport::Incoming;

/// What the shim says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Where it works, if that is text.
    pub(crate) cwd: Option<String>,
    /// Its version.
    pub(crate) version: &'static str,
}

/// What a daemon answers.
#[derive(Debug, PartialEq)]
pub(super) struct Welcome {
    /// The protocol version that it serves in.
    pub(super) protocol: Bytes,
    /// Its own, if it is mcpd.
    pub(super) daemon: Option<String>,
}

/// A line as a message reads it: without its end and what may stand before it.
pub(super) fn message(line: &Bytes) -> Bytes {
    let inner = line.strip_suffix(b"\n").unwrap_or(line);
    line.slice_ref(without_marks(inner))
}

/// The agent's line with what the shim says of itself. One of which nothing can be read stays as it is: the daemon refuses it.
pub(super) fn marked(line: &Bytes, own: &Own) -> Bytes {
    let cwd = own.cwd.as_ref().map(|cwd| (CWD, Value::from(cwd.as_str())));
    let said = cwd.into_iter().chain([(CONNECT, Value::from(own.version))]);
    edited(line, &[], said.collect()).unwrap_or_else(|| line.clone())
}

/// The same line for another daemon: under the id `id`, for the version `protocol`. What that one asks is to have numbers from
/// `ids_from` on.
pub(super) fn repeated(line: &Bytes, id: &str, protocol: &[u8], ids_from: u64) -> Option<Bytes> {
    edited(line, &[("id", id.as_bytes()), ("protocolVersion", &quoted(protocol))], vec![(IDS_FROM, ids_from.into())])
}

/// What a raw result says.
pub(super) fn welcome(result: &Bytes) -> Option<Welcome> {
    let [protocol, info] = members(result, ["protocolVersion", "serverInfo"]).ok()?;
    Some(Welcome { protocol: text(&protocol?)?, daemon: info.and_then(|info| version(&info)) })
}

/// The version of mcpd, if that is what raw `serverInfo` is of.
pub(super) fn version(info: &Bytes) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let is_mcpd = text(&name?)?[..] == *b"mcpd";
    String::from_utf8(text(&version?)?.into()).ok().filter(|_| is_mcpd)
}

/// The line with other values of members that it has, and with members of `_meta` that it has not.
fn edited(line: &Bytes, values: &[(&str, &[u8])], meta: Vec<(&str, Value)>) -> Option<Bytes> {
    let Incoming::Message { line, message: Message::Request { id, params: Some(params), .. } } =
        Incoming::of(message(line))
    else {
        return None;
    };
    let [protocol, said] = members(&params, ["protocolVersion", "_meta"]).ok()?;
    let protocol = protocol?;
    let mut edits = Vec::new();
    for (name, value) in values {
        edits.push(Edit { part: if *name == "id" { &id } else { &protocol }, replacement: value });
    }
    let (object, before, after) = match &said {
        Some(said) if said.starts_with(b"{") => (said, "{", ""),
        Some(_) => return None,
        None => (&params, "{\"_meta\":{", "}"),
    };
    let is_said =
        |key: &str| said.as_ref().is_some_and(|said| members(said, [key]).is_ok_and(|[value]| value.is_some()));
    let added: Vec<_> =
        meta.iter().filter(|(key, _)| !is_said(key)).map(|(key, value)| format!("\"{key}\":{value}")).collect();
    let comma = if object[1..].trim_ascii_start().starts_with(b"}") { "" } else { "," };
    let opening = format!("{before}{}{after}{comma}", added.join(","));
    if !added.is_empty() {
        edits.push(Edit { part: &object[..1], replacement: opening.as_bytes() });
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
    fn nothing_is_added_but_what_the_agent_has_not_said() {
        let own = Own { cwd: Some("/a \"b\"".to_owned()), version: "1.2.3" };
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
            ("{}", "{}".to_owned()),
            ("[]", "[]".to_owned()),
            (r#"{"_meta":1,"protocolVersion":"v"}"#, r#"{"_meta":1,"protocolVersion":"v"}"#.to_owned()),
        ] {
            assert_eq!(marked(&line(params), &own), line(&expected), "{params}");
        }
        let nowhere = Own { cwd: None, ..own };
        let expected = r#"{"_meta":{"mcpd/connect":"1.2.3"},"protocolVersion":"v"}"#;
        assert_eq!(marked(&line(r#"{"protocolVersion":"v"}"#), &nowhere), line(expected));
    }

    #[test]
    fn it_is_said_again_for_the_version_that_was_agreed_on() {
        let said = line(r#"{"_meta":{"mcpd/connect":"1"},"protocolVersion":"2099-01-01","capabilities":{"x":1.10}}"#);
        let expected = "{\"jsonrpc\":\"2.0\",\"id\": \"own\", \"method\":\"initialize\",\"params\":{\"_meta\":{\"mcpd/ids_from\":9,\
            \"mcpd/connect\":\"1\"},\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"x\":1.10}}}\n";
        assert_eq!(repeated(&said, "\"own\"", b"2025-11-25", 9), Some(Bytes::from(expected)));
    }

    #[test]
    fn another_program_has_no_version_to_compare_with() {
        let check = |result: &'static str, protocol: &'static str, daemon: Option<&str>| {
            let expected =
                Welcome { protocol: Bytes::from_static(protocol.as_bytes()), daemon: daemon.map(str::to_owned) };
            assert_eq!(welcome(&Bytes::from_static(result.as_bytes())), Some(expected), "{result}");
        };
        check(r#"{"protocolVersion":"v","serverInfo":{"name":"mcpd","version":"0.2.0"}}"#, "v", Some("0.2.0"));
        check(r#"{"protocolVersion":"v","serverInfo":{"name":"other","version":"0.2.0"}}"#, "v", None);
        check(r#"{"protocolVersion":"v"}"#, "v", None);
        assert_eq!(welcome(&Bytes::from_static(b"{}")), None);
    }
}
