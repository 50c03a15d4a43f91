//! Agents and servers of both eras in all combinations.

mod byte_fidelity;
mod cache_hints;
mod changes;
mod concurrency;
mod detection;
mod discovery;
mod dual;
mod era_cache;
mod input_requests;
mod log_levels;
mod multi_round_trip;
mod pairs;
mod refused_subscriptions;
mod request_state;
mod resubscription;
mod retry_connections;
mod retry_outcomes;
mod subscriptions;
mod tasks;
mod url_elicitation;

use std::rc::Rc;

use serde_json::json;

use crate::support::{Daemon, Era, Place, Server, Setup};

impl Era {
    /// The server of this era in [`both`].
    fn name(self) -> &'static str {
        match self {
            Self::Legacy => "old",
            Self::Modern => "new",
        }
    }

    fn tool(self, name: &str) -> String {
        format!("{}__{name}", self.name())
    }

    fn uri(self) -> String {
        format!("{}://1", self.name())
    }
}

/// A server of this era that has something of everything.
fn full(place: &Rc<Place>, era: Era) -> Server {
    let library = json!({
        "prompts": [{"name": "greet", "zeta": 1.5}],
        "resources": [{"uri": era.uri(), "name": "one"}],
        "resourceTemplates": [{"uriTemplate": format!("{}://{{id}}", era.name()), "name": "any"}],
        "completions": true,
        "logging": true,
    });
    let file = place.write(&format!("{}.json", era.name()), library.to_string());
    era.server(era.name()).arg("--library").arg(file)
}

/// A daemon with a server of each era.
fn both() -> Daemon {
    let place = Place::new();
    let servers = Era::BOTH.into_iter().map(|era| full(&place, era));
    servers.fold(Setup::new(), Setup::server).start_in(&place)
}
