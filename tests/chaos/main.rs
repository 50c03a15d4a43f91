//! A storm with a ledger, and the daemon's death at random moments of its start.
//!
//! `servers` (the servers, and how a reload changes them) · `call` (what an agent asks for) · `agent_era` (in which era) · `agent` (how agents live and
//! die) · `faults` (what is done to servers and guards meanwhile) · `ledger` (what became of every call) · `usage` (what the
//! daemon holds, how fast `mcpd status` answers) · `rounds` (`kill -9` of the daemon).
//!
//! `cargo test` runs both for a few seconds with a fixed seed, to see that they run. The environment asks for more:
//! `CHAOS_SECONDS` of storm, `CHAOS_ROUNDS` of `kill -9`, `CHAOS_SEED`. A seed repeats what is done, not the moments at which
//! the machine does it. `long.sh` runs many seeds.

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

/// A number that the environment asks for.
fn setting(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}"))
}

/// Says something past the test runner, which shows nothing of a test that passed.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "chaos: {text}");
}

/// What a run that fails is repeated with.
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
