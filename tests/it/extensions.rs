//! Methods of extensions reach the server that exposes the extension, and nothing else is declared.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reload::text;
use crate::support::{Agent, Daemon, Era, Place, Server, Setup, code, notification, plain, result};

/// The extensions that an agent of this era is sent.
pub(crate) fn declared(daemon: &Daemon, era: Era) -> Value {
    let answer = match era {
        Era::Legacy => Agent::connect(daemon).initialize("2025-11-25"),
        Era::Modern => Agent::modern(daemon, &json!({})).request("server/discover", &json!({})),
    };
    result(&answer)["capabilities"]["extensions"].clone()
}

fn extension(methods: &Value) -> Value {
    json!({
        "extensions": {"io.example/x": {"a": 1.5}},
        "prompts": [{"name": "greet"}],
        "resources": [{"uri": "s://one", "name": "one"}],
        "methods": methods,
    })
}

/// A server `s` of this era with the extension `io.example/x`, and these lines in its table.
fn start(era: Era, lines: &str) -> Daemon {
    let library = extension(&json!({"x/run": null, "io.example/x": null, "x/list": {"items": [1], "nextCursor": "c"}}));
    let server = era.server("s").library(&library).line(lines);
    Setup::with(server).server(Server::named("other")).start()
}

#[test]
fn method_of_an_extension_reaches_the_server_that_declares_it() {
    for era in Era::BOTH {
        let daemon = start(era, "");
        assert_eq!(declared(&daemon, era), json!({"io.example/x": {"a": 1.5}}), "{era:?}");
        let mut agent = era.agent(&daemon, &json!({}));
        for method in ["x/run", "io.example/x"] {
            let answer = agent.request(method, &json!({"k": [1.50, "é"], "_meta": {"progressToken": "t"}}));
            assert_eq!(result(&answer)["received"]["k"], json!([1.50, "é"]), "{method}");
            assert_ne!(result(&answer)["received"]["_meta"]["progressToken"], "t", "tokens are assigned by mcpd");
        }
        let listed = agent.request("x/list", &json!({}));
        assert_eq!(
            plain(result(&listed)),
            json!({"items": [1], "nextCursor": "c"}),
            "the list of one server is unchanged"
        );
        for unknown in ["y/run", "xx/run", "x", "no/such"] {
            assert_eq!(code(&agent.request(unknown, &json!({}))), -32601, "{unknown}");
        }
    }
}

#[test]
fn method_of_another_version_stays_unknown_in_a_face() {
    let daemon = start(Era::Modern, "");
    let mut face = Era::Modern.agent_at_face(&daemon, "s");
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/list"] {
        assert_eq!(code(&face.request(method, &json!({"uri": "s://one"}))), -32601, "{method}");
    }
    let mut face = Era::Legacy.agent_at_face(&daemon, "s");
    assert_eq!(code(&face.request("subscriptions/listen", &json!({"notifications": {}}))), -32601);
}

#[test]
fn extension_request_is_routed_by_its_name_and_renamed() {
    let library = extension(&json!({"x/run": null}));
    let [one, two] = ["one", "two"].map(|name| Server::named(name).library(&library));
    let daemon = Setup::with(one).server(two.line("expose = [\"tools\", \"prompts\", \"io.example/x\"]")).start();
    let mut agent = Agent::ready(&daemon);
    for (name, own) in [("two__echo", "echo"), ("two__greet", "greet")] {
        assert_eq!(result(&agent.request("x/run", &json!({"name": name})))["received"]["name"], own);
    }
    assert_eq!(result(&agent.request("x/run", &json!({"uri": "s://one"})))["received"]["uri"], "s://one");
    let journals = ["one", "two"].map(|name| daemon.journal(name).join("\n").matches("x/run").count());
    assert_eq!(journals, [1, 2]);
    let ambiguous = agent.request("x/run", &json!({}));
    let message = ambiguous["error"]["message"].as_str().expect("a message");
    assert_eq!(code(&ambiguous), -32602);
    assert!(message.starts_with("several servers have this method: one, two."), "{message}");
}

