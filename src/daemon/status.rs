//! The daemon's state as `mcpd status` is told it: put together from what is published, so it waits for nobody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::unix::UCred;

use super::Daemon;
use crate::admin::report::{AgentReport, ProfileReport, Report, ServerReport};
use crate::catalog::Exposure;
use crate::server::ServerHandle;
use crate::server::lifecycle::State;
use crate::session::Facts;

/// Lines of stderr shown of a server that is not ready.
const STDERR_LINES: usize = 20;

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
        let exposures = view.catalog.exposure().iter().copied().chain(std::iter::repeat(Exposure::default()));
        let mut agents: Vec<AgentReport> = self.connected.values().map(agent).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: millis(self.started.elapsed()),
            settled: view.settled,
            servers: view.servers.iter().zip(exposures).map(|(handle, exposure)| server(handle, exposure)).collect(),
            agents,
            profiles: vec![ProfileReport {
                name: "default".to_owned(),
                socket: self.agent_socket.clone(),
                tools: view.catalog.len(),
            }],
        }
    }
}

fn server(handle: &ServerHandle, exposure: Exposure) -> ServerReport {
    let (published, stats) = (handle.published(), handle.stats());
    let (mut reason, mut retry_in_ms, mut uptime_ms) = (None, None, None);
    match &published.state {
        State::Ready { since } => uptime_ms = Some(millis(since.elapsed())),
        State::Backoff { until, reason: why, .. } => {
            reason = Some(why.clone());
            retry_in_ms = Some(millis(until.saturating_duration_since(Instant::now())));
        }
        State::Failed { reason: why } => reason = Some(why.clone()),
        State::Starting | State::Stopping | State::Stopped => {}
    }
    ServerReport {
        name: handle.name().to_string(),
        state: published.state.word().to_owned(),
        reason,
        retry_in_ms,
        pid: published.pid,
        guard_pid: published.guard_pid,
        uptime_ms,
        protocol: published.protocol.map(str::to_owned),
        software: published.software.clone(),
        tools_exposed: exposure.exposed,
        tools_denied: exposure.denied,
        tools_truncated: published.tools.truncated,
        calls: stats.calls.get(),
        in_flight: stats.in_flight.get(),
        errors: stats.errors.get(),
        restarts: stats.restarts.get(),
        skipped_lines: stats.skipped_lines.get(),
        stray_responses: stats.stray_responses.get(),
        last_error: published.last_error.clone(),
        stderr: if uptime_ms.is_some() { Vec::new() } else { handle.stderr(STDERR_LINES) },
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
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
