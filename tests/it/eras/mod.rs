//! Agents and servers of both eras, each with each: every agent sees what its own era has, whatever the server speaks.

mod asks;
mod bytes;
mod caches;
mod changes;
mod crowds;
mod discovers;
mod dual;
mod levels;
mod listens;
mod probes;
mod questions;
mod refused_listens;
mod relistens;
mod returns;
mod sendings;
mod square;
mod states;
mod tasks_down;
mod tasks_plain;
mod tasks_up;
mod urls;
mod verdicts;

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
