//! The eras of an agent's requests, and the notifications that it may receive.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::{Era, SUBSCRIPTION, meta};

/// The eras of one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AgentEra {
    Legacy,
    Modern,
    /// Each request is in a random era.
    Mixed,
}

impl AgentEra {
    pub(crate) fn choose(rng: &mut Rng) -> Self {
        *rng.choice([Self::Legacy, Self::Modern, Self::Mixed].as_slice()).expect("some")
    }

    /// The era of the next request.
    pub(crate) fn era(self, rng: &mut Rng) -> Era {
        match self {
            Self::Legacy => Era::Legacy,
            Self::Modern => Era::Modern,
            Self::Mixed => *rng.choice(Era::BOTH.as_slice()).expect("some"),
        }
    }

    /// The first messages of a connection.
    pub(crate) fn opening(self, rng: &mut Rng) -> Vec<String> {
        let mut lines = Vec::new();
        if self != Self::Modern {
            let client = json!({"name": "chaos", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
            lines.push(json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}));
            lines.push(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        if self != Self::Legacy && rng.bool() {
            let params = json!({"_meta": meta(&json!({})), "notifications": {"toolsListChanged": true}});
            lines.push(json!({"jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen", "params": params}));
        }
        lines.iter().map(Value::to_string).chain([self.list(rng)]).collect()
    }

    pub(crate) fn list(self, rng: &mut Rng) -> String {
        let params = match self.era(rng) {
            Era::Legacy => json!({}),
            Era::Modern => json!({"_meta": meta(&json!({}))}),
        };
        json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": params}).to_string()
    }

    /// Whether the agent may receive this notification: list changes after a handshake, or for its subscription.
    pub(crate) fn may_receive(self, method: &str, message: &Value) -> bool {
        let listens = self != Self::Legacy && message["params"]["_meta"][SUBSCRIPTION] == "listen";
        match method {
            "notifications/tools/list_changed" => listens || self != Self::Modern,
            "notifications/subscriptions/acknowledged" => listens,
            _ => false,
        }
    }
}