#[test]
fn lists_of_an_extension_are_merged() {
    let server =
        |name: &str, items: Value| Server::named(name).library(extension(&json!({"x/list": {"items": items, "a": 1}})));
    let broken = Server::named("broken").library(extension(&json!({"x/run": null})));
    let daemon = Setup::with(server("one", json!([{"n": 1.50}])))
        .server(broken)
        .server(server("two", json!([2])))
        .head("[profiles.p]\nmax_calls = 1")
        .start();
    let mut limited = Agent::ready_at(&daemon.profile_socket("p"));
    let mut agent = Agent::ready(&daemon);
    for agent in [&mut agent, &mut limited] {
        // It counts as one call.
        assert_eq!(result(&agent.request("x/list", &json!({}))), &json!({"items": [{"n": 1.50}, 2]}));
    }
    let id = agent.start_request("x/list", &json!({"cursor": "c"}));
    assert_eq!(code(&agent.answer(&id)), -32602, "the merged list has one page");
    assert_eq!(code(&agent.request("x/none/list", &json!({}))), -32601, "no server has it");
    agent.expect_quiet();
}

#[test]
fn extension_of_the_other_era_is_neither_declared_nor_routed() {
    for era in Era::BOTH {
        let other = if era == Era::Legacy { Era::Modern } else { Era::Legacy };
        let daemon = start(era, "");
        assert_eq!(declared(&daemon, other), Value::Null, "{era:?}");
        let mut agent = other.agent(&daemon, &json!({}));
        assert_eq!(code(&agent.request("x/run", &json!({}))), -32601);
        assert!(!daemon.journal("s").iter().any(|line| line.contains("x/run")));
    }
}

#[test]
fn extension_that_expose_does_not_name_is_hidden_where_there_are_rules() {
    for (rules, is_exposed) in [
        ("deny = [\"sleep\"]", false),
        ("expose = [\"tools\"]", false),
        ("tools.read_only = true", false),
        ("allow = [\"*\"]\nexpose = [\"tools\", \"skills\"]", false),
        ("deny = [\"sleep\"]\nexpose = [\"tools\", \"io.example/x\"]", true),
    ] {
        let daemon = start(Era::Legacy, rules);
        assert_eq!(declared(&daemon, Era::Legacy).is_null(), !is_exposed, "{rules}");
        for (mut agent, name) in
            [(Agent::ready(&daemon), "s__sleep"), (Era::Legacy.agent_at_face(&daemon, "s"), "sleep")]
        {
            let answer = agent.request("x/run", &json!({}));
            if is_exposed {
                result(&answer);
            } else {
                assert_eq!(code(&answer), -32601, "{rules}")
            }
            for named in [json!({"name": name}), json!({"name": "sleep"}), json!({"uri": "s://one"})] {
                let answer = agent.request("x/run", &named);
                assert!(!answer["error"].is_null(), "{rules}: {named} is hidden: {answer}");
            }
        }
        let seen = daemon.count_journal("s", "x/run");
        assert_eq!(seen, if is_exposed { 2 } else { 0 }, "{rules}");
    }
}

#[test]
fn name_that_policy_would_hide_is_refused_before_it_is_listed() {
    for (rules, name, is_sent) in [
        ("deny = [\"delete_*\"]\nexpose = [\"tools\", \"io.example/x\"]", "delete_all", false),
        ("deny = [\"delete_*\"]\nexpose = [\"tools\", \"io.example/x\"]", "s__delete_all", false),
        ("deny = [\"delete_*\"]\nexpose = [\"tools\", \"io.example/x\"]", "something else", true),
        ("deny = [\"delete_*\"]\nexpose = [\"tools\", \"io.example/x\"]", "echo", true),
        ("allow = [\"echo\"]\nexpose = [\"tools\", \"io.example/x\"]", "delete_all", false),
        ("allow = [\"echo\"]\nexpose = [\"tools\", \"io.example/x\"]", "echo", true),
        ("prompts.deny = [\"secret_*\"]\nexpose = [\"tools\", \"prompts\", \"io.example/x\"]", "secret_1", false),
        ("", "delete_all", true),
    ] {
        let daemon = start(Era::Legacy, rules);
        let mut agent = Agent::ready(&daemon);
        let answers = [
            agent.request("x/run", &json!({"name": name})),
            agent.request("x/run", &json!({"name": name, "uri": "y://unlisted"})),
            agent.request("x/list", &json!({"name": name})),
        ];
        for (answer, uri_is_hidden) in answers.iter().zip([false, rules.contains("expose"), false]) {
            assert_eq!(answer["error"].is_null(), is_sent && !uri_is_hidden, "{rules} {name}: {answer}");
        }
        assert_eq!(daemon.journal("s").iter().any(|line| line.contains("x/run")), is_sent, "{rules} {name}");
    }
}

#[test]
fn profile_with_rules_hides_extensions_that_it_does_not_name() {
    let server = Server::named("s").library(extension(&json!({"x/run": null})));
    let head = "[profiles.narrow]\ndeny = [\"s/sleep\"]\n[profiles.named]\nexpose = [\"io.example/x\"]";
    let daemon = Setup::new().head(head).server(server).start();
    let at = |profile: &str| Agent::ready_at(&daemon.place().runtime_dir().join(format!("{profile}.sock")));
    assert_eq!(code(&at("narrow").request("x/run", &json!({}))), -32601);
    result(&at("named").request("x/run", &json!({})));
}

