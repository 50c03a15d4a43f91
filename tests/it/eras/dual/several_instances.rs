//! Session, workspace and pool instances use the era of their agents.

use std::rc::Rc;

use serde_json::json;

use super::{
    all, dual, expect_bridged_modern, expect_logs, expect_native_legacy, expect_native_modern, version, versions,
};
use crate::support::{Agent, Daemon, Setup, result, until};

fn shared_by(sharing: &str) -> Daemon {
    Setup::with(dual().line(format!("sharing = \"{sharing}\"")).line("idle_timeout = \"1m\"")).start()
}

fn wait_version(daemon: &Daemon, purpose: &str, expected: &str) {
    until(&format!("{purpose} speaks {expected}: {:?}", versions(daemon)), || {
        (version(daemon, purpose).as_deref() == Some(expected)).then_some(())
    });
}

/// Case J6.
#[test]
fn session_instance_uses_the_era_of_its_agent() {
    let daemon = shared_by("session");
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    let mut modern = Agent::modern(&daemon, &all());
    expect_native_legacy(&mut legacy);
    expect_native_modern(&mut modern);
    expect_native_legacy(&mut legacy);
    expect_logs(&mut legacy);
    assert_eq!(version(&daemon, "session 1").as_deref(), Some("2025-11-25"));
    assert_eq!(version(&daemon, "session 2").as_deref(), Some("2026-07-28"));
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    let line = |purpose: &str| status.lines().find(|line| line.contains(purpose)).expect("a row").to_owned();
    assert!(line("session 1").contains("2025-11-25") && line("session 2").contains("2026-07-28"), "{status}");
    assert_eq!(daemon.row("s")["eras"], json!(["legacy", "modern"]));
}

#[test]
fn instance_that_died_is_opened_in_the_same_era_again() {
    let daemon = shared_by("session");
    for (mut agent, expected) in
        [(Agent::with_capabilities(&daemon, &all()), "2025-11-25"), (Agent::modern(&daemon, &all()), "2026-07-28")]
    {
        let session = format!("session {}", if expected == "2025-11-25" { 1 } else { 2 });
        agent.call("s__die", &json!({"how": "kill"}));
        result(&agent.call("s__echo", &json!({})));
        assert_eq!(version(&daemon, &session).as_deref(), Some(expected));
    }
}

#[test]
fn configured_era_overrides_the_era_of_the_agent() {
    let server = dual().line("sharing = \"session\"").line("era = \"legacy\"");
    let daemon = Setup::with(server).start();
    expect_bridged_modern(&mut Agent::modern(&daemon, &all()));
    assert!(versions(&daemon).iter().all(|(_, version)| version == "2025-11-25"), "{:?}", versions(&daemon));
}

/// Case J6.
#[test]
fn workspace_instance_follows_its_agents_and_is_legacy_for_agents_of_both_eras() {
    let daemon = shared_by("workspace");
    let place = Rc::clone(daemon.place());
    let [here, there] = ["here", "there"].map(|name| {
        std::fs::create_dir(place.path(name)).expect("the test's own");
        place.path(name).to_str().expect("text").to_owned()
    });
    let mut other = Agent::working_in(&daemon, there.as_ref());
    result(&other.call("s__echo", &json!({})));
    assert_eq!(version(&daemon, &there).as_deref(), Some("2025-11-25"));

    let mut modern = Agent::modern(&daemon, &all());
    expect_native_modern(&mut modern);
    let own = std::env::current_dir().expect("it has one").to_str().expect("text").to_owned();
    assert_eq!(version(&daemon, &own).as_deref(), Some("2026-07-28"));
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    wait_version(&daemon, &own, "2025-11-25");
    expect_native_legacy(&mut legacy);
    expect_bridged_modern(&mut modern);
    let _ = here;
}

#[test]
fn workspace_keeps_its_era_while_a_call_runs() {
    let daemon = shared_by("workspace");
    let mut modern = Agent::modern(&daemon, &all());
    let call = modern.start_call("s__sleep", &json!({"ms": 3000, "mark": "busy"}));
    daemon.wait_journal("s", "busy");
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    result(&legacy.call("s__echo", &json!({})));
    result(&modern.answer(&call));
    let own = std::env::current_dir().expect("it has one").to_str().expect("text").to_owned();
    wait_version(&daemon, &own, "2025-11-25");
    expect_native_legacy(&mut legacy);
}

/// Case J6.
#[test]
fn pool_follows_its_agents_and_is_legacy_for_agents_of_both_eras() {
    let daemon = shared_by("pool");
    let mut modern = Agent::modern(&daemon, &all());
    expect_native_modern(&mut modern);
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    wait_version(&daemon, "pool 1", "2025-11-25");
    expect_native_legacy(&mut legacy);
    expect_bridged_modern(&mut modern);
}

#[test]
fn pool_of_a_server_of_one_era_is_not_restarted_for_an_agent_of_the_other() {
    for flags in ["--era legacy", "--era modern"] {
        let server = crate::support::Server::named("s").flags(flags).line("sharing = \"pool\"");
        let daemon = Setup::with(server).start();
        for mut agent in [Agent::modern(&daemon, &all()), Agent::with_capabilities(&daemon, &all())] {
            result(&agent.call("s__echo", &json!({})));
        }
        let expected = if flags == "--era legacy" { 0 } else { 1 };
        assert!(daemon.row("s")["restarts"].as_u64().expect("a number") <= expected, "{flags}: {}", daemon.row("s"));
    }
}
