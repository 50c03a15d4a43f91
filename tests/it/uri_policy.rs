//! Denied URIs cannot be used in any spelling, by any method of either era. Other URIs pass unchanged.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, notification, request, result};

/// Templates that any spelling of a `file:` or `note:` URI matches, so that only policy can refuse it.
const LIBRARY: &str = r#"{
    "resources": [{"uri": "mem:a", "name": "a"}, {"uri": "memo://X", "name": "b"}, {"uri": "memo://y/a%2Fb?c#d", "name": "c"}],
    "resourceTemplates": [
        {"uriTemplate": "file:{+rest}", "name": "d"}, {"uriTemplate": "FILE:{+rest}", "name": "e"},
        {"uriTemplate": "note://{+rest}", "name": "f"}, {"uriTemplate": "note://internal/{id}", "name": "g"},
        {"uriTemplate": "NOTE:{+rest}", "name": "h"}
    ],
    "prompts": [{"name": "ask"}],
    "completions": true
}"#;

const RULES: &str = r#"resources = { deny = ["file:///secret/*", "note://internal/plans/*"] }"#;

/// Spellings of URIs that those rules deny.
const DENIED: &[&str] = &[
    "file:///secret/key",
    // The four bypasses that were found in 0.1.0.
    "file:////secret/key",
    "file:///pub%3f/../secret/key",
    "file:///pub%23/../secret/key",
    "file:///pub\\..\\secret\\key",
    "file:///sec\tret/key",
    // Scheme and host.
    "FILE:///secret/key",
    "file:/secret/key",
    "file:secret/key",
    "file://localhost/secret/key",
    "file://LOCALHOST/secret/key",
    "file://secret/key",
    "file://elsewhere/secret/key",
    "file:\\\\\\secret\\key",
    // Slashes, dot segments and escapes, in either order.
    "file:///secret//key",
    "file://///secret/key",
    "file:///./secret/key",
    "file:///../secret/key",
    "file:///pub//../secret/key",
    "file:///pub/%2e%2E/secret/key",
    "file:///pub%2f..%2fsecret/key",
    "file:///a%2fb/../secret/key",
    "file:///a%5cb/../secret/key",
    "file:///pub/..%5csecret/key",
    "file:///%73ecret/key",
    "file:///%2573ecret/key",
    "file:///%252e%252e/%2573ecret/key",
    "file:///%25252e%25252e/secret%25252fkey",
    "file:///secret/key/x/..",
    // Delimiters and parameters.
    "file:///secret/key?x",
    "file:///secret/key#x",
    "file:///pub?/../secret/key",
    "file:///pub#/../secret/key",
    "file:///pub/..;x/secret/key",
    // What some parsers remove, and what has no agreed meaning.
    "file:///sec\nret/key",
    "file:///sec\rret/key",
    "file:///sec%09ret/key",
    "file:///sec%0aret/key",
    "file:///secret%00/key",
    "file:/\t//secret/key",
    "file:///sec\u{1}ret/key",
    "file:///%u0073ecret/key",
    "file:///pub%c0%af..%c0%afsecret/key",
    // A scheme of the server's own.
    "note://internal/plans/x",
    "NOTE://internal/plans/x",
    "note://INTERNAL/plans/x",
    "note://internal//plans/x",
    "note://internal/a/../plans/x",
    "note://internal/%70lans/x",
    "note://internal%2fplans/x",
    "note:\\\\internal\\plans\\x",
];

/// URIs that nothing denies.
const PERMITTED: &[&str] = &[
    "mem:a",
    "memo://X",
    "memo://y/a%2Fb?c#d",
    "file:///pub/key",
    "FILE:///pub/key",
    "file://localhost/pub/key",
    "file:///pub/secret/key",
    "file:///secrets/key",
    "file:///Secret/key",
    "file:///pub/caf%C3%A9%20%232%3F.txt",
    "file:///pub/100%25.txt",
    "file:///pub/a..b/...",
    "note://internal/plan",
    "note://internal/x?plans/x",
    "note://plans/x",
];

fn server(line: &str) -> Server {
    // The scripted server needs each list on one line.
    let library: Value = serde_json::from_str(LIBRARY).expect("JSON");
    Server::named("s").flags("--bare --tool raw").library(library).line(line)
}