#[test]
fn face_without_rules_forwards_every_unknown_method() {
    let daemon = start(Era::Legacy, "");
    let answer = Era::Legacy.agent_at_face(&daemon, "s").request("vendor/method", &json!({"a": 1}));
    assert_eq!(answer["error"]["message"], "Method not found", "the server's own answer: {answer}");
    assert!(daemon.journal("s").iter().any(|line| line.contains("vendor/method")));
    assert_eq!(code(&Agent::ready(&daemon).request("vendor/other", &json!({}))), -32601);
    assert!(!daemon.journal("s").iter().any(|line| line.contains("vendor/other")));
}

/// Case H15.
#[test]
fn method_of_mcp_is_forwarded_neither_as_a_notification_nor_as_a_request() {
    let daemon = start(Era::Legacy, "");
    let (mut face, mut agent) = (Era::Legacy.agent_at_face(&daemon, "s"), Agent::ready(&daemon));
    let notifications = [
        ("tools/call", json!({"name": "echo", "arguments": {}, "n": "stray"})),
        ("tools/call", json!({"name": "s__echo", "n": "stray"})),
        ("resources/unsubscribe", json!({"uri": "s://one", "n": "stray"})),
        ("tasks/cancel", json!({"taskId": "stray"})),
        ("initialize", json!({"n": "stray"})),
        ("x/run", json!({"name": "s__echo", "n": "stray"})),
        ("vendor/run", json!({"n": "stray"})),
        ("notifications/mcpd/server", json!({"server": "stray"})),
        ("notifications/message", json!({"data": "stray"})),
    ];
    for (method, params) in &notifications {
        for to in [&mut face, &mut agent] {
            to.notify(method, params);
        }
    }
    for method in ["sampling/createMessage", "roots/list", "notifications/cancelled", "notifications/x/seen"] {
        for to in [&mut face, &mut agent] {
            let answer = to.request(method, &json!({"requestId": 1, "n": "stray"}));
            match method.starts_with("notifications/") {
                // A notification with an id.
                true => assert_eq!(result(&answer), &json!({}), "{method}"),
                false => assert_eq!(code(&answer), -32601, "{method}"),
            }
        }
    }
    result(&face.call("echo", &json!({})));
    result(&agent.call("s__echo", &json!({})));
    let journal = daemon.journal("s");
    assert!(!journal.iter().any(|line| line.contains("stray")), "{journal:?}");
}

/// Case H13.
#[test]
fn extension_hidden_while_its_request_is_parked_is_not_called() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let library = extension(&json!({"x/run": null}));
    let server = |lines: &str| {
        let server = Server::named("s").library(&library).flags("--exit-unless").arg(&gate);
        server.line("start = \"lazy\"\nidle_timeout = \"1s\"").line(lines)
    };
    let setup = || Setup::new().config(place.path("changing.toml"));
    place.write("changing.toml", text(&[server("")], &place));
    let mut first = setup().start_in(&place);
    first.wait_row("s", "has listed and is idle", |row| row["state"] == "idle");
    first.term();
    drop(first);
    fs::remove_file(&gate).expect("it is there");
    let mut daemon = setup().start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let parked = agent.start_request("x/run", &json!({}));
    daemon.wait_row("s", "has parked the request", |row| row["calls"] == 1);
    place.write("changing.toml", text(&[server("deny = [\"sleep\"]")], &place));
    daemon.signal(Signal::HUP);
    let unknown = agent.answer(&parked);
    fs::write(&gate, "").expect("the test's own");
    assert_eq!(code(&unknown), -32601, "{unknown}");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("x/run")));
}

#[test]
fn cancelled_merged_list_cancels_the_calls_of_all_servers() {
    let library = extension(&json!({"x/list": {"items": []}}));
    let servers = ["one", "two"].map(|name| Server::named(name).library(&library).flags("--one-at-a-time"));
    let [one, two] = servers;
    let daemon = Setup::with(one).server(two).start();
    let mut agent = Agent::ready(&daemon);
    let sleeping = ["one__sleep", "two__sleep"].map(|tool| agent.start_call(tool, &json!({"ms": 1000})));
    let list = agent.start_request("x/list", &json!({}));
    agent.cancel(&list);
    sleeping.iter().for_each(|id| drop(agent.answer(id)));
    agent.expect_quiet();
}

