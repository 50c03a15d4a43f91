//! A request of the agent, its effect on the session, and the sender of a modern one. `initialize` is annotated, and replayed to the next
//! daemon. Pure.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `server/resources`, `server/utilities/logging`; MCP 2026-07-28, `basic`,
//! `server/discover` and `basic/patterns/subscriptions`.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::era::{MODERN, meta};
use crate::jsonrpc::codec::without_marks;
use crate::jsonrpc::members::{members, string, text};
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{Message, MessageError, reply};
use crate::methods::{PROFILE_DIRECTORY, USE_FACE};
use crate::session::{CONNECT, CWD, IDS_FROM};
use crate::transport::Incoming;

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// Raw.
    pub(super) id: Bytes,
    pub(super) effect: RequestEffect,
}

/// The effect of a successful request, which the next daemon must learn, too.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RequestEffect {
    /// None.
    Plain,
    /// `initialize`: the session is open.
    Initialize,
    /// The minimum level of log messages; raw.
    LogLevel(Bytes),
    /// A subscription to this URI; raw.
    Subscribe(Bytes),
    /// The end of a subscription.
    Unsubscribe(Bytes),
    /// `server/discover`, of the modern era.
    Discover,
    /// `subscriptions/listen`, of the modern era. It is answered when it ends.
    Listen,
}

impl Request {
    /// The request that a line contains, if it contains one.
    pub(super) fn of(incoming: &Incoming) -> Option<Self> {
        match incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. } => {
                Some(Self { id: copied(id), effect: RequestEffect::of(method, params.as_ref()) })
            }
            // It is answered as an invalid request.
            Incoming::Malformed(MessageError::NotAMessage { id: Some(id) }) => Some(Self::plain(copied(id))),
            _ => None,
        }
    }

    /// A request of which only the id is known.
    pub(super) fn plain(id: Bytes) -> Self {
        Self { id, effect: RequestEffect::Plain }
    }

    /// Whether it can be cancelled: `initialize` cannot (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) fn is_cancellable(&self) -> bool {
        self.effect != RequestEffect::Initialize
    }
}

impl RequestEffect {
    fn of(method: &[u8], params: Option<&Bytes>) -> Self {
        let member =
            |name| params.and_then(|params| members(params, [name]).ok()).and_then(|[raw]| raw).map(|raw| copied(&raw));
        match method {
            b"logging/setLevel" => member("level").map_or(Self::Plain, Self::LogLevel),
            b"resources/subscribe" => member("uri").map_or(Self::Plain, Self::Subscribe),
            b"resources/unsubscribe" => member("uri").map_or(Self::Plain, Self::Unsubscribe),
            b"server/discover" => Self::Discover,
            b"subscriptions/listen" if is_modern(params) => Self::Listen,
            _ => Self::Plain,
        }
    }
}

/// A copy, so that the slice does not keep the whole line in memory.
pub(super) fn copied(part: &Bytes) -> Bytes {
    Bytes::copy_from_slice(part)
}

/// Longest `clientInfo` that is kept, in bytes.
const MAX_INFO_LEN: usize = 4 << 10;

/// The sender of modern requests.
#[derive(Debug, PartialEq)]
pub(super) struct ModernClient {
    /// Its `clientInfo`, raw, if there is one.
    info: Option<Bytes>,
}

/// Whether a request with these raw params is modern: its `_meta` has the protocol version.
pub(super) fn is_modern(params: Option<&Bytes>) -> bool {
    ModernClient::of(params).is_some()
}

/// The version of a daemon, from its result of `server/discover`, if it is mcpd.
pub(super) fn discovered_version(result: &Bytes) -> Option<String> {
    let [meta] = members(result, ["_meta"]).ok()?;
    let [info] = members(&meta?, [meta::SERVER]).ok()?;
    mcpd_version(&info?)
}

impl ModernClient {
    /// The sender of a request with these raw params, if it is modern.
    pub(super) fn of(params: Option<&Bytes>) -> Option<Self> {
        let [meta] = members(params?, ["_meta"]).ok()?;
        let [protocol, info] = members(&meta?, [meta::PROTOCOL, meta::CLIENT]).ok()?;
        protocol?;
        let info = info.filter(|info| info.len() <= MAX_INFO_LEN);
        Some(Self { info: info.as_ref().map(copied) })
    }