fn start(line: &str) -> Daemon {
    server(line).start()
}

/// Each method that takes a URI, with its params.
fn requests(uri: &str) -> [(&'static str, Value); 5] {
    [
        ("resources/read", json!({ "uri": uri })),
        ("resources/subscribe", json!({ "uri": uri })),
        ("resources/unsubscribe", json!({ "uri": uri })),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "x", "value": ""}}),
        ),
        // Beside the name of a prompt that is permitted.
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "s__ask", "uri": uri}, "argument": {"name": "x", "value": ""}}),
        ),
    ]
}

/// The raw answer to a request about `uri`, with a fixed word in the place of the URI.
fn answer_to(agent: &mut Agent, method: &str, params: &Value, uri: &str) -> String {
    let params = agent.with_meta(params);
    agent.send_raw(format!("{}\n", request("x", method, &params)));
    agent.next_line().expect("an answer").replace(&Value::from(uri).to_string(), "\"URI\"")
}

/// Sends every request about every denied spelling, and expects the answer that a nonexistent URI gets.
fn expect_denied(daemon: &Daemon, agent: &mut Agent, uris: &[&str]) {
    let nonexistent = "never://was";
    let expected = requests(nonexistent).map(|(method, params)| answer_to(agent, method, &params, nonexistent));
    assert!(expected[0].contains("-32002") || expected[0].contains("-32602"), "{}", expected[0]);
    for uri in uris {
        for ((method, params), expected) in requests(uri).into_iter().zip(&expected) {
            assert_eq!(answer_to(agent, method, &params, uri), *expected, "{method} {uri:?}");
        }
    }
    let journal = daemon.journal("s");
    let received = journal.iter().find(|line| requests("").iter().any(|(method, _)| line.contains(method)));
    assert_eq!(received, None);
}

/// Case H2.
#[test]
fn denied_uri_in_any_spelling_is_answered_like_a_nonexistent_one() {
    let daemon = start(RULES);
    expect_denied(&daemon, &mut Agent::ready(&daemon), DENIED);
    expect_denied(&daemon, &mut Agent::modern(&daemon, &json!({})), DENIED);
    let mut listener = Agent::modern(&daemon, &json!({}));
    let (_, granted) = listener.listen(&json!({ "resourceSubscriptions": DENIED }));
    assert!(granted["resourceSubscriptions"].as_array().is_none_or(Vec::is_empty), "{granted}");
    listener.disconnect();
    let journal = daemon.journal("s");
    assert!(!journal.iter().any(|line| line.contains("resources/subscribe")), "{journal:?}");
}

/// Case H2.
#[test]
fn denied_uri_in_any_spelling_cannot_be_used_on_the_socket_of_a_profile() {
    let place = Place::new();
    let head = "[profiles.narrow]\nresources.deny = ['s/file:///secret/*', '*/note://internal/plans/*']";
    let daemon = Setup::with(server("")).head(head).start_in(&place);
    let mut narrow = Agent::ready_at(&place.runtime_dir().join("narrow.sock"));
    expect_denied(&daemon, &mut narrow, DENIED);
    for uri in PERMITTED {
        assert_eq!(result(&narrow.request("resources/read", &json!({ "uri": uri })))["received"]["uri"], *uri);
    }
    let mut whole = Agent::ready(&daemon);
    assert_eq!(result(&whole.request("resources/read", &json!({ "uri": DENIED[1] })))["received"]["uri"], DENIED[1]);
}

/// Case H2.
#[test]
fn uri_with_a_reading_that_is_not_allowed_is_answered_like_a_nonexistent_one() {
    let templates = r"'file:\{+rest\}', 'FILE:\{+rest\}'";
    let daemon = start(&format!("resources = {{ allow = ['mem*', 'file:///pub/*', {templates}] }}"));
    let mut agent = Agent::ready(&daemon);
    let refused = [
        "file:///pub/../etc/key",
        "file:///pub/%2e%2e/etc/key",
        "file:///pub/x%3f/../../etc/key",
        "file:///pub/x?/../../etc/key",
        "file:///pub\\..\\etc\\key",
        "file:///pub%2f..%2fetc/key",
        "file:///p\tub/key",
        "file:///pub/%00",
        "file:///pub/%ff",
        "file://elsewhere/pub/key",
    ];
    expect_denied(&daemon, &mut agent, &refused);
    for uri in
        ["mem:a", "memo://X", "file:///pub/a", "FILE:///pub/a", "file://localhost/pub/a", "file:///pub/a//b/../%41"]
    {
        assert_eq!(result(&agent.request("resources/read", &json!({ "uri": uri })))["received"]["uri"], uri);
    }
}