/// The notification `method` of a server as the tool `raw` writes it.
fn raw(agent: &mut Agent, tool: &str, method: &str, params: &Value) {
    let text = format!("{}\n", notification(method, params)).replace("\"$ID\"", "$ID");
    let call = json!({"name": tool, "arguments": {"text": text}, "_meta": {"progressToken": "own"}});
    result(&agent.request("tools/call", &call));
}

#[test]
fn notification_of_an_extension_reaches_the_agents_that_see_the_extension() {
    let server = Server::named("s").library(extension(&json!({})));
    let head = "[profiles.narrow]\ndeny = [\"s/sleep\"]";
    let daemon = Setup::new().head(head).server(server).start();
    let (mut one, mut two) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let mut face = Era::Legacy.agent_at_face(&daemon, "s");
    let mut narrow = Agent::ready_at(&daemon.profile_socket("narrow"));
    [&mut one, &mut two, &mut face, &mut narrow].into_iter().for_each(Agent::expect_quiet);
    raw(&mut one, "s__raw", "notifications/x/changed", &json!({"n": 1.50}));
    for agent in [&mut one, &mut two, &mut face] {
        let message = agent.next();
        assert_eq!((&message["method"], &message["params"]), (&json!("notifications/x/changed"), &json!({"n": 1.50})));
    }
    raw(&mut one, "s__raw", "notifications/y/changed", &json!({}));
    assert_eq!(face.next()["method"], "notifications/y/changed", "a face without rules gets everything");
    [&mut one, &mut two, &mut face, &mut narrow].into_iter().for_each(Agent::expect_quiet);
}

