//! Two agents that choose alike whatever an agent may choose (ids, progress tokens, URIs) use one shared server at once, and
//! nothing crosses over: what each is told carries a mark of its own, and each of its requests ends once.
//!
//! `deeds` (the table of what they ask for: a further kind of request is a further row) · `side` (one agent and its account) ·
//! `updates` (who may and who must hear of a changed resource).
//!
//! The environment may give another seed than the one that is always tried: `APART_SEED`. It repeats what is asked, not the
//! moments at which the machine does it.

mod deeds;
mod side;
mod updates;

use std::collections::HashMap;

use fastrand::Rng;
use serde_json::json;

use self::deeds::{Deed, Effect, TABLE, URIS};
use self::side::{Received, Side};
use self::updates::Updates;
use crate::support::{Agent, Daemon, Place, Server, Setup, say};

/// Of both agents together.
const REQUESTS: u64 = 10_000;
/// Most that one of them has unanswered at once.
const IN_FLIGHT: usize = 48;

const LIBRARY: &str = r#"{"prompts":[{"name":"greet"}],"completions":true,
    "resources":[{"uri":"x://a","name":"a"}],"resourceTemplates":[{"uriTemplate":"x://{+id}","name":"any"}]}"#;

/// Nothing is cancelled at the second server: whose a log message is, is not known while a server may be at what was given up.
fn start() -> Daemon {
    let place = Place::new();
    let library =
        |name: &str, text: &str| Server::named(name).arg("--library").arg(place.write(&format!("{name}.json"), text));
    Setup::with(library("s", LIBRARY)).server(library("log", r#"{"logging":true}"#)).start_in(&place)
}

#[test]
fn two_agents_that_choose_everything_alike_share_a_server_for_10_000_requests_and_nothing_crosses_over() {
    let seed = std::env::var("APART_SEED").map_or(1, |seed| seed.parse().expect("APART_SEED is a number"));
    say(&format!("APART_SEED={seed}"));
    let mut rng = Rng::with_seed(seed);
    let daemon = start();
    let mut sides = [0, 1].map(|number| Side::new(number, Agent::ready(&daemon)));
    let mut updates = Updates::default();
    while sides.iter().map(|side| side.sent).sum::<u64>() < REQUESTS {
        if rng.u32(..8) == 0 {
            have_one_alone(&mut sides, &mut updates, &mut rng);
        } else {
            have_both_at_once(&mut sides, &mut updates, &mut rng);
        }
    }
    settle(&mut sides, &mut updates, 0);
    sides.iter_mut().for_each(|side| side.expect_quiet(&mut updates));
    updates.expect_right();
    expect_served_once(&daemon, &sides);
    expect_subscribed(&daemon, &updates);
    say(&format!("{:?}, {} updates", sides.each_ref().map(|side| side.received), updates.deliveries()));
    for Received { progress, logs, cancelled } in sides.map(|side| side.received) {
        assert!(progress > 100 && logs > 10 && cancelled > 100 && updates.deliveries() > 100, "this shows little");
    }
}

/// Both ask, in turns, and some of it is given up; then both read until there is room again.
fn have_both_at_once(sides: &mut [Side; 2], updates: &mut Updates, rng: &mut Rng) {
    for _ in 0..rng.usize(1..IN_FLIGHT) {
        for side in sides.iter_mut().filter(|side| side.unanswered() < IN_FLIGHT) {
            side.ask(any(rng), false, updates, rng);
            if rng.u32(..12) == 0 {
                side.cancel_one(rng);
            }
        }
    }
    settle(sides, updates, rng.usize(..IN_FLIGHT));
}

/// What a server says while one agent alone uses it is that agent's.
fn have_one_alone(sides: &mut [Side; 2], updates: &mut Updates, rng: &mut Rng) {
    settle(sides, updates, 0);
    let side = rng.choice(sides.iter_mut()).expect("one of two");
    for _ in 0..rng.usize(1..IN_FLIGHT / 2) {
        let deed = any(rng);
        // A level that is not answered yet may hold already.
        if deed.effect != Effect::Level {
            side.ask(deed, true, updates, rng);
        }
    }
    settle(sides, updates, 0);
}

/// Has both read until no more than so many of their requests are unanswered.
fn settle(sides: &mut [Side; 2], updates: &mut Updates, unanswered: usize) {
    sides.iter_mut().for_each(|side| side.read_until(unanswered, updates));
}

fn any(rng: &mut Rng) -> &'static Deed {
    let weights: u32 = TABLE.iter().map(|deed| deed.weight).sum();
    let mut at = rng.u32(..weights);
    let chosen = TABLE.iter().find(|deed| at.checked_sub(deed.weight).map(|rest| at = rest).is_none());
    chosen.expect("less than the sum")
}

/// Each request that a server has answered was received by one, once, and no other was made of it.
fn expect_served_once(daemon: &Daemon, sides: &[Side; 2]) {
    let journal = ["s", "log"].map(|server| daemon.journal(server).join("\n")).join("\n");
    let mut received: HashMap<&str, u32> = HashMap::new();
    for rest in journal.split(r#""mark":""#).skip(1) {
        *received.entry(rest.split('"').next().expect("the beginning")).or_default() += 1;
    }
    let twice: Vec<_> = received.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "made twice: {twice:?}");
    for mark in sides.iter().flat_map(|side| &side.served) {
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
