//! Protocol versions: what is offered, what is accepted, and what each of them has, on both sides.
//!
//! Pure. A version is of one of two eras: legacy ones open with `initialize`, and what holds then holds for the connection; in
//! modern ones each request says in its `_meta` what it has to be read with.
//!
//! The rooms below carry messages from one era into the other, each a kind of them. They work on raw bytes: what they do not know
//! passes as it is. Source: MCP 2026-07-28, `changelog`.

pub mod error;
pub mod input;
pub mod notification;
pub mod request;
pub mod result;
pub mod speaker;
pub mod stated;
pub mod subscription;
pub mod task;

use serde_json::{Value, json};

use crate::jsonrpc::reply;

/// How a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// It opens with `initialize` (up to [`NEWEST_LEGACY`]).
    Legacy,
    /// Stateless ([`MODERN`]).
    Modern,
}

impl Era {
    /// The older one first.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// The one that this is not.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    /// The word for it in `mcpd status` and in the configuration.
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

/// Some of the eras.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Eras {
    legacy: bool,
    modern: bool,
}

impl Eras {
    /// Adds one.
    pub fn insert(&mut self, era: Era) {
        match era {
            Era::Legacy => self.legacy = true,
            Era::Modern => self.modern = true,
        }
    }

    /// Whether one is among them.
    #[must_use]
    pub fn contains(self, era: Era) -> bool {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => self.modern,
        }
    }

    /// Each of them, the older one first.
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
    /// Of a request: the version that it is of. One that has it is modern.
    pub const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
    /// Of a request: what its client is called.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// Of a request: what its client can do.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Of a request: from which level on log messages of it are wanted.
    pub const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Of a notification: the id of the `subscriptions/listen` that it is for.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    /// Of a result: what its server is called.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
}

/// The extension by which the modern era has tasks; it is declared among `extensions`.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Versions of the legacy era, oldest first (MCP, `basic/lifecycle`, "Version Negotiation").
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// The version offered to servers, and to an agent that asks for one mcpd does not know.
pub const NEWEST_LEGACY: &str = "2025-11-25";

/// JSON-RPC batches, which have no name in the protocol.
pub const BATCHES: &str = "batches";

/// The first and the last version that has a method, notification or capability, or [`BATCHES`]; `None` if all have it, such as
/// `completion/complete`, which servers of the first had no way to declare. Fields are never gated: who does not know one
/// passes over it.
///
/// Source: MCP, `schema` and `changelog` of each version.
fn bounds(name: &[u8]) -> Option<(&'static str, &'static str)> {
    Some(match name {
        b"batches" => ("2025-03-26", "2025-03-26"),
        b"completions" => ("2025-03-26", MODERN),
        b"elicitation" | b"elicitation/create" => ("2025-06-18", MODERN),
        b"server/discover" | b"subscriptions/listen" | b"tasks/update" => (MODERN, MODERN),
        b"tasks/get" | b"tasks/cancel" => ("2025-11-25", MODERN),
        b"initialize"
        | b"ping"
        | b"logging/setLevel"
        | b"resources/subscribe"
        | b"resources/unsubscribe"
        | b"notifications/initialized"
        | b"notifications/roots/list_changed" => (LEGACY[0], NEWEST_LEGACY),
        b"notifications/elicitation/complete"
        | b"tasks"
        | b"tasks/list"
        | b"tasks/result"
        | b"notifications/tasks/status" => ("2025-11-25", NEWEST_LEGACY),
        _ => return None,
    })
}

/// The error of a request whose headers say something else than it does (MCP 2026-07-28, `basic/transports/streamable-http`).
pub const HEADER_MISMATCH: i32 = -32020;

/// The error of a request whose client has not declared what it takes (MCP 2026-07-28, `basic`, "Error Codes").
pub const MISSING_CAPABILITY: i32 = -32021;

/// The error of a request of a version that is not spoken (MCP 2026-07-28, `basic/versioning`).
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The era of a version that mcpd speaks.
#[must_use]
pub fn of(protocol: &str) -> Era {
    if protocol == MODERN { Era::Modern } else { Era::Legacy }
}