#[test]
fn notification_that_names_a_call_reaches_the_agent_of_the_call_only() {
    let daemon = start(Era::Legacy, "");
    let (mut caller, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    other.expect_quiet();
    raw(&mut caller, "s__raw", "notifications/x/step", &json!({"progressToken": "$ID", "k": 1}));
    let message = caller.next();
    assert_eq!(message["params"], json!({"progressToken": "own", "k": 1}), "the token is the agent's: {message}");
    other.expect_quiet();
}

/// Case H16.
#[test]
fn notification_that_names_no_unanswered_call_is_dropped() {
    let daemon = start(Era::Legacy, "");
    let (mut caller, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    [&mut caller, &mut other].into_iter().for_each(Agent::expect_quiet);
    for params in [
        json!({"requestId": 424_242}),
        json!({"progressToken": "late"}),
        json!({"_meta": {"progressToken": 424_242}}),
        json!({"progressToken": "$ID", "requestId": 424_242}),
    ] {
        raw(&mut caller, "s__raw", "notifications/x/step", &params);
    }
    [&mut caller, &mut other].into_iter().for_each(Agent::expect_quiet);
}

/// Case H16.
#[test]
fn notification_of_an_agent_names_its_own_calls_only() {
    let daemon = start(Era::Legacy, "");
    let (mut caller, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let call = json!({"name": "s__sleep", "arguments": {"ms": 600_000}, "_meta": {"progressToken": "own"}});
    let call = caller.start_request("tools/call", &call);
    let received = daemon.wait_journal("s", r#""name":"sleep""#);
    let received: Value = serde_json::from_str(&received[received.find('{').expect("JSON")..]).expect("JSON");
    let id = &received["id"];
    let step = |params: Value| notification("notifications/x/step", &params);
    other.send(&step(json!({"requestId": id, "n": "other"})));
    other.send(&step(json!({"progressToken": id, "n": "other"})));
    other.send(&step(json!({"progressToken": "own", "n": "other"})));
    caller.send(&step(json!({"requestId": call, "_meta": {"progressToken": "own"}, "n": "caller"})));
    caller.send(&step(json!({"requestId": 424_242, "n": "late"})));
    for agent in [&mut caller, &mut other] {
        result(&agent.call("s__echo", &json!({})));
    }
    let journal = daemon.journal("s");
    let seen: Vec<Value> = journal
        .iter()
        .filter(|line| line.contains("x/step"))
        .map(|line| serde_json::from_str(&line[line.find('{').expect("JSON")..]).expect("JSON"))
        .collect();
    let expected = step(json!({"requestId": id, "_meta": {"progressToken": id}, "n": "caller"}));
    assert_eq!(seen, [expected], "{journal:?}");
    caller.cancel(&call);
}

#[test]
fn notification_of_an_agent_reaches_the_server_with_the_extension() {
    for (era, rules, arrives) in
        [(Era::Legacy, "", true), (Era::Modern, "", true), (Era::Legacy, "deny = [\"sleep\"]", false)]
    {
        let daemon = start(era, rules);
        let mut agent = era.agent(&daemon, &json!({}));
        result(&agent.call("s__echo", &json!({})));
        for method in ["notifications/x/seen", "notifications/y/seen", "notifications/tools/list_changed"] {
            agent.notify(method, &json!({"name": "s__echo", "n": 1.5}));
        }
        result(&agent.call("s__echo", &json!({})));
        let journal = daemon.journal("s");
        let seen: Vec<_> =
            journal.iter().filter(|line| line.contains("/seen") || line.contains("list_changed")).collect();
        let has_it = seen.iter().any(|line| line.contains("notifications/x/seen") && line.contains(r#""name":"echo""#));
        assert_eq!(has_it, arrives, "{era:?} {rules}: {seen:?}");
        assert!(!seen.iter().any(|line| line.contains("list_changed")), "{seen:?}");
    }
}

#[test]
fn request_of_a_server_for_an_extension_reaches_the_agent_that_has_declared_it() {
    let declared = json!({"extensions": {"io.example/x": {}}});
    for (rules, capabilities, is_forwarded) in [
        ("sharing = \"session\"", declared.clone(), true),
        ("sharing = \"session\"", json!({}), false),
        ("sharing = \"session\"\nallow = [\"*\"]", declared.clone(), false),
        ("", declared.clone(), false),
    ] {
        let daemon = start(Era::Legacy, rules);
        let mut agent = Agent::with_capabilities(&daemon, &capabilities);
        let call = agent.start_call("s__send_request", &json!({"method": "x/ask", "params": {"n": 1.50}}));
        if is_forwarded {
            let request = agent.next();
            assert_eq!((&request["method"], &request["params"]), (&json!("x/ask"), &json!({"n": 1.50})));
            agent.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"k": 1}}));
        }
        let answer = agent.answer(&call);
        let answered = &result(&answer)["structuredContent"];
        assert_eq!(answered["result"]["k"] == 1, is_forwarded, "{rules} {capabilities}: {answered}");
        assert_eq!(answered["error"]["code"] == -32601, !is_forwarded, "{rules} {capabilities}: {answered}");
    }
}

#[test]
fn request_that_names_a_denied_resource_is_not_sent_to_its_server() {
    let library = extension(&json!({"x/list": {"items": [1]}}));
    let servers = ["one", "two", "three"].map(|name| Server::named(name).library(&library));
    let [one, two, three] = servers;
    let rules = "resources.deny = [\"s://hidden\"]\nexpose = [\"tools\", \"resources\", \"io.example/x\"]";
    let daemon = Setup::with(one).server(two.line(rules)).server(three).start();
    let listed = Agent::ready(&daemon).request("x/list", &json!({"uri": "s://hidden"}));
    assert_eq!(result(&listed), &json!({"items": [1, 1]}));
    assert!(!daemon.journal("two").iter().any(|line| line.contains("x/list")));
}

#[test]
fn input_that_one_of_several_servers_requires_is_its_failure() {
    let mut library = extension(&json!({"x/list": {"items": [1]}}));
    let plain_one = Era::Modern.server("one").library(&library);
    let input = json!({"method": "roots/list", "params": {}});
    library["rounds"] = json!({"s://some": [{"inputs": {"q": input}, "state": "s"}]});
    let asking = Era::Modern.server("two").library(&library);
    let daemon = Setup::with(plain_one).server(asking).start();
    let mut agent = Agent::modern(&daemon, &json!({"roots": {}}));
    let listed = agent.request("x/list", &json!({"uri": "s://some"}));
    assert_eq!(plain(result(&listed)), json!({"items": [1]}), "the other server is left out");
}

/// Case H17.
#[test]
fn method_of_different_extensions_is_unknown() {
    let place = Place::new();
    let server = |name: &str, ids: &[&str]| {
        let mut library = extension(&json!({"x/run": null, "a.example/x/run": null}));
        library["extensions"] =
            ids.iter().map(|id| ((*id).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>().into();
        Server::named(name).library(&library)
    };
    let daemon = Setup::with(server("one", &["a.example/x"])).server(server("two", &["b.example/x"])).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(code(&agent.request("x/run", &json!({}))), -32601);
    result(&agent.request("a.example/x/run", &json!({})));
    drop((agent, daemon));
    let both = server("one", &["a.example/x", "b.example/x"]).line("expose = [\"b.example/x\"]");
    let daemon = Setup::with(both).start_in(&place);
    assert_eq!(code(&Agent::ready(&daemon).request("x/run", &json!({}))), -32601, "it may be of the hidden one");
}
