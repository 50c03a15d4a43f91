//! A storm of faults with a ledger of all calls, `kill -9` of the daemon at random moments of its start, and storms of forks.
//!
//! - `servers`: configuration and reloads. `call`: the calls. `agent_era`: their eras.
//! - `agent`: agents and their connections. `faults`: kills, suspensions, reloads.
//! - `ledger`: the outcome of every call. `usage`: processes, descriptors and memory of the daemon, latency of `mcpd status`.
//! - `rounds`: `kill -9` of the daemon. `fork_storms`: kills of the processes above a server that forks without pause.
//!
//! `cargo test` runs all for a few seconds with a fixed seed. Variables select more: `CHAOS_SECONDS` of storm,
//! `CHAOS_ROUNDS` of `kill -9`, `CHAOS_FORK_STORMS` per order of kills, `CHAOS_STORMS_BELOW` one daemon, `CHAOS_AT_ONCE` daemons (`CHAOS_FENCED=1`: only with namespaces), `CHAOS_SEED`. A seed repeats the actions, but not their timing. `long.sh` runs many seeds.

mod agent;
mod agent_era;
mod call;
mod faults;
mod fork_storms;
mod ledger;
mod rounds;
mod servers;
mod storm;
#[expect(dead_code, unused_imports, reason = "the harness of the black-box tests, of which this needs a part")]
#[path = "../it/support/mod.rs"]
mod support;
mod usage;

use std::io::Write;
use std::thread;
use std::time::Duration;

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}"))
}

/// Prints past the test runner, which hides the output of passed tests.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "chaos: {text}");
}

/// Prints the seed of a failed run.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            print_line(&format!("failed with CHAOS_SEED={}", self.0));
        }
    }
}

/// Case F1.
#[test]
fn no_call_is_lost_misrouted_or_made_twice_in_a_storm_of_faults_and_nothing_stays_behind() {
    storm::run(setting("CHAOS_SEED", 1), Duration::from_secs(setting("CHAOS_SECONDS", 3)));
}

/// Case E7.
#[test]
fn kill_9_of_the_daemon_at_random_moments_of_its_start_leaves_no_process() {
    rounds::run(setting("CHAOS_SEED", 1), setting("CHAOS_ROUNDS", 3));
}

/// Cases A16, E12 and K15.
#[test]
fn nothing_is_left_of_a_storm_of_forks_in_any_order_of_kills() {
    fork_storms::run(&fork_storms::Size {
        storms: setting("CHAOS_FORK_STORMS", 1),
        below_daemon: setting("CHAOS_STORMS_BELOW", 1),
        at_once: setting("CHAOS_AT_ONCE", 4),
        only_fenced: setting("CHAOS_FENCED", 0) == 1,
    });
}
