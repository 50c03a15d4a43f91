//! A server that changes a thousand definitions again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::support::resident_kib;

const TOOLS: usize = 1000;
const ROUNDS: usize = 10;
const ANNOUNCEMENTS: usize = 100;
/// While agents list.
const CHANGES: usize = 12;

/// Case L5.
#[test]
fn thousand_tools_that_change_all_the_time_cost_bounded_work_and_are_never_listed() {
    let place = Place::new();
    let many = |description: &str| -> Vec<Value> {
        let many = (0..TOOLS).map(|number| tool(&format!("many_{number}"), description));
        [tool("burst_list_changed", "Stays.")].into_iter().chain(many).collect()
    };
    approve_lists(&place, "s", &many(GOOD), &Value::Null);
    offer_tools(&place, "tools.json", &many(GOOD));
    let setup = Setup::with(listing("s", &place, "hold", "tools.json")).server(Server::named("good"));
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools().iter().filter(|tool| tool.starts_with("s__")).count(), TOOLS + 1);
    let before = resident_kib(daemon.pid());
    for round in 0..ROUNDS {
        offer_tools(&place, "tools.json", &many(&format!("{EVIL} {round}")));
        arguments(&agent.call("s__burst_list_changed", &json!({ "n": ANNOUNCEMENTS / ROUNDS })));
        let all = result(&agent.request("tools/list", &json!({}))).to_string();
        assert!(!all.contains("evil"), "round {round}");
        arguments(&agent.call("good__echo", &json!({})));
        daemon.client(&["status"]);
    }
    until("all are withheld", || {
        let all = agent.tools();
        (!all.iter().any(|tool| tool.starts_with("s__many"))).then_some(())
    });
    let report = daemon.wait_row("s", "reports them", |row| row["changes"]["withheld"].as_u64() >= Some(1000));
    assert_eq!(report["changes"]["changed"], TOOLS, "{report}");
    let lists = daemon.count_journal("s", "\"tools/list\"");
    assert!(lists <= ANNOUNCEMENTS + 2, "{lists} requests for lists");
    let added = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(added < 64 << 10, "{added} KiB more");
    offer_tools(&place, "tools.json", &many(GOOD));
    arguments(&agent.call("s__burst_list_changed", &json!({ "n": 1 })));
    until("all are back", || {
        (agent.tools().iter().filter(|tool| tool.starts_with("s__many")).count() == TOOLS).then_some(())
    });
    agent.disconnect();
}

/// Case L5.
#[test]
fn agents_that_list_all_the_time_get_no_definition_that_was_not_approved_in_between() {
    let place = approved();
    let daemon = held(&place);
    let (socket, is_over) = (daemon.agent_socket(), AtomicBool::new(false));
    thread::scope(|scope| {
        let listing = || {
            let mut agent = Agent::ready_at(&socket);
            while !is_over.load(Ordering::Relaxed) {
                offered(&mut agent);
                agent.discard_notifications(CHANGED);
                let answer = agent.call("s__read", &json!({}));
                assert!(answer["result"].is_object() || code(&answer) == -32602, "{answer}");
            }
            agent.disconnect();
        };
        let agents = [(); 2].map(|()| scope.spawn(listing));
        let mut agent = Agent::ready(&daemon);
        for round in 0..CHANGES {
            let is_good = round % 2 == 1;
            offer(&place, if is_good { GOOD } else { EVIL });
            announce(&mut agent, "s__");
            until_offered(&mut agent, "s__", is_good);
            if agents.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        agent.disconnect();
        is_over.store(true, Ordering::Relaxed);
    });
}
