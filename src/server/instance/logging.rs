//! The log level that a server gets: the lowest level that an agent or an unanswered call requests.
//!
//! Source: MCP 2025-11-25, `server/utilities/logging`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::pending_request::PendingRequest;
use super::wire::Wire;
use crate::log_level::LogLevel;

/// The log level of one instance. At most one request is unanswered, so a server that does not answer gets no more requests.
#[derive(Debug)]
pub(in crate::server) struct Logging {
    /// The server has the capability.
    is_supported: bool,
    of_agents: Option<LogLevel>,
    of_calls: Option<LogLevel>,
    requested: Option<LogLevel>,
    is_unanswered: bool,
    /// Time limit for an answer.
    timeout: Duration,
}

/// The level to set when no agent requests a level any more. The original level of the server is unknown.
const DEFAULT: LogLevel = LogLevel::Info;

impl Logging {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { is_supported: false, of_agents: None, of_calls: None, requested: None, is_unanswered: false, timeout }
    }

    /// Records whether the server has the capability.
    pub(in crate::server) fn declare(&mut self, is_supported: bool) {
        self.is_supported = is_supported;
    }

    /// Sets the lowest level that an agent requests. `None` changes nothing.
    pub(in crate::server) fn set_level(&mut self, wire: &mut Wire, level: Option<LogLevel>) {
        self.of_agents = level.or(self.of_agents);
        self.request(wire);
    }

    /// A call starts that requests messages from this level on.
    pub(super) fn call_started(&mut self, wire: &mut Wire, level: LogLevel) {
        self.of_calls = Some(self.of_calls.map_or(level, |of_calls| of_calls.min(level)));
        self.request(wire);
    }

    /// A call has ended.
    pub(super) fn call_ended(&mut self, wire: &mut Wire) {
        if self.of_calls.is_some() {
            let stateless = wire.calls().filter(|(_, call)| call.origin.is_stateless());
            self.of_calls = stateless.filter_map(|(_, call)| call.origin.level()).min();
            self.request(wire);
        }
    }

    /// The request has a response, or has timed out.
    pub(super) fn answered(&mut self, wire: &mut Wire) {
        self.is_unanswered = false;
        self.request(wire);
    }

    fn request(&mut self, wire: &mut Wire) {
        if !self.is_supported || self.is_unanswered {
            return;
        }
        let lowest = self.of_agents.into_iter().chain(self.of_calls).min();
        let needed = lowest.or(self.requested.map(|_| DEFAULT));
        let Some(level) = needed.filter(|needed| self.requested != Some(*needed)) else { return };
        (self.requested, self.is_unanswered) = (Some(level), true);
        let deadline = Instant::now() + self.timeout;
        wire.request("logging/setLevel", &json!({ "level": level.word() }), PendingRequest::LogLevel { deadline });
    }
}
