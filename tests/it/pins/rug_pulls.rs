//! A server that changes its definitions: while it is in use, between two daemons, and before it has started.

use super::*;
use crate::support::Era;

/// Case H4.
#[test]
fn definitions_that_change_after_the_first_call_are_withheld_until_they_are_back() {
    let place = approved();
    let daemon = held(&place);
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    agents.iter_mut().for_each(|agent| expect_exposed(agent, "s__"));
    for _ in 0..2 {
        offer(&place, EVIL);
        announce(&mut agents[0], "s__");
        for agent in &mut agents {
            agent.expect_notification(CHANGED);
            until_offered(agent, "s__", false);
            expect_withheld(&daemon, agent, "s__");
            let subscribe = |agent: &mut Agent, uri: &str| agent.request("resources/subscribe", &json!({ "uri": uri }));
            let [held, unknown] = ["note://7", "null://7"].map(|uri| subscribe(agent, uri)["error"].to_string());
            assert_eq!(held.replace("note", "null"), unknown);
        }
        let changes = daemon.wait_row("s", "reports it", |row| row["changes"]["withheld"] == 3)["changes"].clone();
        assert_eq!((&changes["rule"], &changes["changed"], &changes["new"]), (&json!("hold"), &json!(3), &json!(0)));
        offer(&place, GOOD);
        announce(&mut agents[0], "s__");
        for agent in &mut agents {
            agent.expect_notification(CHANGED);
            until_offered(agent, "s__", true);
            expect_exposed(agent, "s__");
        }
        daemon.wait_row("s", "has no change any more", |row| row["changes"].is_null());
    }
    agents.into_iter().for_each(Agent::disconnect);
}

