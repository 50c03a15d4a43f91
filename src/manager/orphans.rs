//! What a guard leaves behind that is itself killed.
//!
//! It comes to the daemon, which is a child subreaper too. A program that embeds mcpd has children of its own and is
//! not looked through: there this room stays closed.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::server::{self, ServerHandle};

/// Until a stray that did not die is killed again.
const KILL_AGAIN: Duration = Duration::from_millis(20);
/// For all of them to die.
const LIMIT: Duration = Duration::from_secs(1);

/// The watch over a process that owns nothing but servers.
#[derive(Debug)]
pub struct Orphans {
    /// Descendants of this process from before the first server.
    not_ours: Vec<u32>,
    /// How many guards have been lost and cleaned up after.
    lost_guards: u64,
}

impl Orphans {
    /// For a process that is a child subreaper and has started no server yet.
    #[must_use]
    pub fn watch() -> Self {
        Self { not_ours: server::present(), lost_guards: 0 }
    }

    /// Cleans up if a guard was lost since the last time.
    pub(super) async fn after_lost_guards(&mut self, servers: &[ServerHandle]) {
        let lost = servers.iter().map(|server| server.published().lost_guards).sum();
        if self.lost_guards < lost {
            self.kill(servers).await;
        }
        self.lost_guards = lost;
    }

    /// Ends every descendant of this process that is in no known guard's subtree and was not there before, outside of
    /// its own session, which every guard leaves.
    pub(super) async fn kill(&self, servers: &[ServerHandle]) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let guards = servers.iter().flat_map(ServerHandle::guards);
            let spared: Vec<u32> = guards.chain(self.not_ours.iter().copied()).collect();
            if !server::kill_strays(&spared) || Instant::now() > deadline {
                return;
            }
            sleep(KILL_AGAIN).await;
        }
    }
}
