//! The daemon's state as `mcpd status` is told it: put together from what is published, so it waits for nobody.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::Daemon;
use super::agent_sockets::{AgentSockets, ProfileListener};
use super::reload::Refused;
use crate::admin::report::{AgentReport, FileReport, ProfileReport, ReloadRefused, Report};
use crate::config::Stamp;
use crate::kind::Kind;
use crate::manager::report::millis;
use crate::manager::{self, View};
use crate::moment::Anchor;
use crate::server::User;
use crate::session::{Backlog, PeerIdentity, SessionStatus};

/// Bytes of what is told of a configuration that does not hold: a report has to fit into one message.
const MOST_REASON: usize = 32 << 10;

/// One connected agent.
pub(super) struct Connected {
    pub(super) number: u64,
    pub(super) profile: Arc<str>,
    pub(super) peer: PeerIdentity,
    pub(super) since: Instant,
    pub(super) status: Arc<SessionStatus>,
    pub(super) user: Arc<User>,
    pub(super) backlog: Arc<Backlog>,
    /// `None` once it was told to leave.
    pub(super) leave: Option<oneshot::Sender<()>>,
    /// `None` once it was cut off.
    pub(super) cut_off: Option<oneshot::Sender<()>>,
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
            settled: self.has_settled(&view),
            reload_refused: self.refused.borrow().as_ref().map(refused),
            files: self.stamps.borrow().iter().map(file).collect(),
            files_changed: Vec::new(),
            other_daemons: Vec::new(),
            servers: manager::report::servers(&view),
            agents,
            profiles: self.agents.iter().flat_map(AgentSockets::all).map(|one| self.profile(one)).collect(),
        }
    }

    /// Whether every server's first start attempt has ended, or has had its time.
    fn has_settled(&self, view: &View) -> bool {
        let attempted = || view.servers.iter().all(|member| member.handle.published().attempted);
        view.settled && (self.started.elapsed() >= self.limits.first_list_wait || attempted())
    }

    fn profile(&self, ProfileListener { served, listener }: &ProfileListener) -> ProfileReport {
        let (profile, view) = (&served.profile, served.view.borrow());
        ProfileReport {
            name: profile.name.to_string(),
            socket: listener.path().display().to_string(),
            servers: view.servers.iter().map(|member| member.handle.name().to_string()).collect(),
            tools: view.catalog.count(Kind::Tools),
            agents: self.connected.values().filter(|agent| agent.profile == profile.name).count(),
        }
    }
}

fn refused(Refused { at, reason, stamps }: &Refused) -> ReloadRefused {
    let time = humantime::format_rfc3339_millis(Anchor::now().time_of(*at)).to_string();
    let end = (0..=reason.len().min(MOST_REASON)).rev().find(|end| reason.is_char_boundary(*end));
    let reason = reason[..end.unwrap_or_default()].to_owned();
    ReloadRefused { time, reason, files: stamps.iter().map(file).collect(), files_changed: Vec::new() }
}

fn file(Stamp { path, sha256 }: &Stamp) -> FileReport {
    FileReport { path: path.display().to_string(), sha256: sha256.clone() }
}

fn agent(connected: &Connected) -> AgentReport {
    let introduction = connected.status.introduction();
    AgentReport {
        session: connected.number,
        profile: connected.profile.to_string(),
        pid: connected.peer.pid,
        uid: connected.peer.uid,
        client: introduction.and_then(|said| said.client.clone()),
        protocol: introduction.map(|said| said.protocol.to_owned()),
        connected_ms: millis(connected.since.elapsed()),
        calls: connected.status.calls.get(),
        dropped_notifications: connected.status.dropped.get(),
        stray_responses: connected.status.stray_responses.get(),
        stray_notifications: connected.status.stray_notifications.get(),
    }
}
