//! Who may connect. What mcpd refuses, it logs, with a limit for each user.
//!
//! Every descendant of the daemon is a server or was started by one, except the processes that it had before its first server. No
//! descendant has operator rights. A process that a server started may be an agent only if that server has `agent = true`. Servers of
//! another mcpd have no operator rights either: a killed mcpd may have been replaced while its servers are still ending.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::SendFlags;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;

use crate::config::{Profile, ServerConfig};
use crate::http_listener::Protocol;
use crate::jsonrpc::reply::ErrorObject;
use crate::logging::Limiter;
use crate::server::{self, AncestryEnd, GuardRegistry, ReaperHandle, User};
use crate::sockets::PeerProcess;

/// Decides about each connection. It knows the descendants of the daemon.
#[derive(Debug, Default)]
pub(super) struct Admission {
    guards: GuardRegistry,
    reaper: ReaperHandle,
    /// Limits warnings that a peer can cause.
    warnings: Arc<Limiter>,
}

/// Where a peer comes from.
#[derive(Debug)]
enum PeerOrigin {
    /// It is no descendant of the daemon.
    Outside,
    /// This server has started it.
    Server(Arc<ServerConfig>),
    /// The daemon had it before its first server.
    Preexisting,
    /// It is a descendant of the daemon, but below no guard that runs.
    Orphan,
    /// It is below the guard of another mcpd, or of a former one whose servers are still ending.
    OtherServer,
    /// Its process has ended, so nothing is known about it.
    Ended,
    /// An ancestor may not be read.
    Hidden,
    /// It has too many ancestors, or they change while they are read.
    Unsettled,
}

const ENDED: &str = "the process that connected has ended";
const DESCENDANT: &str = "this process is a descendant of mcpd, so a server may have started it";
const OTHER_SERVER: &str = "a server of another mcpd has started this process, and servers have no operator rights";
const UNSETTLED: &str = "mcpd cannot determine the parent processes of this process, so a server may have started it";
const HIDDEN: &str = "mcpd cannot read all parent processes of this process in /proc, so a server may have started it";

/// Whether this is the user who runs mcpd.
pub(super) fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

/// Whether a user may connect as an agent of `profile`.
pub(super) fn may_connect(profile: &Profile, uid: u32) -> bool {
    is_own(uid) || profile.allow_uids.contains(&uid)
}

impl Admission {
    pub(super) fn new(guards: GuardRegistry, reaper: ReaperHandle, warnings: Arc<Limiter>) -> Self {
        Self { guards, reaper, warnings }
    }

    /// How many reapers have ended unexpectedly.
    pub(super) fn reapers_lost(&self) -> u64 {
        self.reaper.lost()
    }

