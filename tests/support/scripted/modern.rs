//! The modern era (2026-07-28): request metadata, result members and `server/discover`.

use std::process::ExitCode;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::flags::{Era, Flags, Probe};
use super::server::{Later, Server};
use super::tools::Call;
use super::wire::{error, quoted, response};

pub(crate) const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Methods that the modern era removed.
const REMOVED: [&str; 8] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
    "roots/list",
];
/// Methods whose results have cache hints.
const CACHEABLE: [&str; 8] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "skills/list",
    "skills/get",
];

/// The era in which a request is served, or its refusal.
pub(crate) enum RequestEra {
    Legacy,
    Modern,
    Refused(Refusal),
}

/// An error response.
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: &'static str,
    pub(crate) data: Value,
}

impl Refusal {
    pub(crate) fn line(&self, id: &str) -> String {
        let data = if self.data.is_null() { String::new() } else { format!(r#","data":{}"#, self.data) };
        error(id, self.code, self.message, &data)
    }
}

/// Decides in which era a request is served.
///
/// Source: MCP 2026-07-28, `basic`, "`_meta`", and `basic/versioning`.
pub(crate) fn request_era(flags: &Flags, era: Era, method: &str, params: &Value) -> RequestEra {
    let (meta, refused) =
        (&params["_meta"], |code, message, data| RequestEra::Refused(Refusal { code, message, data }));
    let unsupported = |requested: &Value| {
        let data = json!({"supported": flags.supported_version, "requested": requested});
        refused(-32022, "Unsupported protocol version", data)
    };
    match (era, &meta[PROTOCOL]) {
        (Era::Legacy, _) | (Era::Both, Value::Null) => RequestEra::Legacy,
        (Era::Modern, Value::Null) if method == "initialize" => unsupported(&params["protocolVersion"]),
        (_, Value::String(version)) if !flags.supported_version.contains(version) => unsupported(&json!(version)),
        (_, Value::String(_)) if !meta[CAPABILITIES].is_object() => refused(-32602, "no capabilities", Value::Null),
        (_, Value::String(_)) if REMOVED.contains(&method) => refused(-32601, "Method not found", Value::Null),
        (_, Value::String(_)) => RequestEra::Modern,
        _ => refused(-32602, "no protocol version", Value::Null),
    }
}

/// The era that the metadata of a request names.
pub(crate) fn era_of(params: &Value) -> Era {
    if params["_meta"][PROTOCOL].is_null() { Era::Legacy } else { Era::Modern }
}

/// The leading members of each modern result, with a trailing comma.
pub(crate) fn head(flags: &Flags, method: &str) -> String {
    let server_name = quoted(&flags.server_name);
    let caching = if CACHEABLE.contains(&method) {
        format!(r#""ttlMs":{},"cacheScope":{},"#, flags.ttl, quoted(&flags.cache_scope))
    } else {
        String::new()
    };
    let who = format!(r#""_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":{server_name},"version":"1.0"}}}}"#);
    format!(r#""resultType":"complete",{caching}{who},"#)
}

/// A result with `head` as its first members.
pub(crate) fn with_head(head: &str, result: &str) -> String {
    match result.strip_prefix('{') {
        Some("}") => format!("{{{}}}", head.trim_end_matches(',')),
        Some(rest) => format!("{{{head}{rest}"),
        None => result.to_owned(),
    }
}

/// One request, and the members that its result begins with.
pub(crate) struct Request<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// The leading members of the result, with a trailing comma.
    pub(crate) head: String,
}

impl Request<'_> {
    pub(crate) fn is_modern(&self) -> bool {
        !self.head.is_empty()
    }

    pub(crate) fn response(&self, result: &str) -> String {
        response(self.id, &with_head(&self.head, result))
    }
}

/// Answers `server/discover`, or misbehaves as the flags select.
pub(crate) fn discover(server: &mut Server, id: &str, request_era: &RequestEra) {
    let line = match (server.flags.probe, server.flags.discover_error, request_era) {
        (Probe::Silent, ..) => return,
        (Probe::Fatal, ..) => return server.leave = Some(ExitCode::FAILURE),
        (Probe::Garbage, ..) => response(id, "7"),
        (_, Some(code), _) => error(id, code, "not like that", ""),
        (_, None, RequestEra::Refused(refusal)) => refusal.line(id),
        (_, None, RequestEra::Legacy) => error(id, -32601, "Method not found", ""),
        (_, None, RequestEra::Modern) => {
            response(id, &with_head(&head(&server.flags, "server/discover"), &found(server)))
        }
    };
    match server.flags.discover_delay {
        0 => server.output.line(&line),
        delay => server.after(delay, Later::Answer { call: id.to_owned(), line, stubborn: true }),
    }
}

fn found(server: &Server) -> String {
    let (versions, capabilities) = (json!(server.flags.supported_version), server.capabilities(Era::Modern));
    let instructions = server.flags.instructions.as_deref();
    let instructions = instructions.map(|text| format!(r#","instructions":{}"#, quoted(text))).unwrap_or_default();
    format!(r#"{{"supportedVersions":{versions},"capabilities":{{{capabilities}}}{instructions},"x-vendor":1.10}}"#)
}

/// The levels of log messages, the least severe first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The tool `log`: sends each of `messages` (`level`, `data`) that the call's log level admits.
pub(crate) fn log(server: &mut Server, call: &Call) {
    let rank = |level: &Value| LEVELS.iter().position(|known| *level == *known);
    let least = rank(&call.meta[LEVEL]);
    let messages = call.arguments["messages"].as_array().into_iter().flatten();
    for message in messages.filter(|message| least.is_some() && rank(&message["level"]) >= least) {
        server.output.notify("notifications/message", &message.to_string());
    }
    server.output.line(&call.echo());
}
