//! Protocol versions: what is offered, what is accepted, on both sides.
//!
//! Pure. Today every version is of the legacy era, the one that opens with `initialize`.

use serde_json::json;

/// Versions of the legacy era, oldest first (MCP, `basic/lifecycle`, "Version Negotiation").
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// The version offered to servers, and to an agent that asks for one mcpd does not know.
pub const NEWEST_LEGACY: &str = "2025-11-25";

/// The version in which an agent that proposed `asked` is served.
#[must_use]
pub fn negotiate(asked: &str) -> &'static str {
    known(asked).unwrap_or(NEWEST_LEGACY)
}

/// The version a server chose, if mcpd speaks it.
#[must_use]
pub fn known(version: &str) -> Option<&'static str> {
    LEGACY.into_iter().find(|known| *known == version)
}

/// What an agent that is served in `protocol` is told that mcpd can do, whatever servers run just now.
#[must_use]
pub fn capabilities(protocol: &str) -> serde_json::Value {
    let mut all = json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "listChanged": true },
    });
    // Declared since 2025-03-26 (`changelog`).
    if protocol != LEGACY[0] {
        all["completions"] = json!({});
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_version_is_kept_and_an_unknown_one_gets_the_newest() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for unknown in ["2026-07-28", "2024-10-07", "", "1.0"] {
            assert_eq!((negotiate(unknown), known(unknown)), (NEWEST_LEGACY, None));
        }
    }
}