    /// A `server/discover` request with the raw id `id`, on behalf of this client.
    pub(super) fn discover_request(&self, id: &str) -> Bytes {
        let mut meta = format!("\"{}\":\"{MODERN}\",\"{}\":{{}}", meta::PROTOCOL, meta::CAPABILITIES).into_bytes();
        if let Some(info) = &self.info {
            meta.extend([b",\"", meta::CLIENT.as_bytes(), b"\":", info].concat());
        }
        let head =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server/discover\",\"params\":{{\"_meta\":{{");
        [head.as_bytes(), &meta, b"}}}\n"].concat().into()
    }
}

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

/// The notification with which each connection begins, if the agent's directory has chosen its profile.
pub(super) fn profile_directory(directory: Option<&String>) -> Option<Bytes> {
    Some(reply::notification_with(PROFILE_DIRECTORY, &json!({ "directory": directory? })))
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

    #[test]
    fn requests_have_their_raw_id_and_effect() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":"\u0061","method":"ping"}"#, Some((r#""\u0061""#, RequestEffect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:\/"}}"#,
                Some(("1", RequestEffect::Subscribe(bytes(r#""a:\/""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"a:"}}"#,
                Some(("1", RequestEffect::Unsubscribe(bytes(r#""a:""#)))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#,
                Some(("1", RequestEffect::LogLevel(bytes(r#""info""#)))),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}"#, Some(("1", RequestEffect::Plain))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#,
                Some(("1", RequestEffect::Plain)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}}"#,
                Some(("1", RequestEffect::Listen)),
            ),
            (r#"{"id":7,"method":"ping"}"#, Some(("7", RequestEffect::Plain))),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, None),
            ("", None),
            ("hello", None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
        ] {
            let expected = expected.map(|(id, effect)| Request { id: bytes(id), effect });
            assert_eq!(Request::of(&Incoming::of(bytes(line))), expected, "{line}");
        }
    }

    fn client(params: &'static str) -> Option<ModernClient> {
        ModernClient::of(Some(&Bytes::from_static(params.as_bytes())))
    }

    #[test]
    fn request_with_a_protocol_version_is_modern() {
        for (params, expected) in [
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}"#, true),
            (r#"{"name":"a","_meta":{"io.modelcontextprotocol\/protocolVersion":7}}"#, true),
            (r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#, false),
            (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, false),
            (r#"{"_meta":[]}"#, false),
            ("{}", false),
        ] {
            assert_eq!(client(params).is_some(), expected, "{params}");
        }
        assert!(!is_modern(None));
    }

    #[test]
    fn discover_request_has_the_client_info_of_the_agent() {
        let own =
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        for (info, expected) in [
            ("", String::new()),
            (
                r#","io.modelcontextprotocol/clientInfo":{"name": "x"}"#,
                r#","io.modelcontextprotocol/clientInfo":{"name": "x"}"#.to_owned(),
            ),
        ] {
            let params = Bytes::from(format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"v"{info}}}}}"#));
            let request = ModernClient::of(Some(&params)).expect("a protocol version").discover_request("\"own\"");
            let head = "{\"jsonrpc\":\"2.0\",\"id\":\"own\",\"method\":\"server/discover\",\"params\":{\"_meta\":{";
            assert_eq!(request, format!("{head}{own}{expected}}}}}}}\n"));
        }
        let long = format!("\"{}\"", "x".repeat(MAX_INFO_LEN));
        let params = format!(
            r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientInfo":{long}}}}}"#
        );
        assert_eq!(ModernClient::of(Some(&params.into())), Some(ModernClient { info: None }));
    }

    #[test]
    fn discover_result_has_the_daemon_version() {
        let check = |name: &str, expected: Option<&str>| {
            let info = format!(r#"{{"name":"{name}","version":"0.2.0"}}"#);
            let result = Bytes::from(format!(r#"{{"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#));
            assert_eq!(discovered_version(&result).as_deref(), expected, "{name}");
        };
        check("mcpd", Some("0.2.0"));
        check("other", None);
        assert_eq!(discovered_version(&Bytes::from_static(b"{}")), None);
    }

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
