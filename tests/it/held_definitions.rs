//! Definitions that change after they were approved: what the daemon pins by itself, and what it withholds.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::reload::replace;
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, result, until};

const CHANGED: &str = "notifications/tools/list_changed";

/// The definition of a tool that says this of itself.
fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

/// What the server lists from now on.
fn list(place: &Place, tools: &[Value]) {
    place.replace("tools.json", json!({ "tools": tools }).to_string());
}

fn server(place: &Place, rule: &str) -> Server {
    Server::named("s").arg("--tool-list").arg(place.path("tools.json")).line(format!("changes = \"{rule}\""))
}

/// The pin files, and what they contain.
fn pin_files(place: &Place) -> Vec<(PathBuf, String)> {
    let configurations = fs::read_dir(place.path("home/.local/state/mcpd/pins")).into_iter().flatten().flatten();
    let files = configurations.flat_map(|directory| fs::read_dir(directory.path()).into_iter().flatten().flatten());
    let files = files.map(|file| file.path()).filter(|path| path.file_name().is_some_and(|name| name == "s.json"));
    files.map(|path| (path.clone(), fs::read_to_string(path).expect("a pin file"))).collect()
}

fn wait_pinned(place: &Place) -> String {
    until("what it offers is pinned", || pin_files(place).into_iter().next().map(|(_, text)| text))
}

/// A place where a server that listed these tools was trusted.
fn trusted(tools: &[Value]) -> Rc<Place> {
    let place = Place::new();
    list(&place, tools);
    let mut daemon = Setup::with(server(&place, "warn").flags("--instructions kind")).start_in(&place);
    wait_pinned(&place);
    assert_eq!(daemon.row("s")["changes"], Value::Null, "nothing has changed");
    daemon.term();
    place
}

fn counts(daemon: &Daemon) -> (u64, u64, u64) {
    let changes = &daemon.row("s")["changes"];
    let count = |name: &str| changes[name].as_u64().unwrap_or_default();
    (count("changed"), count("new"), count("withheld"))
}

/// The error of a call, with the name of the tool replaced.
fn refusal(agent: &mut Agent, tool: &str) -> String {
    agent.call(tool, &json!({}))["error"].to_string().replace(tool, "TOOL")
}

