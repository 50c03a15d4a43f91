//! Two agents with equal ids, progress tokens and URIs use one shared server, and each receives only its own messages.
//!
//! The messages of each agent carry its mark.
//!
//! `actions` has the table of requests, `test_agent` an agent and its expectations, `updates` the expected resource updates.
//!
//! `APART_SEED` selects another seed. It repeats the requests, but not their timing.

mod actions;
mod test_agent;
mod updates;

use std::collections::HashMap;

use fastrand::Rng;
use serde_json::json;

use self::actions::{Action, Effect, TABLE, URIS};
use self::test_agent::{ReceivedCounts, TestAgent};
use self::updates::Updates;
use crate::support::{Agent, Daemon, Server, Setup, print_line};

/// Of both agents together.
const REQUESTS: u64 = 10_000;
/// Most that one of them has unanswered at once.
const IN_FLIGHT: usize = 48;

const LIBRARY: &str = r#"{"prompts":[{"name":"greet"}],"completions":true,
    "resources":[{"uri":"x://a","name":"a"}],"resourceTemplates":[{"uriTemplate":"x://{+id}","name":"any"}]}"#;

/// Nothing is cancelled at the second server: whose a log message is, is not known while a server may be at what was given up.
fn start() -> Daemon {
    let log = Server::named("log").library(r#"{"logging":true}"#);
    Setup::with(Server::named("s").library(LIBRARY)).server(log).start()
}

#[test]
fn two_agents_that_choose_everything_alike_share_a_server_for_10_000_requests_and_nothing_crosses_over() {
    let seed = std::env::var("APART_SEED").map_or(1, |seed| seed.parse().expect("APART_SEED is a number"));
    print_line(&format!("APART_SEED={seed}"));
    let mut rng = Rng::with_seed(seed);
    let daemon = start();
    let mut agents = [0, 1].map(|number| TestAgent::new(number, Agent::ready(&daemon)));
    let mut updates = Updates::default();
    while agents.iter().map(|test_agent| test_agent.sent).sum::<u64>() < REQUESTS {
        if rng.u32(..8) == 0 {
            have_one_alone(&mut agents, &mut updates, &mut rng);
        } else {
            have_both_at_once(&mut agents, &mut updates, &mut rng);
        }
    }
    settle(&mut agents, &mut updates, 0);
    agents.iter_mut().for_each(|test_agent| test_agent.expect_quiet(&mut updates));
    updates.expect_right();
    expect_served_once(&daemon, &agents);
    expect_subscribed(&daemon, &updates);
    print_line(&format!(
        "{:?}, {} updates",
        agents.each_ref().map(|test_agent| test_agent.received),
        updates.deliveries()
    ));
    for ReceivedCounts { progress, logs, cancelled } in agents.map(|test_agent| test_agent.received) {
        assert!(progress > 100 && logs > 10 && cancelled > 100 && updates.deliveries() > 100, "this shows little");
    }
}

/// Both ask, in turns, and some of it is given up; then both read until there is room again.
fn have_both_at_once(agents: &mut [TestAgent; 2], updates: &mut Updates, rng: &mut Rng) {
    for _ in 0..rng.usize(1..IN_FLIGHT) {
        for test_agent in agents.iter_mut().filter(|test_agent| test_agent.unanswered() < IN_FLIGHT) {
            test_agent.start(any(rng), false, updates, rng);
            if rng.u32(..12) == 0 {
                test_agent.cancel_one(rng);
            }
        }
    }
    settle(agents, updates, rng.usize(..IN_FLIGHT));
}

/// What a server says while one agent alone uses it is that agent's.
fn have_one_alone(agents: &mut [TestAgent; 2], updates: &mut Updates, rng: &mut Rng) {
    settle(agents, updates, 0);
    let test_agent = rng.choice(agents.iter_mut()).expect("one of two");
    for _ in 0..rng.usize(1..IN_FLIGHT / 2) {
        let action = any(rng);
        // A level that is not answered yet may hold already.
        if action.effect != Effect::Level {
            test_agent.start(action, true, updates, rng);
        }
    }
    settle(agents, updates, 0);
}

/// Has both read until no more than so many of their requests are unanswered.
fn settle(agents: &mut [TestAgent; 2], updates: &mut Updates, unanswered: usize) {
    agents.iter_mut().for_each(|test_agent| test_agent.read_until(unanswered, updates));
}

fn any(rng: &mut Rng) -> &'static Action {
    let weights: u32 = TABLE.iter().map(|action| action.weight).sum();
    let mut at = rng.u32(..weights);
    let chosen = TABLE.iter().find(|action| at.checked_sub(action.weight).map(|rest| at = rest).is_none());
    chosen.expect("less than the sum")
}

/// Each request that a server has answered was received by one, once, and no other was made of it.
fn expect_served_once(daemon: &Daemon, agents: &[TestAgent; 2]) {
    let journal = ["s", "log"].map(|server| daemon.journal(server).join("\n")).join("\n");
    let mut received: HashMap<&str, u32> = HashMap::new();
    for rest in journal.split(r#""mark":""#).skip(1) {
        *received.entry(rest.split('"').next().expect("the beginning")).or_default() += 1;
    }
    let twice: Vec<_> = received.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "made twice: {twice:?}");
    for mark in agents.iter().flat_map(|test_agent| &test_agent.served) {
        assert!(received.contains_key(&**mark), "{mark} was answered, and no server received it");
    }
    for server in ["s", "log"] {
        let row = daemon.wait_row(server, "has nothing in flight", |row| row["in_flight"] == 0);
        assert_eq!(row["restarts"], json!(0));
    }
}

/// The server keeps up what an agent has subscribed to, and nothing else.
fn expect_subscribed(daemon: &Daemon, updates: &Updates) {
    let journal = daemon.journal("s");
    for uri in URIS {
        let about = |line: &&String| line.contains("subscribe\"") && line.contains(&format!("\"{uri}\""));
        let begins = journal.iter().rfind(about).is_some_and(|line| line.contains("/subscribe\""));
        assert_eq!(begins, updates.subscribed_uris().contains(uri), "{uri}");
    }
}
