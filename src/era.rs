//! Protocol versions: which are offered, which are accepted, and the features of each. Pure.
//!
//! A version belongs to one of two eras. A legacy connection opens with `initialize`, whose result holds for the whole connection. A
//! modern request has everything that is needed to read it in its `_meta`.
//!
//! Most modules below translate one kind of message between the eras. They work on raw bytes, and unknown members pass unchanged.
//! Source: MCP 2026-07-28, `changelog`.

pub mod input;
pub mod request_meta;
pub mod response;
pub mod subscription;

use serde_json::{Value, json};

use crate::jsonrpc::reply;

/// The two families of protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Opens with `initialize` (up to [`NEWEST_LEGACY`]).
    Legacy,
    /// Stateless ([`MODERN`]).
    Modern,
}

impl Era {
    /// Both eras, the older one first.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// The opposite era.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    /// Its name in `mcpd status` and in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The request that every server of this era answers, whatever it offers.
    #[must_use]
    pub fn greeting(self) -> &'static str {
        match self {
            Self::Legacy => "ping",
            Self::Modern => "server/discover",
        }
    }
}

/// A set of eras.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Eras {
    legacy: bool,
    modern: bool,
}

impl Eras {
    /// Adds an era.
    pub fn insert(&mut self, era: Era) {
        match era {
            Era::Legacy => self.legacy = true,
            Era::Modern => self.modern = true,
        }
    }

    /// Whether the set has this era.
    #[must_use]
    pub fn contains(self, era: Era) -> bool {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => self.modern,
        }
    }

    /// The eras of the set, the older one first.
    pub fn iter(self) -> impl Iterator<Item = Era> {
        Era::ALL.into_iter().filter(move |era| self.contains(*era))
    }
}

impl FromIterator<Era> for Eras {
    fn from_iter<T: IntoIterator<Item = Era>>(eras: T) -> Self {
        let mut all = Self::default();
        eras.into_iter().for_each(|era| all.insert(era));
        all
    }
}

/// The version of the modern era.
pub const MODERN: &str = "2026-07-28";

/// Keys of `_meta` that the modern era reserves (MCP 2026-07-28, `basic`, "`_meta`").
pub mod meta {
    /// Of a request: its protocol version. A request with this key is modern.
    pub const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
    /// Of a request: the name of its client.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// Of a request: the capabilities of its client.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Of a request: the lowest level of log messages about it.
    pub const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Of a notification: the id of its `subscriptions/listen`.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    /// Of a result: the name of its server.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
}

/// The extension for tasks in the modern era. It is declared in `extensions`.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Versions of the legacy era, oldest first (MCP, `basic/lifecycle`, "Version Negotiation").
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// The version offered to servers, and to an agent that proposes an unknown version.
pub const NEWEST_LEGACY: &str = "2025-11-25";

/// The versions that have something: all from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    first: &'static str,
    last: &'static str,
}

impl Versions {
    /// Every version.
    pub const ALL: Self = Self { first: LEGACY[0], last: MODERN };
    /// Those of the legacy era.
    pub const LEGACY: Self = Self { last: NEWEST_LEGACY, ..Self::ALL };
    /// That of the modern era.
    pub const MODERN: Self = Self { first: MODERN, ..Self::ALL };

    /// All from `first` on.
    #[must_use]
    pub const fn since(first: &'static str) -> Self {
        Self { first, ..Self::ALL }
    }

    /// Those of these from `first` on.
    #[must_use]
    pub const fn from(self, first: &'static str) -> Self {
        Self { first, ..self }
    }

    /// Whether `protocol` is one of them.
    #[must_use]
    pub fn include(self, protocol: &str) -> bool {
        // Versions are dates, so their text sorts by time.
        (self.first..=self.last).contains(&protocol)
    }
}

/// The versions that have a capability. Fields are not gated, because a peer ignores fields that it does not know.
fn versions_of(capability: &[u8]) -> Versions {
    match capability {
        b"completions" => Versions::since("2025-03-26"),
        b"elicitation" => Versions::since("2025-06-18"),
        b"tasks" => Versions::LEGACY.from("2025-11-25"),
        _ => Versions::ALL,
    }
}

/// The error for a request whose headers contradict its body (MCP 2026-07-28, `basic/transports/streamable-http`).
pub const HEADER_MISMATCH: i32 = -32020;

/// The error for a request that lacks a client capability (MCP 2026-07-28, `basic`, "Error Codes").
pub const MISSING_CAPABILITY: i32 = -32021;

