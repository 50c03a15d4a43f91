//! `kill -9` of the daemon while it starts servers that resist.

use std::fs;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use crate::support::{Daemon, Place, Process, Server, Setup};
use crate::{Seed, print_line};

/// Time limit for every process to end.
const LIMIT: Duration = Duration::from_secs(60);
/// The latest moment of a kill. On an idle machine the start is over by then.
const LATEST: Duration = Duration::from_millis(400);

/// Eight servers that ignore EOF and SIGTERM, wrap themselves in shells, or fork twice.
fn stubborn() -> Setup {
    let habits = [
        "--ignore-eof --ignore-term",
        "--wrap --ignore-eof --ignore-term",
        "--double-fork --ignore-eof --ignore-term",
        "--wrap --double-fork",
        "--hold-stdout --ignore-eof --ignore-term",
        "--wrap --hold-stdout --double-fork --ignore-eof --ignore-term",
        "--ignore-eof --ignore-term --init-never",
        "--double-fork",
    ];
    let names = habits.iter().enumerate().map(|(number, habits)| Server::named(&format!("s{number}")).flags(habits));
    names.fold(Setup::new(), Setup::server)
}

pub(crate) fn run(seed: u64, rounds: u64) {
    print_line(&format!("{rounds} rounds of kill -9: CHAOS_SEED={seed}"));
    let _seed = Seed(seed);
    let mut rng = Rng::with_seed(seed);
    let (mut most, mut slowest) = (0, Duration::ZERO);
    for round in 0..rounds {
        let place = Place::new();
        let mut daemon = Daemon::spawn(Rc::clone(&place), &stubborn());
        let moment = LATEST.mul_f64(rng.f64());
        thread::park_timeout(moment);
        // Suspended first in every other round, so that the set of processes is known exactly.
        if rng.bool() {
            daemon.signal(Signal::STOP);
        }
        most = most.max(daemon.family().len());
        daemon.kill9();
        let killed = Instant::now();
        let left = || [orphans(), place.processes(None)].concat();
        while !left().is_empty() {
            let waited = killed.elapsed();
            assert!(waited < LIMIT, "round {round}, killed after {moment:?}: {waited:?} later there is {:#?}", left());
            thread::park_timeout(Duration::from_millis(10));
        }
        // An ending process has no program any more but may still be listed.
        daemon.expect_no_family(LIMIT.saturating_sub(killed.elapsed()));
        slowest = slowest.max(killed.elapsed());
    }
    print_line(&format!("of at most {most} processes, none was left after {slowest:?} at most"));
}

/// Guards without a reaper. They lack the environment of the test and are recognised by their names.
fn orphans() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_named = |process: &Process, name: &str| process.command.starts_with(name);
    let guards = pids.filter_map(Process::find).filter(|process| is_named(process, "mcpd-guard"));
    guards.filter(|guard| !Process::find(guard.parent).is_some_and(|parent| is_named(&parent, "mcpd-reaper"))).collect()
}
