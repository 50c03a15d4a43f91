//! Faults of servers, guards and the configuration while agents call.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::servers::Servers;
use crate::support::{Daemon, MCPD, Process, signal};

/// Commits the faults.
pub(crate) struct Faults<'a> {
    pub(crate) daemon: &'a mut Daemon,
    pub(crate) servers: &'a mut Servers,
    pub(crate) rng: Rng,
    /// The processes of the calm server.
    pub(crate) spared: Vec<u32>,
    /// Suspended processes: until when, and the signal that they get then.
    pub(crate) stopped: Vec<(Instant, Process, Signal)>,
    /// How often each fault was committed.
    pub(crate) tally: BTreeMap<&'static str, usize>,
}

impl Faults<'_> {
    /// Runs until the storm is over. No process stays suspended.
    pub(crate) async fn run_until(&mut self, until: Instant) {
        while Instant::now() < until {
            self.one();
            let pause = Duration::from_millis(self.rng.u64(50..550));
            sleep(pause).await;
            self.release(Instant::now());
        }
        self.release(Instant::now() + Duration::from_secs(60));
        self.servers.restore();
        self.daemon.signal(Signal::HUP);
    }

    fn one(&mut self) {
        match self.rng.u32(..100) {
            0..40 => self.kill("kill -9 of a process of a server", |process| !is_guard(process)),
            40..52 => self.kill("kill -9 of a guard", is_guard),
            52..75 => self.stop(),
            75..95 => {
                self.servers.change(&mut self.rng);
                self.reload("reload");
            }
            _ => {
                self.servers.write_invalid();
                self.reload("reload of a bad file");
            }
        }
    }

    fn kill(&mut self, what: &'static str, matches: impl Fn(&Process) -> bool) {
        let Some(victim) = self.choose(matches) else { return };
        signal(victim.pid, Signal::KILL);
        self.count(what);
    }

    fn stop(&mut self) {
        let Some(victim) = self.choose(|_| true) else { return };
        signal(victim.pid, Signal::STOP);
        // Sometimes longer than `call_timeout`.
        let longest = *self.rng.choice(&[200, 1500, 5000]).expect("some");
        let until = Instant::now() + Duration::from_millis(self.rng.u64(50..longest));
        let end = if self.rng.u32(..5) == 0 { Signal::KILL } else { Signal::CONT };
        self.stopped.push((until, victim, end));
        self.count("SIGSTOP, then SIGCONT or SIGKILL");
    }

    fn reload(&mut self, what: &'static str) {
        for _ in 0..self.rng.u32(1..3) {
            self.daemon.signal(Signal::HUP);
        }
        self.count(what);
    }

    fn release(&mut self, now: Instant) {
        for (_, process, end) in self.stopped.extract_if(.., |(until, ..)| *until <= now) {
            if process.is_alive() {
                signal(process.pid, end);
            }
        }
    }

    /// A current descendant of the daemon, except `mcpd status` clients, and the reaper: its end is the end of every server.
    fn choose(&mut self, matches: impl Fn(&Process) -> bool) -> Option<Process> {
        let candidates: Vec<_> = self
            .daemon
            .family()
            .into_iter()
            .filter(|process| {
                let is_own = process.command.starts_with(MCPD) || process.command.starts_with("mcpd-reaper");
                !self.spared.contains(&process.pid) && !is_own && matches(process)
            })
            .collect();
        self.rng.choice(candidates)
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }
}

fn is_guard(process: &Process) -> bool {
    process.command.starts_with("mcpd-guard")
}