    /// The peer, if it may connect. Nothing is read from a peer that may not.
    pub(super) fn peer(&self, stream: &UnixStream, may: impl Fn(u32) -> bool) -> Option<UCred> {
        let peer = stream.peer_cred().ok()?;
        let may = may(peer.uid());
        if !may && self.warnings.admits("refused another user", format_args!("user {}", peer.uid())) {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "refused another user");
        }
        may.then_some(peer)
    }

    /// Whether the peer of `stream` may be an operator. Sends it the reason if it may not.
    pub(super) fn admits_operator(&self, stream: &UnixStream) -> bool {
        let Some(peer) = self.peer(stream, is_own) else { return false };
        let Some(message) = self.refused_operator(stream, peer.pid()) else { return true };
        if self.warnings.admits("refused an operator", &message) {
            tracing::warn!(pid = peer.pid(), "refused an operator: {message}");
        }
        send_reason(stream, &Protocol::Lines.refusal(&ErrorObject::connection_refused(message)));
        false
    }

    /// Logs why the connection of an agent is closed.
    pub(super) fn log_refused_agent(&self, pid: Option<i32>, user: &User, error: &ErrorObject) {
        let User { profile, uid, .. } = user;
        if self.warnings.admits("refused an agent", format_args!("user {uid} at profile {profile}")) {
            tracing::warn!(pid, uid, profile = &**profile, "refused an agent: {}", error.message);
        }
    }

    /// Why the peer of `stream` may not be an operator, if it may not. `pid` is its process id according to `SO_PEERCRED`.
    fn refused_operator(&self, stream: &UnixStream, pid: Option<i32>) -> Option<String> {
        Some(match self.origin(stream, pid) {
            PeerOrigin::Outside => return None,
            PeerOrigin::Server(config) => {
                format!("server `{}` has started this process, and servers have no operator rights", config.name)
            }
            PeerOrigin::Preexisting | PeerOrigin::Orphan => DESCENDANT.to_owned(),
            PeerOrigin::OtherServer => OTHER_SERVER.to_owned(),
            PeerOrigin::Ended => ENDED.to_owned(),
            PeerOrigin::Hidden => HIDDEN.to_owned(),
            PeerOrigin::Unsettled => UNSETTLED.to_owned(),
        })
    }

    /// The server that has started the peer of `stream`, if one has, and its `agent = true` admits the peer as an agent: in the default
    /// profile only, since another one may have tools that were kept from that server.
    ///
    /// # Errors
    /// Why the peer may not be an agent.
    ///
    /// Before Linux 6.5, mcpd cannot identify the process of a guest, because it cannot read the descriptors of another user's process.
    /// So a guest is admitted even if its process seems to have ended. `/proc` may hide the processes of other users (`hidepid`,
    /// proc(5)), so a peer with an ancestor that cannot be read is admitted, too.
    pub(super) fn admit_agent(
        &self,
        stream: &UnixStream,
        pid: Option<i32>,
        user: &User,
    ) -> Result<Option<Arc<str>>, ErrorObject> {
        Err(ErrorObject::connection_refused(match self.origin(stream, pid) {
            PeerOrigin::Outside | PeerOrigin::OtherServer | PeerOrigin::Preexisting | PeerOrigin::Hidden => {
                return Ok(None);
            }
            PeerOrigin::Server(config) if config.settings.agent && *user.profile == *Profile::DEFAULT => {
                return Ok(Some(Arc::clone(&config.name)));
            }
            PeerOrigin::Server(config) if config.settings.agent => format!(
                "server `{}` has started this process, and with `agent = true` servers may connect only to the default profile",
                config.name
            ),
            PeerOrigin::Ended if user.is_guest => return Ok(None),
            PeerOrigin::Server(config) => format!(
                "server `{0}` has started this process, and servers may not connect as agents; to permit it, set `agent = true` in \
                 [servers.{0}]",
                config.name
            ),
            PeerOrigin::Orphan => DESCENDANT.to_owned(),
            PeerOrigin::Ended => ENDED.to_owned(),
            PeerOrigin::Unsettled => UNSETTLED.to_owned(),
        }))
    }

    fn origin(&self, stream: &UnixStream, pid: Option<i32>) -> PeerOrigin {
        let daemon = std::process::id().cast_signed();
        // A process outside of this PID namespace has no id here. It is no descendant: those are in this namespace or in one below.
        let Some(pid) = pid.filter(|pid| *pid > 0 && *pid != daemon) else { return PeerOrigin::Outside };
        let Some(process) = PeerProcess::of(stream, pid) else { return PeerOrigin::Ended };
        let ancestry = server::ancestry(pid);
        if !process.is_alive() {
            return PeerOrigin::Ended;
        }
        let Some(depth) = ancestry.pids.iter().position(|pid| *pid == daemon) else {
            // A daemon may itself run below a guard.
            let is_foreign = |guard: &i32| !server::ancestry(daemon).pids.contains(guard);
            return match ancestry.end {
                _ if ancestry.supervisors.iter().any(is_foreign) => PeerOrigin::OtherServer,
                AncestryEnd::Root => PeerOrigin::Outside,
                AncestryEnd::Unreadable => PeerOrigin::Hidden,
                AncestryEnd::Unsettled => PeerOrigin::Unsettled,
            };
        };
        let mut below_daemon = ancestry.pids[..depth].iter().map(|pid| pid.cast_unsigned());
        match below_daemon.clone().find_map(|pid| self.guards.server_below(pid)) {
            Some(config) => PeerOrigin::Server(config),
            None if below_daemon.any(|pid| self.reaper.preexisting().contains(&pid)) => PeerOrigin::Preexisting,
            None => PeerOrigin::Orphan,
        }
    }
}

/// Sends the reason why a new connection is closed. The socket buffer is empty, so it fits.
pub(super) fn send_reason(stream: impl AsFd, reason: &[u8]) {
    // Not through the runtime, which may not know yet that a new socket is writable.
    let _ = rustix::net::send(stream, reason, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
