//! The detected era is remembered. Crashes and broken connections do not change it.

use std::fs;

use serde_json::Value;

use crate::support::{Daemon, Place, Server, Setup, until};

/// What a scripted server was asked at each start, first.
fn openings(daemon: &Daemon) -> Vec<String> {
    let method = |line: String| Some(serde_json::from_str::<Value>(&line).ok()?["method"].as_str()?.to_owned());
    let journal = daemon.journal("s");
    let starts = journal.split(|line| line.starts_with("# start")).skip(1);
    starts.filter_map(|life| life.iter().cloned().find_map(method)).collect()
}

fn restart(daemon: &Daemon) {
    let starts = openings(daemon).len();
    daemon.client(&["restart", "s"]).expect_code(0);
    until("it has started again", || (openings(daemon).len() > starts).then_some(()));
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
}

#[test]
fn crash_during_the_start_does_not_decide_the_era() {
    let place = Place::new();
    let ready = place.path("ready");
    let server = Server::named("s").flags("--era both --exit-unless").arg(&ready);
    let daemon = Setup::with(server).spawn_in(&place);
    daemon.wait_row("s", "has crashed", |row| row["state"] == "backoff");
    fs::write(&ready, "").expect("the test's own");
    // It may have been repaired between the two attempts of one start, of which only the first asks.
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    restart(&daemon);
    assert_eq!(daemon.row("s")["protocol"], "2025-11-25");
}

#[test]
fn server_that_exits_on_the_probe_is_probed_once_more_and_not_again() {
    let daemon = Server::named("s").line("sharing = \"pool\"").flags("--probe fatal").start();
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready" && row["protocol"] == "2025-11-25");
    let (probe, handshake) = ("server/discover", "initialize");
    assert_eq!(openings(&daemon), [probe, handshake]);
    for _ in 0..2 {
        restart(&daemon);
    }
    assert_eq!(openings(&daemon), [probe, handshake, probe, handshake, handshake]);
}
