//! Modern requests: who sends them, and `server/discover` by the shim. Pure.
//!
//! Source: MCP 2026-07-28, `basic`, "`_meta`", and `server/discover`.

use bytes::Bytes;

use super::initialize::mcpd_version;
use super::request::copied;
use crate::era::{MODERN, meta};
use crate::jsonrpc::members::members;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