/// Case H4.
#[test]
fn agents_and_servers_of_both_eras_have_the_same_rule() {
    for era in Era::BOTH {
        let place = approved();
        let server = match era {
            Era::Legacy => server(&place, "hold"),
            Era::Modern => server(&place, "hold").flags("--era modern"),
        };
        let daemon = Setup::with(server).start_in(&place);
        let mut agents = Era::BOTH.map(|era| era.agent(&daemon, &json!({})));
        for is_good in [true, false, true] {
            offer(&place, if is_good { GOOD } else { EVIL });
            // Of tools alone: a modern server announces what was subscribed to.
            arguments(&agents[0].call("s__burst_list_changed", &json!({ "n": 1 })));
            for agent in &mut agents {
                until("the tool is listed or not", || {
                    let tools = result(&agent.request("tools/list", &json!({}))).to_string();
                    assert!(!tools.contains("evil"), "{tools}");
                    (tools.contains("\"s__read\"") == is_good).then_some(())
                });
                let reached = daemon.count_journal("s", r#""name":"read""#);
                let answer = agent.call("s__read", &json!({}));
                if is_good {
                    arguments(&answer);
                } else {
                    let unknown = agent.call("s__none", &json!({}))["error"].to_string();
                    assert_eq!(answer["error"].to_string().replace("read", "none"), unknown);
                    assert_eq!(daemon.count_journal("s", r#""name":"read""#), reached, "the server sees nothing");
                }
            }
        }
        agents.into_iter().for_each(Agent::disconnect);
    }
}

/// Case H4.
#[test]
fn definitions_that_change_while_the_daemon_is_down_are_never_listed() {
    let place = approved();
    let mut daemon = held(&place);
    expect_exposed(&mut Agent::ready(&daemon), "s__");
    daemon.term();
    drop(daemon);
    offer(&place, EVIL);
    for _ in 0..2 {
        let mut daemon = held(&place);
        let mut agent = Agent::ready(&daemon);
        expect_withheld(&daemon, &mut agent, "s__");
        agent.disconnect();
        daemon.term();
    }
}

/// Case H4.
#[test]
fn server_that_is_killed_and_comes_back_with_other_definitions_is_withheld() {
    let place = approved();
    let daemon = held(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    offer(&place, EVIL);
    assert_eq!(code(&agent.call("s__die", &json!({ "how": "kill" }))), -31001);
    daemon.wait_row("s", "is back", |row| row["state"] == "ready" && !row["changes"].is_null());
    until_offered(&mut agent, "s__", false);
    expect_withheld(&daemon, &mut agent, "s__");
    agent.disconnect();
}

/// A server that starts only while the file `gate` is there.
fn gated(place: &Place, rule: &str) -> Server {
    server(place, rule).arg("--exit-unless").arg(place.path("gate"))
}

/// Runs a daemon once, so that the lists of its server are remembered.
fn remember(place: &Rc<Place>, server: Server) {
    place.write("gate", "");
    let mut daemon = Setup::with(server).start_in(place);
    Agent::ready(&daemon).tools();
    let cache = place.path("home/.cache/mcpd/tools");
    until("the lists are kept", || fs::read_dir(&cache).ok()?.next().map(drop));
    daemon.term();
    drop(daemon);
    fs::remove_file(place.path("gate")).expect("it is there");
}

/// A daemon whose server has not started yet.
fn unstarted(place: &Rc<Place>) -> Daemon {
    let setup = Setup::with(gated(place, "hold")).head("[daemon]\nfirst_list_wait = \"1h\"");
    let daemon = setup.spawn_in(place);
    daemon.wait_status("it answers", |_| true);
    daemon
}

/// Case L1.
#[test]
fn parked_calls_of_definitions_that_the_started_server_has_changed_are_refused() {
    let place = approved();
    remember(&place, gated(&place, "hold"));
    offer(&place, EVIL);
    let daemon = unstarted(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(offered(&mut agent).contains("\"s__read\""), "the remembered definition is the approved one");
    let all = requests("s__", KEYS).map(|(method, params)| agent.start_request(method, &params));
    let none = requests("s__", NO_KEYS).map(|(method, params)| agent.start_request(method, &params));
    daemon.wait_row("s", "has parked the calls", |row| row["calls"].as_u64() >= Some(5));
    place.write("gate", "");
    for (held, unknown) in all.iter().zip(&none) {
        let [held, unknown] = [held, unknown].map(|id| agent.answer(id)["error"].to_string());
        assert_eq!(KEYS.iter().zip(NO_KEYS).fold(held, |text, (key, none)| text.replace(key, none)), unknown);
    }
    assert_eq!(count_reached(&daemon), 0, "the server sees none of them");
    until_offered(&mut agent, "s__", false);
    expect_withheld(&daemon, &mut agent, "s__");
    agent.disconnect();
}

/// Case L1.
#[test]
fn remembered_definitions_that_were_not_approved_are_not_listed() {
    let place = Place::new();
    offer(&place, EVIL);
    // Nothing is compared then, and what is remembered is not what is approved.
    remember(&place, gated(&place, "follow"));
    approve_all(&place, GOOD);
    let daemon = unstarted(&place);
    let mut agent = Agent::ready(&daemon);
    let all = offered(&mut agent);
    assert!(all.contains("\"s__write\"") && !all.contains("\"s__read\""), "{all}");
    let call = agent.start_call("s__read", &json!({}));
    place.write("gate", "");
    assert_eq!(code(&agent.answer(&call)), -32602);
    expect_withheld(&daemon, &mut agent, "s__");
    agent.disconnect();
}

/// Case L1.
#[test]
fn call_that_starts_a_lazy_server_is_refused_if_its_definition_is_another_one_by_then() {
    let place = approved();
    let lazy = |rule: &str| server(&place, rule).line("start = 'lazy'").line("idle_timeout = '300ms'");
    let mut daemon = Setup::with(lazy("hold")).start_in(&place);
    daemon.wait_row("s", "has listed and is idle", |row| row["state"] == "idle");
    daemon.term();
    drop(daemon);
    offer(&place, EVIL);
    let daemon = Setup::with(lazy("hold")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(offered(&mut agent).contains("\"s__read\""), "the remembered definition is the approved one");
    assert_eq!(code(&agent.call("s__read", &json!({}))), -32602);
    assert_eq!((count_reached(&daemon), daemon.count_starts("s")), (0, 2));
    until_offered(&mut agent, "s__", false);
    arguments(&agent.call("s__write", &json!({})));
    agent.disconnect();
}

/// Case H4.
#[test]
fn instructions_are_withheld_with_their_own_pin() {
    let instructions = json!("Be kind.");
    for (text, is_approved) in [("Be kind.", true), ("Be evil.", false)] {
        let place = Place::new();
        offer(&place, GOOD);
        let definitions: Vec<_> = tools(GOOD);
        let mut all: Vec<_> =
            definitions.iter().map(|tool| ("tool", tool["name"].as_str().expect("a name"), tool)).collect();
        all.push(("instructions", "", &instructions));
        approve(&place, "s", &all);
        let daemon = Setup::with(server(&place, "hold").arg("--instructions").arg(text)).start_in(&place);
        let mut agent = Agent::connect(&daemon);
        let answer = agent.initialize("2025-11-25").to_string();
        assert_eq!(answer.contains(text), is_approved, "{answer}");
        let mut modern = Agent::modern(&daemon, &json!({}));
        let answer = modern.request("server/discover", &json!({})).to_string();
        assert_eq!(answer.contains(text), is_approved, "{answer}");
        assert!(agent.tools().contains(&"s__read".to_owned()));
    }
}
