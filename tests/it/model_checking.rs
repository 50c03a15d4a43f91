//! Compares the daemon with a model under generated scripts.
//!
//! In a script, agents join, leave, call and cancel; servers crash, restart and change their lists; reloads change rules, servers and
//! profiles. After each step every agent lists everything and requests everything. The tests check that
//!
//! - a name or URI is callable if and only if it is listed, and a hidden one gets the bytes of a nonexistent one (`model`),
//! - every request ends once, as expected (`agent`),
//! - no message reaches another session or server (`system`, by marks).
//!
//! Related tests: `catalog/tests/worlds.rs` (all naming schemes and rules, without a daemon), `tests/chaos` (faults at any moment),
//! `colliding_ids` (load), `jsonrpc/pending.rs` (ids).
//!
//! `MODEL_CASES` sets the number of scripts, `MODEL_SEED` repeats a failed run.

mod agent;
mod model;
mod system;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use self::model::{NARROWINGS, PROFILES, RULES, SERVERS};
use self::system::Stage;
use crate::support::print_line;

/// What happens. An index counts round, so that each means something in every state; a step that means nothing then does nothing.
#[derive(Debug, Clone)]
enum Step {
    /// An agent connects.
    Join { profile: usize },
    /// It hangs up, whatever it waits for.
    Leave { agent: usize },
    /// It calls something that does not end by itself.
    Hold { agent: usize, server: usize },
    /// It gives up the oldest of that.
    Cancel { agent: usize },
    /// The server is killed by what it is asked for.
    Crash { server: usize },
    /// The operator restarts it.
    Restart { server: usize },
    /// The operator disables or enables it; to disable it may stop it, too.
    Toggle { server: usize, stop: bool },
    /// It offers other things, by the bits, and says so.
    Offer { server: usize, bits: u8 },
    /// The configuration has other rules for it.
    Rule { server: usize, rule: usize },
    /// It is taken out of the configuration, or put back.
    Configure { server: usize },
    /// The configuration has another profile of this name, beside the default one.
    Narrow { profile: usize, narrowing: usize, long: bool },
    /// It has none any more, or has it again.
    Serve { profile: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (server, agent) = (0..SERVERS.len(), 0..4_usize);
    let step = prop_oneof![
        3 => (0..PROFILES.len()).prop_map(|profile| Step::Join { profile }),
        1 => agent.clone().prop_map(|agent| Step::Leave { agent }),
        5 => (agent.clone(), server.clone()).prop_map(|(agent, server)| Step::Hold { agent, server }),
        2 => agent.prop_map(|agent| Step::Cancel { agent }),
        1 => server.clone().prop_map(|server| Step::Crash { server }),
        1 => server.clone().prop_map(|server| Step::Restart { server }),
        2 => (server.clone(), any::<bool>()).prop_map(|(server, stop)| Step::Toggle { server, stop }),
        5 => (server.clone(), any::<u8>()).prop_map(|(server, bits)| Step::Offer { server, bits }),
        5 => (server.clone(), 0..RULES.len()).prop_map(|(server, rule)| Step::Rule { server, rule }),
        1 => server.prop_map(|server| Step::Configure { server }),
        4 => (0..PROFILES.len() - 1, 0..NARROWINGS.len(), any::<bool>())
            .prop_map(|(profile, narrowing, long)| Step::Narrow { profile, narrowing, long }),
        1 => (0..PROFILES.len() - 1).prop_map(|profile| Step::Serve { profile }),
    ];
    prop::collection::vec(step, 15..30)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Case H1.
#[test]
fn names_are_callable_if_and_only_if_listed_and_every_request_ends_once() {
    let seed = setting("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..));
    print_line(&format!("MODEL_SEED={seed}"));
    let config = ProptestConfig {
        cases: setting("MODEL_CASES").map_or(3, |cases| cases as u32),
        failure_persistence: None,
        // A script may fail by waiting, which takes its time.
        max_shrink_time: 60_000,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    };
    let played = TestRunner::new(config).run(&steps(), |steps| {
        let mut stage = Stage::open();
        steps.iter().for_each(|step| stage.play(step));
        stage.close();
        Ok(())
    });
    played.unwrap_or_else(|failure| panic!("MODEL_SEED={seed}: {failure}"));
}
