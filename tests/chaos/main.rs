//! A storm of faults with a ledger of all calls, and `kill -9` of the daemon at random moments of its start.
//!
//! - `servers`: configuration and reloads. `call`: the calls. `agent_era`: their eras.
//! - `agent`: agents and their connections. `faults`: kills, suspensions, reloads.
//! - `ledger`: the outcome of every call. `usage`: processes, descriptors and memory of the daemon, latency of `mcpd status`.
//! - `rounds`: `kill -9` of the daemon.
//!
//! `cargo test` runs both for a few seconds with a fixed seed. Variables select more: `CHAOS_SECONDS` of storm,
//! `CHAOS_ROUNDS` of `kill -9`, `CHAOS_SEED`. A seed repeats the actions, but not their timing. `long.sh` runs many seeds.

mod agent;
mod agent_era;
mod call;
mod faults;
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
