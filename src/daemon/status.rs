//! The daemon's state for `mcpd status`, assembled from published values without waiting.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::oneshot;

use super::config_state::RejectedConfig;
use crate::account::LimitUse;
use crate::admin::report::{AgentReport, FileReport, QuotaReport, RejectedConfigReport};
use crate::clock::WallClockAnchor;
use crate::config::Stamp;
use crate::http_listener::Protocol;
use crate::jsonrpc::reply::ErrorObject;
use crate::manager::report::millis;
use crate::session::{PeerIdentity, SessionStatus};

/// Maximum length of the reason why a configuration was rejected, in bytes: a report has to fit into one message.
const MAX_REASON_LEN: usize = 32 << 10;

/// One connected agent.
pub(super) struct ConnectedAgent {
    pub(super) number: u64,
    pub(super) profile: Arc<str>,
    pub(super) peer: PeerIdentity,
    pub(super) since: Instant,
    pub(super) status: Arc<SessionStatus>,
    /// `None` until its first byte.
    pub(super) protocol: Arc<OnceLock<Protocol>>,
    /// Ends the session after its calls; `None` once used.
    pub(super) leave: Option<oneshot::Sender<()>>,
    /// Closes the connection at once; `None` once used.
    pub(super) cut_off: Option<oneshot::Sender<ErrorObject>>,
}

impl ConnectedAgent {
    /// Whether it is an agent. An HTTP connection is one once it has a session of its own.
    pub(super) fn is_shown(&self) -> bool {
        self.protocol.get().is_none_or(|protocol| *protocol == Protocol::Lines) || self.status.introduction().is_some()
    }
}

pub(super) fn rejected(RejectedConfig { at, reason, stamps }: &RejectedConfig) -> RejectedConfigReport {
    let time = humantime::format_rfc3339_millis(WallClockAnchor::now().time_of(*at)).to_string();
    let end = (0..=reason.len().min(MAX_REASON_LEN)).rev().find(|end| reason.is_char_boundary(*end));
    let reason = reason[..end.unwrap_or_default()].to_owned();
    RejectedConfigReport { time, reason, files: stamps.iter().map(file).collect(), files_changed: Vec::new() }
}

pub(super) fn file(Stamp { path, sha256 }: &Stamp) -> FileReport {
    FileReport { path: path.display().to_string(), sha256: sha256.clone() }
}

pub(super) fn agent(connected: &ConnectedAgent) -> AgentReport {
    let introduction = connected.status.introduction();
    AgentReport {
        session: connected.number,
        profile: connected.profile.to_string(),
        pid: connected.peer.pid,
        uid: connected.peer.uid,
        listener: connected.protocol.get().copied().unwrap_or(Protocol::Lines).word().to_owned(),
        client: introduction.and_then(|introduction| introduction.client.clone()),
        server: introduction.and_then(|introduction| introduction.face.as_deref()).map(str::to_owned),
        protocol: introduction.map(|introduction| introduction.protocol_version.to_owned()),
        connected_ms: millis(connected.since.elapsed()),
        calls: connected.status.calls.get(),
        dropped_notifications: connected.status.dropped.get(),
        stray_responses: connected.status.stray_responses.get(),
    }
}

/// A limit of all agents of a profile, or of those of one user there.
pub(super) fn quota((uid, LimitUse { name, limit, used, refused }): (Option<u32>, LimitUse)) -> QuotaReport {
    QuotaReport { key: name.to_owned(), uid, limit, used, refused }
}
