//! Derives the era of a server from its response to `server/discover`. Pure.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions".

use bytes::Bytes;

use super::{ServerInfo, shortened};
use crate::era;
use crate::jsonrpc::members::members;

/// The meaning of a response to `server/discover`.
pub(super) enum DiscoverOutcome {
    Modern(Box<ServerInfo>),
    Legacy,
    /// The server has refused the version that it lists as supported: send `server/discover` once more.
    Retry,
    /// The server is modern, but mcpd supports none of its versions.
    NoCommonVersion {
        /// The versions of the server, shortened.
        versions: String,
    },
}

/// Interprets the response. Only the unsupported-version error of the modern era shows a modern server. All other errors show a
/// legacy one.
pub(super) fn interpret_discover(outcome: Result<Bytes, Bytes>) -> DiscoverOutcome {
    match outcome {
        Ok(result) => ServerInfo::from_discover(&result)
            .map_or(DiscoverOutcome::Legacy, |info| DiscoverOutcome::Modern(Box::new(info))),
        Err(error) => match supported(&error) {
            Some(versions) if versions.iter().any(|version| version == era::MODERN) => DiscoverOutcome::Retry,
            Some(versions) if !versions.iter().any(|version| era::known(version).is_some()) => {
                let versions = shortened(versions.join(", ").as_bytes());
                DiscoverOutcome::NoCommonVersion { versions }
            }
            _ => DiscoverOutcome::Legacy,
        },
    }
}

/// Whether the error has the code for an unsupported version.
pub(super) fn is_version_refused(error: &Bytes) -> bool {
    let code = members(error, ["code"]).ok().and_then(|[code]| code);
    code.is_some_and(|code| code == era::UNSUPPORTED_VERSION.to_string())
}

/// The supported versions in an error for an unsupported version.
fn supported(error: &Bytes) -> Option<Vec<String>> {
    let [data] = members(error, ["data"]).ok()?;
    if !is_version_refused(error) {
        return None;
    }
    let [supported] = members(&data?, ["supported"]).ok()?;
    serde_json::from_slice(&supported?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_to_discover_decides_the_era() {
        let found = |answer: Result<&'static str, &'static str>| {
            let raw = |text: &'static str| Bytes::from_static(text.as_bytes());
            match interpret_discover(answer.map(raw).map_err(raw)) {
                DiscoverOutcome::Modern(info) => info.protocol.to_owned(),
                DiscoverOutcome::Legacy => "legacy".to_owned(),
                DiscoverOutcome::Retry => "again".to_owned(),
                DiscoverOutcome::NoCommonVersion { versions } => versions,
            }
        };
        assert_eq!(found(Ok(r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#)), "2026-07-28");
        for legacy in [
            Ok("{}"),
            Err(r#"{"code":-32601,"message":"x"}"#),
            Err(r#"{"code":-32602,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#),
            Err("[]"),
        ] {
            assert_eq!(found(legacy), "legacy", "{legacy:?}");
        }
        let strange = Err(r#"{"code":-32022,"message":"x","data":{"supported":["2031-01-01","2026-07-28"]}}"#);
        assert_eq!(found(strange), "again");
        let newer = Err(r#"{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}"#);
        assert!(found(newer).contains("2031-01-01"));
    }
}