/// The error for a request of an unsupported version (MCP 2026-07-28, `basic/versioning`).
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The era of a supported version.
#[must_use]
pub fn of(protocol: &str) -> Era {
    if protocol == MODERN { Era::Modern } else { Era::Legacy }
}

/// The error code for an unknown resource (MCP 2025-11-25 and 2026-07-28, `server/resources`, "Error Handling").
#[must_use]
pub fn resource_not_found(era: Era) -> i32 {
    match era {
        Era::Legacy => reply::RESOURCE_NOT_FOUND,
        Era::Modern => reply::INVALID_PARAMS,
    }
}

/// The params of a modern request that mcpd itself sends. It declares no capabilities, because no agent could answer.
#[must_use]
pub fn own_params() -> Value {
    json!({ "_meta": {
        meta::PROTOCOL: MODERN,
        meta::CLIENT: { "name": "mcpd", "version": env!("CARGO_PKG_VERSION") },
        meta::CAPABILITIES: {},
    }})
}

/// The same for a request about a task, which has to declare the extension for tasks.
#[must_use]
pub fn own_task_params() -> Value {
    let mut params = own_params();
    params["_meta"][meta::CAPABILITIES] = json!({ "extensions": { TASKS: {} } });
    params
}

/// The version for an agent that has proposed this version.
#[must_use]
pub fn negotiate(proposed: &str) -> &'static str {
    known(proposed).unwrap_or(NEWEST_LEGACY)
}

/// The header with the version of a message over HTTP, which belongs to every request after `initialize`.
pub const VERSION_HEADER: &str = "mcp-protocol-version";

/// The version for a second `initialize` after a refusal with this text: the newest legacy version except [`NEWEST_LEGACY`] that it names,
/// or [`NEWEST_LEGACY`] if it requires [`VERSION_HEADER`], which the second request has.
#[must_use]
pub fn version_after_refusal(text: &str) -> Option<&'static str> {
    let older = LEGACY.into_iter().rev().filter(|version| *version != NEWEST_LEGACY).find(|known| text.contains(known));
    older.or_else(|| text.to_ascii_lowercase().contains(VERSION_HEADER).then_some(NEWEST_LEGACY))
}

/// The version that a server has chosen, if mcpd supports it.
#[must_use]
pub fn known(version: &str) -> Option<&'static str> {
    LEGACY.into_iter().find(|known| *known == version)
}

/// A version of either era, if mcpd supports it.
#[must_use]
pub fn supported(version: &str) -> Option<&'static str> {
    if version == MODERN { Some(MODERN) } else { known(version) }
}

/// Whether `protocol` has a capability, so that it may be declared to a peer with this version.
#[must_use]
pub fn has(protocol: &str, capability: impl AsRef<[u8]>) -> bool {
    versions_of(capability.as_ref()).include(protocol)
}

/// The server capabilities that mcpd declares to an agent with this version, independent of the servers that run now.
#[must_use]
pub fn capabilities(protocol: &str) -> Value {
    let mut all = json!({
        "completions": {},
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "logging": {},
        "resources": { "subscribe": true, "listChanged": true },
        "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } },
    });
    if let Some(all) = all.as_object_mut() {
        all.retain(|name, _| has(protocol, name));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_version_is_accepted_and_unknown_version_gets_the_newest() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for unknown in ["2026-07-28", "2024-10-07", "", "1.0"] {
            assert_eq!((negotiate(unknown), known(unknown)), (NEWEST_LEGACY, None));
        }
    }

    #[test]
    fn each_version_has_the_capabilities_of_its_schema() {
        for (name, expected) in [
            ("tools", [true, true, true, true, true]),
            ("completions", [false, true, true, true, true]),
            ("elicitation", [false, false, true, true, true]),
            ("tasks", [false, false, false, true, false]),
        ] {
            let [one, two, three, four] = LEGACY;
            assert_eq!([one, two, three, four, MODERN].map(|version| has(version, name)), expected, "{name}");
        }
        assert_eq!((of(MODERN), of(NEWEST_LEGACY)), (Era::Modern, Era::Legacy));
    }

    #[test]
    fn declared_capabilities_exist_in_the_version_of_the_agent() {
        let declared =
            |version| capabilities(version).as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(declared("2024-11-05"), ["logging", "prompts", "resources", "tools"]);
        assert_eq!(declared("2025-11-25"), ["completions", "logging", "prompts", "resources", "tasks", "tools"]);
    }
}
