//! `changes = "warn"`: changes are exposed and reported, but suspicious ones are withheld.

use super::*;

/// What each tool is at first, and then.
fn changes() -> Vec<(&'static str, Option<Value>, Option<Value>, bool)> {
    let plain = |name: &str, description: &str| Some(tool(name, description));
    let annotated = |name: &str, annotations: Value| {
        let mut tool = tool(name, GOOD);
        tool["annotations"] = annotations;
        Some(tool)
    };
    let own = ["burst_list_changed", "raw"].map(|name| (name, plain(name, GOOD), plain(name, GOOD), true));
    let changed = [
        ("same", plain("same", GOOD), plain("same", GOOD), true),
        ("worded", plain("worded", GOOD), plain("worded", "Reads any note."), true),
        ("gone", plain("gone", GOOD), None, false),
        ("fresh", None, plain("fresh", GOOD), true),
        ("loosened", annotated("loosened", json!({})), annotated("loosened", json!({ "readOnlyHint": true })), false),
        ("tightened", annotated("tightened", json!({ "readOnlyHint": true })), annotated("tightened", json!({})), true),
        (
            "harmless",
            annotated("harmless", json!({})),
            annotated("harmless", json!({ "destructiveHint": false })),
            false,
        ),
        ("titled", annotated("titled", json!({})), annotated("titled", json!({ "title": "T" })), true),
        ("hidden", plain("hidden", GOOD), plain("hidden", "Reads\u{200b} a note."), false),
        ("fresh_hidden", None, plain("fresh_hidden", "Reads\u{202e} a note."), false),
        ("still_hidden", plain("still_hidden", "a\u{200b}"), plain("still_hidden", "b\u{200b}"), true),
        ("fresh_loose", None, annotated("fresh_loose", json!({ "readOnlyHint": true })), true),
    ];
    own.into_iter().chain(changed).collect()
}

/// A list in which invisible characters are JSON escapes, and members stand in another order.
fn escaped(tools: &[Value]) -> String {
    let escape = |text: String| text.replace('\u{200b}', "\\u200b").replace('\u{202e}', "\\u202E");
    let tool = |tool: &Value| {
        let members = tool.as_object().expect("an object").iter().rev();
        let members: Vec<_> = members.map(|(key, value)| escape(format!("{} : {value}", json!(key)))).collect();
        format!("{{ {} }}", members.join(" , "))
    };
    format!("{{\"tools\":[{}]}}", tools.iter().map(tool).collect::<Vec<_>>().join(",\n").replace('\n', " "))
}

/// Case L3.
#[test]
fn suspicious_changes_are_withheld_and_all_others_are_reported() {
    let place = Place::new();
    let (first, then): (Vec<_>, Vec<_>) = changes().into_iter().map(|(_, first, then, _)| (first, then)).unzip();
    let [first, then] = [first, then].map(|tools| tools.into_iter().flatten().collect::<Vec<_>>());
    offer_tools(&place, "tools.json", &first);
    let daemon = Setup::with(listing("s", &place, "warn", "tools.json")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools().len(), first.len(), "everything is trusted at first");
    until("it is trusted", || pin_file(&place, "s").exists().then_some(()));
    let trusted = fs::read(pin_file(&place, "s")).expect("text");
    // Spelling is no change.
    place.replace("tools.json", escaped(&first));
    arguments(&agent.call("s__burst_list_changed", &json!({ "n": 1 })));
    agent.expect_notification(CHANGED);
    let all = agent.tools();
    assert!(all.len() == first.len() && daemon.row("s")["changes"].is_null(), "{all:?}");

    place.replace("tools.json", escaped(&then));
    arguments(&agent.call("s__burst_list_changed", &json!({ "n": 1 })));
    let expected: Vec<_> = changes().iter().filter(|change| change.3).map(|(name, ..)| format!("s__{name}")).collect();
    until("the changes are applied", || (agent.tools() == expected).then_some(()));
    let unknown = agent.call("s__unknown", &json!({}))["error"].to_string();
    for (name, ..) in changes().iter().filter(|change| !change.3) {
        let answer = agent.call(&format!("s__{name}"), &json!({}));
        assert_eq!(answer["error"].to_string().replace(name, "unknown"), unknown);
    }
    let report = daemon.wait_row("s", "reports them", |row| row["changes"]["withheld"] == 4)["changes"].clone();
    assert_eq!(
        (&report["rule"], &report["changed"], &report["new"]),
        (&json!("warn"), &json!(7), &json!(3)),
        "{report}"
    );
    assert!(report["since"].is_string() && report["file_problem"].is_null(), "{report}");
    assert_eq!(fs::read(pin_file(&place, "s")).expect("text"), trusted, "nothing more is trusted");
    agent.disconnect();
}

/// Case L3.
#[test]
fn new_tool_does_not_take_a_bare_name_that_another_server_exposes() {
    let place = Place::new();
    offer_tools(&place, "one.json", &[tool("read", GOOD)]);
    offer_tools(&place, "two.json", &[tool("burst_list_changed", GOOD)]);
    let servers = ["two", "one"].map(|name| listing(name, &place, "warn", &format!("{name}.json")));
    let setup = servers.into_iter().fold(Setup::new().head("[daemon]\nnaming = '{tool}'"), Setup::server);
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["burst_list_changed", "read"]);
    until("both are trusted", || ["one", "two"].iter().all(|name| pin_file(&place, name).exists()).then_some(()));
    offer_tools(&place, "two.json", &[tool("burst_list_changed", GOOD), tool("read", EVIL), tool("fresh", GOOD)]);
    arguments(&agent.call("burst_list_changed", &json!({ "n": 1 })));
    until("the other tool is there", || {
        let all = result(&agent.request("tools/list", &json!({}))).to_string();
        assert!(!all.contains("evil"), "{all}");
        all.contains("\"fresh\"").then_some(())
    });
    assert_eq!(agent.tools(), ["burst_list_changed", "fresh", "read"]);
    arguments(&agent.call("read", &json!({})));
    assert_eq!((daemon.count_journal("one", "\"read\""), daemon.count_journal("two", "\"read\"")), (1, 0));
    daemon.wait_row("two", "reports it", |row| row["changes"]["withheld"] == 1);
    agent.disconnect();
}

/// Case L3.
#[test]
fn followed_server_changes_as_it_likes() {
    let place = Place::new();
    offer(&place, GOOD);
    let daemon = Setup::with(server(&place, "follow")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    offer(&place, EVIL);
    announce(&mut agent, "s__");
    until("the new definition is listed", || {
        result(&agent.request("tools/list", &json!({}))).to_string().contains("evil").then_some(())
    });
    assert!(daemon.row("s")["changes"].is_null() && !pin_file(&place, "s").exists());
    agent.disconnect();
}