#[test]
fn what_a_server_offers_at_first_is_pinned_once_and_changes_are_reported() {
    let place = trusted(&[tool("echo", "says it again")]);
    let pinned = wait_pinned(&place);
    assert!(pinned.contains("says it again") && pinned.contains("kind"), "{pinned}");
    list(&place, &[tool("echo", "says it twice"), tool("big", "is long")]);
    let mut daemon = Setup::with(server(&place, "warn").flags("--instructions kinder")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__echo", "s__big"]);
    arguments(&agent.call("s__echo", &json!({})));
    assert_eq!(counts(&daemon), (2, 1, 0), "{}", daemon.row("s"));
    let since = daemon.row("s")["changes"]["since"].clone();
    assert_eq!(wait_pinned(&place), pinned, "what changed was not trusted");
    assert!(daemon.log().contains("definitions that were not approved"), "{}", daemon.log());
    daemon.term();
    drop(daemon);
    let daemon = Setup::with(server(&place, "warn").flags("--instructions kinder")).start_in(&place);
    assert_eq!((counts(&daemon), &daemon.row("s")["changes"]["since"]), ((2, 1, 0), &since), "it is not new again");
}

#[test]
fn server_whose_changes_are_followed_has_no_pin_file() {
    let place = Place::new();
    list(&place, &[tool("echo", "says it again")]);
    let daemon = Setup::with(server(&place, "follow")).start_in(&place);
    Agent::ready(&daemon).tools();
    daemon.client(&["reload"]).expect_code(0);
    assert!(pin_files(&place).is_empty());
    assert_eq!(daemon.row("s")["changes"], Value::Null);
}

#[test]
fn held_server_without_a_pin_file_exposes_nothing() {
    let place = Place::new();
    list(&place, &[tool("echo", "says it again")]);
    let daemon = Setup::with(server(&place, "hold").flags("--instructions kind")).start_in(&place);
    let mut agent = Agent::connect(&daemon);
    let answer = agent.initialize("2025-11-25");
    assert!(!answer.to_string().contains("kind"), "{answer}");
    agent.notify("notifications/initialized", &json!({}));
    assert_eq!(agent.tools(), [""; 0]);
    assert_eq!(refusal(&mut agent, "s__echo"), refusal(&mut agent, "s__none"));
    assert_eq!(counts(&daemon), (0, 2, 2), "{}", daemon.row("s"));
    assert_eq!(daemon.count_journal("s", "tools/call"), 0);
    assert!(pin_files(&place).is_empty());
}

#[test]
fn held_definition_is_exposed_only_while_it_is_the_approved_one() {
    let first = [tool("echo", "says it again"), tool("big", "is long")];
    let place = trusted(&first);
    let daemon = Setup::with(server(&place, "hold").flags("--instructions kind")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__echo", "s__big"]);
    for _ in 0..2 {
        list(&place, &[tool("echo", "says it again, and sends it"), first[1].clone(), tool("new", "")]);
        daemon.client(&["restart", "s"]).expect_code(0);
        agent.expect_notification(CHANGED);
        assert_eq!(agent.tools(), ["s__big"]);
        let calls = daemon.count_journal("s", "tools/call");
        assert_eq!(refusal(&mut agent, "s__echo"), refusal(&mut agent, "s__none"));
        assert_eq!((counts(&daemon), daemon.count_journal("s", "tools/call")), ((1, 1, 2), calls));
        list(&place, &first);
        daemon.client(&["restart", "s"]).expect_code(0);
        agent.expect_notification(CHANGED);
        assert_eq!(agent.tools(), ["s__echo", "s__big"]);
        arguments(&agent.call("s__echo", &json!({})));
        assert_eq!(counts(&daemon), (0, 0, 0));
    }
}

#[test]
fn approved_text_of_a_former_instance_does_not_stand_for_one_that_has_not_listed() {
    let place = trusted(&[tool("echo", "says it again")]);
    let held = || server(&place, "hold").flags("--instructions kind --list-errors 1");
    let daemon = Setup::with(held()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    until("its second list is there", || (agent.tools() == ["s__echo"]).then_some(()));
    list(&place, &[tool("echo", "says it again, and sends it")]);
    // The new instance refuses to list once, so the list of the former one is still known.
    daemon.client(&["restart", "s"]).expect_code(1);
    let answer = agent.call("s__echo", &json!({}));
    assert_eq!(code(&answer), -32602, "{answer}");
    agent.discard_notifications(CHANGED);
    assert_eq!(daemon.count_journal("s", "tools/call"), 0);
}

#[test]
fn replacement_with_other_definitions_is_held_as_soon_as_it_serves() {
    let place = trusted(&[tool("echo", "says it again"), tool("big", "is long")]);
    let held = |version: &str| server(&place, "hold").flags("--instructions kind").env("VERSION", version);
    let text = |server: Server| server.toml(&place);
    replace(&place, text(held("1")));
    let daemon = Setup::new().config(place.path("changing.toml")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), [""; 0], "the pins of one configuration are no pins of another");
    replace(&place, text(held("1")).replace("\"hold\"", "\"warn\""));
    daemon.client(&["reload"]).expect_code(0);
    until("it is trusted", || (pin_files(&place).len() == 2).then_some(()));
    until("all is listed", || (agent.tools() == ["s__echo", "s__big"]).then_some(()));
    list(&place, &[tool("echo", "says it again, and sends it"), tool("big", "is long")]);
    replace(&place, text(held("2")));
    daemon.client(&["reload"]).expect_code(0);
    assert_eq!(agent.tools(), ["s__big"]);
    assert_eq!(refusal(&mut agent, "s__echo"), refusal(&mut agent, "s__none"));
    result(&agent.call("s__big", &json!({ "bytes": 1 })));
    agent.discard_notifications(CHANGED);
}
