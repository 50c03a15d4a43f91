//! `subscriptions/listen` at servers of both eras.

use serde_json::{Value, json};

use super::changes::{
    TOOLS, UPDATED, change_tools, expect_updates, modern, open, touch, wait_subscribed, wait_unsubscribed,
};
use super::{both, full};
use crate::support::{Agent, Era, Place, SUBSCRIPTION, Server, Setup, arguments, code, result, until};

#[test]
fn subscription_is_acknowledged_and_reports_list_changes_of_both_eras() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true});
    let (subscription, granted) = agent.listen(&filter);
    assert_eq!(granted, filter);
    for server in Era::BOTH {
        change_tools(&daemon, server, "fresh");
        agent.subscription_notification(&subscription, TOOLS);
        assert!(agent.tools().contains(&server.tool("fresh")), "told after it is so");
    }
    agent.expect_quiet();
    agent.cancel(&subscription);
    change_tools(&daemon, Era::Modern, "later");
    until("the list is another", || agent.tools().contains(&"new__later".into()).then_some(()));
    agent.expect_quiet();
}

#[test]
fn subscription_reports_only_requested_kinds() {
    let daemon = both();
    let mut silent = modern(&daemon);
    let mut prompts = modern(&daemon);
    let (subscription, granted) = prompts.listen(&json!({"promptsListChanged": true, "toolsListChanged": false}));
    assert_eq!(granted["promptsListChanged"], true);
    assert_ne!(granted["toolsListChanged"], true);
    let mut legacy = Agent::ready(&daemon);
    legacy.tools();
    for server in Era::BOTH {
        change_tools(&daemon, server, "fresh");
        legacy.expect_notification(TOOLS);
    }
    prompts.expect_quiet();
    silent.expect_quiet();
    let mut other = modern(&daemon);
    arguments(&other.call("new__touch", &json!({"lists": ["prompts"]})));
    // A list that is the same as before need not be told.
    prompts.cancel(&subscription);
    prompts.disconnect();
}

#[test]
fn subscription_id_keeps_the_spelling_of_its_request() {
    let daemon = both();
    let mut agents: Vec<_> =
        ["1", "\"1\"", "9007199254740993", "\"\\u0041\""].map(|id| (id, Agent::connect(&daemon))).into();
    for (id, agent) in &mut agents {
        let params = modern(&daemon).with_meta(&json!({"notifications": {"toolsListChanged": true}}));
        agent.send_raw(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{params}}}\n"
        ));
        let line = agent.next_line().expect("it is acknowledged");
        assert!(
            line.contains("subscriptions/acknowledged") && line.contains(&format!("\"{SUBSCRIPTION}\":{id}")),
            "{line}"
        );
    }
    for server in Era::BOTH {
        change_tools(&daemon, server, "fresh");
        for (id, agent) in &mut agents {
            let line = agent.next_line().expect("it is told");
            assert!(line.contains(TOOLS) && line.contains(&format!("\"{SUBSCRIPTION}\":{id}")), "{line}");
        }
    }
    agents.into_iter().for_each(|(_, agent)| agent.disconnect());
}

#[test]
fn connection_may_have_several_subscriptions_each_with_its_own() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let (tools, _) = agent.listen(&json!({"toolsListChanged": true}));
    let (updates, granted) = agent.listen(&json!({"resourceSubscriptions": ["new://1", "old://1"]}));
    assert_eq!(granted, json!({"resourceSubscriptions": ["new://1", "old://1"]}));
    wait_subscribed(&daemon);
    daemon.wait_journal("old", "resources/subscribe");
    change_tools(&daemon, Era::Modern, "fresh");
    agent.subscription_notification(&tools, TOOLS);
    for server in Era::BOTH {
        touch(&daemon, server, &["elsewhere://1", &server.uri()]);
        assert_eq!(agent.subscription_notification(&updates, UPDATED)["uri"], server.uri());
    }
    agent.expect_quiet();
    agent.cancel(&updates);
    daemon.wait_journal("old", "resources/unsubscribe");
    wait_unsubscribed(&daemon);
    change_tools(&daemon, Era::Legacy, "fresh");
    agent.subscription_notification(&tools, TOOLS);
    agent.expect_quiet();
    agent.disconnect();
}

#[test]
fn legacy_agent_subscribes_to_a_resource_of_a_modern_server() {
    let daemon = both();
    let mut agent = Agent::ready(&daemon);
    result(&agent.request("resources/subscribe", &json!({"uri": "new://1"})));
    wait_subscribed(&daemon);
    touch(&daemon, Era::Modern, &["new://2", "new://1"]);
    let update = agent.expect_notification(UPDATED);
    assert_eq!((&update["params"]["uri"], &update["params"]["_meta"]), (&json!("new://1"), &Value::Null), "{update}");
    result(&agent.request("resources/unsubscribe", &json!({"uri": "new://1"})));
    wait_unsubscribed(&daemon);
    touch(&daemon, Era::Modern, &["new://1"]);
    agent.expect_quiet();
}

