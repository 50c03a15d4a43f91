//! Lists are complete on one page, however many pages a server uses.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, code, result};

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

/// A server with ten of each kind, three on a page.
fn start() -> Daemon {
    let all = |item: fn(u32) -> Value| (0..10).map(item).collect::<Vec<_>>();
    let library = json!({
        "prompts": all(|n| json!({"name": format!("p{n}")})),
        "resources": all(|n| json!({"uri": format!("x://{n}"), "name": "r"})),
        "resourceTemplates": all(|n| json!({"uriTemplate": format!("x://{n}/{{id}}"), "name": "t"})),
    });
    let server = Server::named("s").flags("--bare --page-size 3");
    let server = (0..10).fold(server, |server, n| server.arg("--tool").arg(format!("t{n}")));
    Setup::with(server.library(library)).start()
}

#[test]
fn each_of_the_four_lists_is_complete_and_in_order_on_one_page() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    for (method, member) in LISTS {
        let answer = agent.request(method, &json!({}));
        let listed = result(&answer)[member].as_array().expect("a list");
        assert_eq!(listed.len(), 10, "{method}");
        for (n, item) in listed.iter().enumerate() {
            assert!(item.to_string().contains(&n.to_string()), "{method}: {item} at {n}");
        }
        assert!(result(&answer)["nextCursor"].is_null(), "{method} has no other page");
        let received = daemon.count_journal("s", &format!("\"{method}\""));
        assert_eq!(received, 4, "each page of {method} once");
    }
}

#[test]
fn unknown_cursor_is_refused_by_all_four_lists() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    for (method, _) in LISTS {
        for cursor in [json!("x"), json!(""), json!("3"), json!(3), json!({})] {
            assert_eq!(code(&agent.request(method, &json!({"cursor": cursor}))), -32602, "{method} {cursor}");
        }
        for params in [json!({}), json!({"cursor": null}), json!({"_meta": {"x": 1}})] {
            result(&agent.request(method, &params));
        }
    }
}

#[test]
fn error_on_a_later_page_keeps_the_pages_before_it_and_is_reported() {
    let place = Place::new();
    let file = place.path("whole");
    let server = Server::named("s").flags("--bare --page-size 2 --one-page-unless").arg(&file);
    let server = ["a", "b", "c"].into_iter().fold(server, |server, tool| server.arg("--tool").arg(tool));
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__a", "s__b"]);
    let row = daemon.row("s");
    let error =
        "its answer to `tools/list` is an error: no such page (-32603); mcpd uses the items of the earlier pages (2)";
    assert_eq!((&row["tools_truncated"], &row["last_error"]), (&json!(true), &json!(error)));
    // It is requested again.
    place.write("whole", "");
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["s__a", "s__b", "s__c"]);
    assert_eq!(daemon.row("s")["tools_truncated"], false);
}