#[test]
fn permitted_uri_reaches_its_server_as_it_was_sent() {
    let daemon = start(RULES);
    let mut agent = Agent::ready(&daemon);
    for uri in PERMITTED {
        for (method, params) in requests(uri).into_iter().take(4) {
            let answer = agent.request(method, &params);
            assert_eq!(result(&answer)["received"], params, "{method} {uri}");
        }
    }
    let list = agent.request("resources/list", &json!({}));
    assert_eq!(result(&list)["resources"].as_array().map(Vec::len), Some(3));
    let list = agent.request("resources/templates/list", &json!({}));
    assert_eq!(result(&list)["resourceTemplates"].as_array().map(Vec::len), Some(5));
    let template = json!({"ref": {"type": "ref/resource", "uri": "note://internal/{id}"}, "argument": {}});
    result(&agent.request("completion/complete", &template));
}

#[test]
fn pattern_in_another_spelling_denies_the_same_uris() {
    let daemon = start(
        r#"resources = { deny = ["FILE://LocalHost//%73ecret/./*", "NOTE://Internal/%2570lans/*", "note://internal/plans/*"] }"#,
    );
    expect_denied(&daemon, &mut Agent::ready(&daemon), DENIED);
    let mut agent = Agent::ready(&daemon);
    for uri in PERMITTED {
        assert_eq!(result(&agent.request("resources/read", &json!({ "uri": uri })))["received"]["uri"], *uri);
    }
}

#[test]
fn resource_and_template_that_a_server_lists_in_another_spelling_are_hidden() {
    let place = Place::new();
    let library = json!({
        "resources": [
            {"uri": "file:////secret/key", "name": "a"},
            {"uri": "FILE:///secret/key", "name": "b"},
            {"uri": "file:///pub/../secret/key", "name": "c"},
            {"uri": "file:///pub/key", "name": "d"},
        ],
        "resourceTemplates": [
            {"uriTemplate": "file:///secret//{name}", "name": "e"},
            {"uriTemplate": "file:///pub/../secret/{+rest}", "name": "f"},
            {"uriTemplate": "file:///pub/{name}{?version}", "name": "g"},
        ],
    });
    let file = place.write("listed.json", library.to_string());
    let server = Server::named("s").flags("--bare --library").arg(file).line(RULES);
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let list = agent.request("resources/list", &json!({}));
    assert_eq!(result(&list)["resources"], json!([{"uri": "file:///pub/key", "name": "d"}]));
    let list = agent.request("resources/templates/list", &json!({}));
    let template = json!([{"uriTemplate": "file:///pub/{name}{?version}", "name": "g"}]);
    assert_eq!(result(&list)["resourceTemplates"], template);
    for uri in ["file:////secret/key", "FILE:///secret/key", "file:///pub/../secret/key", "file:///secret//a"] {
        assert_eq!(code(&agent.request("resources/read", &json!({ "uri": uri }))), -32002, "{uri}");
    }
    let row = daemon.row("s");
    assert_eq!((&row["resources_exposed"], &row["resources_denied"]), (&json!(2), &json!(5)));
}

#[test]
fn change_of_a_denied_uri_in_another_spelling_is_not_reported() {
    let daemon = start(RULES);
    let mut agent = Agent::ready(&daemon);
    result(&agent.request("resources/subscribe", &json!({"uri": "file:///pub"})));
    let method = "notifications/resources/updated";
    let updated = |uri: &str| format!("{}\n", notification(method, &json!({"uri": uri})));
    let text: String =
        ["file:///pub/..//secret/key", "file:///pub/..\\secret\\key", "file:///pub/a"].map(updated).concat();
    arguments(&agent.call("s__raw", &json!({ "text": text })));
    assert_eq!(agent.expect_notification(method)["params"]["uri"], "file:///pub/a");
    agent.expect_quiet();
}