#[test]
fn many_subscribers_share_one_subscription_at_the_server() {
    let daemon = both();
    until("mcpd itself listens", || (open(&daemon, "new").len() == 1).then_some(()));
    let mut agents: Vec<_> = (0..20).map(|_| modern(&daemon)).collect();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["new://1"]});
    let ids: Vec<_> = agents.iter_mut().map(|agent| agent.listen(&filter).0).collect();
    wait_subscribed(&daemon);
    let with_uri = |message: &&Value| message.to_string().contains("new://1");
    assert_eq!(open(&daemon, "new").iter().filter(with_uri).count(), 1, "{:?}", open(&daemon, "new"));
    assert!(open(&daemon, "new").len() <= 2, "{:?}", open(&daemon, "new"));
    touch(&daemon, Era::Modern, &["new://1"]);
    change_tools(&daemon, Era::Modern, "fresh");
    for (agent, id) in agents.iter_mut().zip(&ids) {
        assert_eq!(agent.subscription_notification(id, UPDATED)["uri"], "new://1");
        agent.subscription_notification(id, TOOLS);
        agent.expect_quiet();
    }
    agents.into_iter().for_each(Agent::disconnect);
    wait_unsubscribed(&daemon);
}

/// Case J13.
#[test]
fn subscription_continues_after_a_server_restart() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"resourceSubscriptions": ["new://1", "old://1"]}));
    for server in Era::BOTH {
        let crash = modern(&daemon).call(&server.tool("die"), &json!({"how": "kill"}));
        assert_eq!(code(&crash), -31001);
        daemon.wait_row(server.name(), "is up again", |row| row["state"] == "ready" && row["restarts"] == 1);
    }
    wait_subscribed(&daemon);
    daemon.wait_journal_count("old", "resources/subscribe", 2);
    expect_updates(&daemon, &mut agent, &id);
    agent.disconnect();
}

/// Case J13.
#[test]
fn subscription_ended_by_the_server_is_renewed() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"toolsListChanged": true, "resourceSubscriptions": ["new://1"]}));
    wait_subscribed(&daemon);
    for (round, how) in ["result", "cancelled"].into_iter().enumerate() {
        let before = daemon.count_journal("new", "subscriptions/listen");
        arguments(&modern(&daemon).call("new__end_subscriptions", &json!({"how": how})));
        until("it is asked for again", || (daemon.count_journal("new", "subscriptions/listen") > before).then_some(()));
        change_tools(&daemon, Era::Modern, &format!("fresh{round}"));
        until("it is told", || agent.tools().contains(&format!("new__fresh{round}")).then_some(()));
        agent.subscription_notification(&id, TOOLS);
    }
    agent.disconnect();
}

/// Case J13.
#[test]
fn server_that_refuses_subscriptions_affects_no_others() {
    let place = Place::new();
    let deaf = full(&place, Era::Modern).flags("--no-subscriptions");
    let daemon = Setup::with(full(&place, Era::Legacy)).server(deaf).start_in(&place);
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"toolsListChanged": true, "resourceSubscriptions": ["new://1"]}));
    arguments(&agent.call("new__echo", &json!({})));
    change_tools(&daemon, Era::Legacy, "fresh");
    agent.subscription_notification(&id, TOOLS);
    agent.expect_quiet();
    assert_eq!(daemon.row("new")["restarts"], 0);
    agent.disconnect();
}

#[test]
fn subscription_ends_with_an_answer_when_the_daemon_stops() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"toolsListChanged": true}));
    drop(daemon);
    let answer = agent.answer(&id);
    assert_eq!((&result(&answer)["resultType"], &result(&answer)["_meta"][SUBSCRIPTION]), (&json!("complete"), &id));
    agent.expect_end();
    agent.disconnect();
}

/// Case J14.
#[test]
fn malformed_filter_is_refused() {
    let daemon = Server::named("s").start();
    let mut agent = modern(&daemon);
    for wrong in [json!({}), json!({"notifications": 7}), json!({"notifications": {"resourceSubscriptions": [7]}})] {
        let refused = agent.request("subscriptions/listen", &wrong);
        assert_eq!(code(&refused), -32602, "{wrong}");
    }
    agent.expect_quiet();
}

/// Case J14.
#[test]
fn denied_resource_cannot_be_subscribed_to() {
    let place = Place::new();
    let hidden = |era: Era| full(&place, era).line(format!("resources = {{ deny = [\"{}\"] }}", era.uri()));
    let daemon = Setup::with(hidden(Era::Legacy)).server(hidden(Era::Modern)).start_in(&place);
    let mut agent = modern(&daemon);
    let (_, granted) = agent.listen(&json!({"resourceSubscriptions": ["old://1", "new://1", "nowhere://1"]}));
    assert!(granted["resourceSubscriptions"].as_array().is_none_or(Vec::is_empty), "{granted}");
    for server in Era::BOTH {
        touch(&daemon, server, &[&server.uri()]);
        assert!(
            !daemon.journal(server.name()).iter().any(|line| {
                line.contains(&server.uri()) && (line.contains("subscribe") || line.contains("listen"))
            })
        );
    }
    agent.expect_quiet();
    agent.disconnect();
}

#[test]
fn agent_that_has_finished_writing_receives_due_notifications_and_no_later_ones() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"toolsListChanged": true}));
    agent.shut_down_writing();
    assert_eq!(result(&agent.answer(&id))["_meta"][SUBSCRIPTION], id);
    agent.expect_end();
}