/// The code that says that there is no such resource (MCP 2025-11-25 and 2026-07-28, `server/resources`, "Error Handling").
#[must_use]
pub fn resource_not_found(era: Era) -> i32 {
    match era {
        Era::Legacy => reply::RESOURCE_NOT_FOUND,
        Era::Modern => reply::INVALID_PARAMS,
    }
}

/// The params of a request of mcpd's own in the modern era: nobody stands behind it who can be asked anything.
#[must_use]
pub fn own_params() -> Value {
    json!({ "_meta": {
        meta::PROTOCOL: MODERN,
        meta::CLIENT: { "name": "mcpd", "version": env!("CARGO_PKG_VERSION") },
        meta::CAPABILITIES: {},
    }})
}

/// The same for one about a task, which takes that its answers are understood.
#[must_use]
pub fn own_task_params() -> Value {
    let mut params = own_params();
    params["_meta"][meta::CAPABILITIES] = json!({ "extensions": { TASKS: {} } });
    params
}

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

/// Whether `protocol` has the method, notification or capability `name`, or [`BATCHES`]: whether it may be sent to, or
/// asked of, a peer with which that version was negotiated.
#[must_use]
pub fn has(protocol: &str, name: impl AsRef<[u8]>) -> bool {
    // Versions are dates: their order is that of their text.
    bounds(name.as_ref()).is_none_or(|(first, last)| (first..=last).contains(&protocol))
}

/// What an agent that is served in `protocol` is told that mcpd can do, whatever servers run just now.
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
    fn a_known_version_is_kept_and_an_unknown_one_gets_the_newest() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for unknown in ["2026-07-28", "2024-10-07", "", "1.0"] {
            assert_eq!((negotiate(unknown), known(unknown)), (NEWEST_LEGACY, None));
        }
    }

    #[test]
    fn each_version_has_what_its_schema_has() {
        for (name, expected) in [
            ("tools/call", [true, true, true, true]),
            ("resources/templates/list", [true, true, true, true]),
            ("resources/subscribe", [true, true, true, true]),
            ("completion/complete", [true, true, true, true]),
            ("logging/setLevel", [true, true, true, true]),
            ("sampling/createMessage", [true, true, true, true]),
            ("roots/list", [true, true, true, true]),
            ("notifications/progress", [true, true, true, true]),
            ("notifications/resources/updated", [true, true, true, true]),
            (BATCHES, [false, true, false, false]),
            ("completions", [false, true, true, true]),
            ("elicitation/create", [false, false, true, true]),
            ("elicitation", [false, false, true, true]),
            ("notifications/elicitation/complete", [false, false, false, true]),
            ("tasks/result", [false, false, false, true]),
            ("notifications/tasks/status", [false, false, false, true]),
            ("server/discover", [false; 4]),
        ] {
            assert_eq!(LEGACY.map(|version| has(version, name)), expected, "{name}");
        }
    }

    #[test]
    fn the_modern_era_has_what_its_schema_has() {
        for (name, expected) in [
            ("tools/call", true),
            ("completion/complete", true),
            ("server/discover", true),
            ("subscriptions/listen", true),
            ("elicitation", true),
            ("notifications/progress", true),
            ("initialize", false),
            ("ping", false),
            ("logging/setLevel", false),
            ("resources/subscribe", false),
            ("tasks", false),
            ("tasks/result", false),
            (BATCHES, false),
        ] {
            assert_eq!(has(MODERN, name), expected, "{name}");
        }
        assert_eq!((of(MODERN), of(NEWEST_LEGACY)), (Era::Modern, Era::Legacy));
    }

    #[test]
    fn an_agent_is_told_of_what_its_version_has() {
        let told = |version| capabilities(version).as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(told("2024-11-05"), ["logging", "prompts", "resources", "tools"]);
        assert_eq!(told("2025-11-25"), ["completions", "logging", "prompts", "resources", "tasks", "tools"]);
    }
}
