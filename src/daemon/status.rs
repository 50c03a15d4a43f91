//! The daemon's state as `mcpd status` is told it: put together from what is published, so it waits for nobody.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::unix::UCred;

use super::Daemon;
use crate::admin::report::{AgentReport, ProfileReport, Report};
use crate::kind::Kind;
use crate::manager;
use crate::manager::report::millis;
use crate::session::Facts;

/// One connected agent.
pub(super) struct Connected {
    pub(super) number: u64,
    pub(super) peer: UCred,
    pub(super) since: Instant,
    pub(super) facts: Arc<Facts>,
}

impl Daemon {
    pub(super) fn report(&self) -> Report {
        let view = self.view.borrow();
        let mut agents: Vec<AgentReport> = self.connected.values().map(agent).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: millis(self.started.elapsed()),
            settled: view.settled,
            servers: manager::report::servers(&view),
            agents,
            profiles: vec![ProfileReport {
                name: "default".to_owned(),
                socket: self.agent_socket.clone(),
                tools: view.catalog.count(Kind::Tools),
            }],
        }
    }
}

fn agent(connected: &Connected) -> AgentReport {
    let introduction = connected.facts.introduction.get();
    AgentReport {
        session: connected.number,
        profile: "default".to_owned(),
        pid: connected.peer.pid(),
        uid: connected.peer.uid(),
        client: introduction.and_then(|said| said.client.clone()),
        protocol: introduction.map(|said| said.protocol.to_owned()),
        connected_ms: millis(connected.since.elapsed()),
        calls: connected.facts.calls.get(),
        dropped_notifications: connected.facts.dropped.get(),
        stray_responses: connected.facts.stray_responses.get(),
        stray_notifications: connected.facts.stray_notifications.get(),
    }
}
