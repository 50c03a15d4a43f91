//! The modern era (2026-07-28) for agents: request metadata, input requests, subscriptions.

use serde_json::{Map, Value, json};

use super::agent::Agent;
use super::config::Server;
use super::daemon::Daemon;
use super::messages::result;

pub(crate) const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member of `_meta` that names the face of a server.
pub(crate) const FACE: &str = "mcpd/server";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The era of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    /// Every pair of an agent's and a server's era.
    pub(crate) fn pairs() -> impl Iterator<Item = (Self, Self)> {
        Self::BOTH.into_iter().flat_map(|agent| Self::BOTH.map(|server| (agent, server)))
    }

    /// An agent of this era that is ready to call, with these client capabilities.
    pub(crate) fn agent(self, daemon: &Daemon, capabilities: &Value) -> Agent {
        match self {
            Self::Legacy => Agent::with_capabilities(daemon, capabilities),
            Self::Modern => Agent::modern(daemon, capabilities),
        }
    }

    /// An agent of this era at the face of `server`.
    pub(crate) fn agent_at_face(self, daemon: &Daemon, server: &str) -> Agent {
        match self {
            Self::Legacy => {
                let mut agent = Agent::connect(daemon);
                result(&agent.initialize_with("2025-11-25", &json!({}), &json!({ FACE: server })));
                agent
            }
            Self::Modern => {
                let mut agent = Agent::modern(daemon, &json!({}));
                agent.meta.insert(FACE.to_owned(), server.into());
                agent
            }
        }
    }

    /// A scripted server of this era.
    pub(crate) fn server(self, name: &str) -> Server {
        match self {
            Self::Legacy => Server::named(name),
            Self::Modern => Server::named(name).flags("--era modern"),
        }
    }
}

/// `_meta` of a modern request with these client capabilities.
pub(crate) fn meta(capabilities: &Value) -> Map<String, Value> {
    let meta = json!({
        PROTOCOL: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test-agent", "version": "7"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    meta.as_object().expect("it is one").clone()
}

/// The input requests of a result, by key.
#[track_caller]
pub(crate) fn inputs(answer: &Value) -> &Map<String, Value> {
    let required = result(answer);
    assert_eq!(required["resultType"], "input_required", "{answer}");
    required["inputRequests"].as_object().unwrap_or_else(|| panic!("no inputs: {answer}"))
}

/// The `requestState` of a result.
#[track_caller]
pub(crate) fn state(answer: &Value) -> &str {
    result(answer)["requestState"].as_str().unwrap_or_else(|| panic!("no state: {answer}"))
}

/// A result without the members that the modern era adds to each.
pub(crate) fn plain(result: &Value) -> Value {
    let mut plain = result.clone();
    let members = plain.as_object_mut().unwrap_or_else(|| panic!("no object: {result}"));
    for key in ["resultType", "ttlMs", "cacheScope", "_meta"] {
        members.remove(key);
    }
    plain
}

impl Agent {
    /// Connects as a modern agent with these client capabilities.
    pub(crate) fn modern(daemon: &Daemon, capabilities: &Value) -> Self {
        let mut agent = Self::connect(daemon);
        agent.speak_modern(capabilities);
        agent
    }

    /// Makes further requests modern, with these client capabilities.
    pub(crate) fn speak_modern(&mut self, capabilities: &Value) {
        self.meta = meta(capabilities);
    }

    /// Makes further requests legacy.
    pub(crate) fn speak_legacy(&mut self) {
        self.meta.clear();
    }

    /// Sets the log level of further requests.
    pub(crate) fn log_from(&mut self, level: &str) {
        self.meta.insert(LEVEL.into(), level.into());
    }

    /// `params` with this agent's `_meta`. Existing members stay.
    pub(crate) fn with_meta(&self, params: &Value) -> Value {
        let mut params = params.clone();
        if !self.meta.is_empty() {
            let members = params.as_object_mut().expect("params of the modern era are an object");
            let meta = members.entry("_meta").or_insert_with(|| json!({})).as_object_mut().expect("an object");
            for (key, value) in &self.meta {
                meta.entry(key).or_insert_with(|| value.clone());
            }
        }
        params
    }

    /// Retries a request with input responses, and with the state of the `input_required` result.
    pub(crate) fn start_retry(&mut self, method: &str, params: &Value, required: &Value, responses: &Value) -> Value {
        let mut params = params.clone();
        params["inputResponses"] = responses.clone();
        if !result(required)["requestState"].is_null() {
            params["requestState"] = result(required)["requestState"].clone();
        }
        self.start_request(method, &params)
    }

    /// [`Agent::start_retry`] for a call, and waits for the response.
    pub(crate) fn retry_call(&mut self, tool: &str, arguments: &Value, required: &Value, responses: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let id = self.start_retry("tools/call", &params, required, responses);
        self.answer(&id)
    }

    /// Subscribes with this filter. Returns the subscription id and the granted filter.
    pub(crate) fn listen(&mut self, filter: &Value) -> (Value, Value) {
        let id = self.start_request("subscriptions/listen", &json!({"notifications": filter}));
        let acknowledged = self.subscription_notification(&id, "notifications/subscriptions/acknowledged");
        (id, acknowledged["notifications"].clone())
    }

    /// Waits for the next notification of a subscription, which must be this one. Returns its params.
    pub(crate) fn subscription_notification(&mut self, subscription: &Value, method: &str) -> Value {
        let message = self.find(|message| message["params"]["_meta"][SUBSCRIPTION] == *subscription);
        assert_eq!(message["method"], method, "{message}");
        message["params"].clone()
    }
}
