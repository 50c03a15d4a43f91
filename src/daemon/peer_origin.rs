//! Whether a server has started the process that connects.
//!
//! Every descendant of the daemon is a server or was started by one, except the processes that it had before its first server. No
//! descendant has operator rights. A process that a server started may be an agent only if that server has `agent = true`. Servers of
//! another mcpd have no operator rights either: a killed mcpd may have been replaced while its servers are still ending.

use std::sync::Arc;

use tokio::net::UnixStream;

use crate::config::{Profile, ServerConfig};
use crate::server::{self, AncestryEnd, GuardRegistry, ReaperHandle, User};
use crate::sockets::PeerProcess;

/// What is known about the descendants of the daemon.
#[derive(Debug, Default)]
pub(super) struct Descendants {
    pub(super) guards: GuardRegistry,
    pub(super) reaper: ReaperHandle,
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

impl Descendants {
    /// Why the peer of `stream` may not be an operator, if it may not. `pid` is its process id according to `SO_PEERCRED`.
    pub(super) fn refused_operator(&self, stream: &UnixStream, pid: Option<i32>) -> Option<String> {
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
    ) -> Result<Option<Arc<str>>, String> {
        Err(match self.origin(stream, pid) {
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
        })
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
