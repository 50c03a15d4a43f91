//! What requests of the modern era say of themselves, and what the shim asks in that era. Pure.
//!
//! Source: MCP 2026-07-28, `basic`, "`_meta`", and `server/discover`.

use bytes::Bytes;

use super::asking::own;
use super::greeting::version;
use crate::era::{MODERN, meta};
use crate::jsonrpc::members::members;

/// Longest `clientInfo` that is remembered, in bytes.
const LONGEST_INFO: usize = 4 << 10;

/// Who makes requests of the modern era.
#[derive(Debug, PartialEq)]
pub(super) struct Client {
    /// Its `clientInfo`, raw, if it says one.
    info: Option<Bytes>,
}

/// Whether a request with these raw params is of the modern era: its `_meta` says of which version it is.
pub(super) fn is(params: Option<&Bytes>) -> bool {
    Client::of(params).is_some()
}

/// Of which version a daemon that has answered `server/discover` is, if it is mcpd.
pub(super) fn discovered(result: &Bytes) -> Option<String> {
    let [meta] = members(result, ["_meta"]).ok()?;
    let [info] = members(&meta?, [meta::SERVER]).ok()?;
    version(&info?)
}

impl Client {
    /// Who makes a request with these raw params, if that is of the modern era.
    pub(super) fn of(params: Option<&Bytes>) -> Option<Self> {
        let [meta] = members(params?, ["_meta"]).ok()?;
        let [protocol, info] = members(&meta?, [meta::PROTOCOL, meta::CLIENT]).ok()?;
        protocol?;
        let info = info.filter(|info| info.len() <= LONGEST_INFO);
        Some(Self { info: info.as_ref().map(own) })
    }

    /// Asks a daemon under the raw id `id`, in the name of this client, whether it serves.
    pub(super) fn asks(&self, id: &str) -> Bytes {
        let mut said = format!("\"{}\":\"{MODERN}\",\"{}\":{{}}", meta::PROTOCOL, meta::CAPABILITIES).into_bytes();
        if let Some(info) = &self.info {
            said.extend([b",\"", meta::CLIENT.as_bytes(), b"\":", info].concat());
        }
        let head =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server/discover\",\"params\":{{\"_meta\":{{");
        [head.as_bytes(), &said, b"}}}\n"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(params: &'static str) -> Option<Client> {
        Client::of(Some(&Bytes::from_static(params.as_bytes())))
    }

    #[test]
    fn a_request_is_modern_if_it_says_its_version() {
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
        assert!(!is(None));
    }

    #[test]
    fn a_daemon_is_asked_in_the_name_of_the_agent() {
        let own =
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        for (said, expected) in [
            ("", String::new()),
            (
                r#","io.modelcontextprotocol/clientInfo":{"name": "x"}"#,
                r#","io.modelcontextprotocol/clientInfo":{"name": "x"}"#.to_owned(),
            ),
        ] {
            let params = Bytes::from(format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"v"{said}}}}}"#));
            let asked = Client::of(Some(&params)).expect("it says its version").asks("\"own\"");
            let head = "{\"jsonrpc\":\"2.0\",\"id\":\"own\",\"method\":\"server/discover\",\"params\":{\"_meta\":{";
            assert_eq!(asked, format!("{head}{own}{expected}}}}}}}\n"));
        }
        let long = format!("\"{}\"", "x".repeat(LONGEST_INFO));
        let params = format!(
            r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientInfo":{long}}}}}"#
        );
        assert_eq!(Client::of(Some(&params.into())), Some(Client { info: None }));
    }

    #[test]
    fn a_daemon_says_of_which_version_it_is() {
        let check = |name: &str, expected: Option<&str>| {
            let info = format!(r#"{{"name":"{name}","version":"0.2.0"}}"#);
            let result = Bytes::from(format!(r#"{{"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#));
            assert_eq!(discovered(&result).as_deref(), expected, "{name}");
        };
        check("mcpd", Some("0.2.0"));
        check("other", None);
        assert_eq!(discovered(&Bytes::from_static(b"{}")), None);
    }
}
