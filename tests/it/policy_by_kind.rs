//! Tools, prompts and resources have separate rules. Hidden ones are answered like nonexistent ones, and no server sees the request.

use std::fs;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, code, request, result, until};

const LIBRARY: &str = r#"{
    "prompts": [{"name": "greet"}, {"name": "secret_plan"}],
    "resources": [{"uri": "x://open", "name": "a"}, {"uri": "x://key", "name": "b"}],
    "resourceTemplates": [{"uriTemplate": "x://{id}", "name": "c"}, {"uriTemplate": "f:///{+path}", "name": "d"}],
    "completions": true
}"#;

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

fn library(lines: &[&str]) -> Server {
    let server = Server::named("s").flags("--bare --tool echo").library(LIBRARY);
    lines.iter().fold(server, |server, line| server.line(*line))
}

fn start(lines: &[&str]) -> Daemon {
    library(lines).start()
}

/// Names or URIs of each of the four lists.
fn list_all(agent: &mut Agent) -> [Vec<String>; 4] {
    LISTS.map(|(method, member, key)| {
        let list = result(&agent.request(method, &json!({})))[member].clone();
        list.as_array().expect("a list").iter().map(|item| item[key].as_str().expect("text").to_owned()).collect()
    })
}

/// The raw answer to a request whose params are these.
fn answer_to(agent: &mut Agent, method: &str, params: &Value) -> String {
    agent.send_raw(format!("{}\n", request("x", method, params)));
    agent.next_line().expect("an answer")
}

fn expect_never_requested(daemon: &Daemon, about: &str) {
    let received: Vec<_> = daemon.journal("s").into_iter().filter(|line| line.contains(about)).collect();
    assert!(received.is_empty(), "{received:?}");
}

#[test]
fn kind_that_is_not_exposed_is_neither_listed_nor_callable() {
    let daemon = start(&[r#"expose = ["tools"]"#]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_all(&mut agent), [vec!["s__echo".to_owned()], vec![], vec![], vec![]]);
    for (method, params) in [
        ("prompts/get", json!({"name": "s__greet"})),
        ("resources/read", json!({"uri": "x://open"})),
        ("resources/read", json!({"uri": "x://other"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "s__greet"}, "argument": {}})),
        ("completion/complete", json!({"ref": {"type": "ref/resource", "uri": "x://{id}"}, "argument": {}})),
    ] {
        let expected = if params.to_string().contains("x://") { -32002 } else { -32602 };
        assert_eq!(code(&agent.request(method, &params)), expected, "{method} {params}");
    }
    for never in ["prompts/get", "resources/read", "completion/complete"] {
        expect_never_requested(&daemon, never);
    }
    let row = daemon.row("s");
    assert_eq!(
        (&row["tools_exposed"], &row["prompts_denied"], &row["resources_denied"]),
        (&json!(1), &json!(2), &json!(4))
    );
    let without_tools = start(&[r#"expose = ["prompts", "resources"]"#]);
    let mut agent = Agent::ready(&without_tools);
    assert!(agent.tools().is_empty());
    assert_eq!(code(&agent.call("s__echo", &json!({}))), -32602);
    result(&agent.request("prompts/get", &json!({"name": "s__greet"})));
}

#[test]
fn denied_prompt_answers_byte_for_byte_like_an_unknown_one() {
    let daemon = start(&[r#"prompts = { deny = ["secret*"] }"#]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_all(&mut agent)[1], ["s__greet"]);
    for (method, params) in [
        ("prompts/get", json!({"name": "s__NAME"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "s__NAME"}, "argument": {}})),
    ] {
        let mut ask = |name: &str| {
            let params = serde_json::from_str(&params.to_string().replace("NAME", name)).expect("JSON");
            answer_to(&mut agent, method, &params).replace(name, "NAME")
        };
        let denied = ask("secret_plan");
        assert_eq!(denied, ask("never_was"));
        assert!(denied.contains("-32602") && !denied.contains("data"), "{denied}");
    }
    expect_never_requested(&daemon, "secret_plan");
}

#[test]
fn denied_uri_is_not_readable_by_template_or_other_spelling() {
    let daemon = start(&[r#"resources = { deny = ["x://key", "f:///etc*"] }"#]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(
        list_all(&mut agent)[2..],
        [vec!["x://open".to_owned()], vec!["x://{id}".to_owned(), "f:///{+path}".to_owned()]]
    );
    let denied = ["x://key", "x://%6bey", "f:///etc/passwd", "f:///home/../etc/passwd", "f:///%2e%2e/etc/passwd"];
    for uri in denied {
        for (method, params) in [
            ("resources/read", json!({"uri": "URI"})),
            ("completion/complete", json!({"ref": {"type": "ref/resource", "uri": "URI"}, "argument": {}})),
        ] {
            let mut ask = |uri: &str| {
                let params = serde_json::from_str(&params.to_string().replace("URI", uri)).expect("JSON");
                answer_to(&mut agent, method, &params).replace(uri, "URI")
            };
            let answer = ask(uri);
            assert_eq!(answer, ask("never://was"), "{method} {uri}");
            assert!(answer.contains("-32002"), "{answer}");
        }
    }
    for uri in denied {
        expect_never_requested(&daemon, uri);
    }
    for uri in ["x://open", "x://other", "f:///home/etc"] {
        assert_eq!(result(&agent.request("resources/read", &json!({"uri": uri})))["received"]["uri"], uri);
    }
}

#[test]
fn allow_narrows_prompts_and_resources_as_it_does_tools() {
    let daemon = start(&[
        r#"prompts = { allow = ["g*"] }"#,
        r#"resources = { allow = ["x://o*", "f:*"], deny = ["*secret*"] }"#,
    ]);
    let mut agent = Agent::ready(&daemon);
    let [_, prompts, resources, templates] = list_all(&mut agent);
    assert_eq!((prompts, resources), (vec!["s__greet".to_owned()], vec!["x://open".to_owned()]));
    assert_eq!(templates, ["f:///{+path}"], "a template is matched as it is spelled");
    for (uri, readable) in [("f:///a", true), ("f:///secret", false), ("x://other", false)] {
        let answer = agent.request("resources/read", &json!({"uri": uri}));
        assert_eq!(answer["error"].is_null(), readable, "{uri}: {answer}");
    }
}

#[test]
fn read_only_server_hides_tools_without_the_read_only_hint() {
    let tool = |name: &str, rest: &str| format!(r#"{{"name":"{name}","inputSchema":{{}}{rest}}}"#);
    let tools = [
        tool("reads", r#","annotations":{"title":"x","readOnlyHint":true}"#),
        tool("writes", r#","annotations":{"readOnlyHint":false}"#),
        tool("silent", ""),
        tool("odd", r#","annotations":{"readOnlyHint":"true"}"#),
        tool("two_faced", r#","annotations":{"readOnlyHint":true,"readOnlyHint":false}"#),
        tool("denied", r#","annotations":{"readOnlyHint":true}"#),
    ];
    let place = Place::new();
    let list = place.write("tools.json", format!(r#"{{"tools":[{}]}}"#, tools.join(",")));
    let server = Server::named("s").flags("--bare --tool-list").arg(list);
    let server = server.line(r#"deny = ["denied"]"#).line("[servers.s.tools]\nread_only = true");
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__reads"]);
    for hidden in ["writes", "silent", "odd", "two_faced", "denied"] {
        assert_eq!(code(&agent.call(&format!("s__{hidden}"), &json!({}))), -32602, "{hidden}");
    }
    expect_never_requested(&daemon, "tools/call");
    assert_eq!(daemon.row("s")["tools_denied"], 5);
}

#[test]
fn tool_that_is_listed_twice_is_hidden_if_either_definition_is_denied() {
    let tool = |name: &str, reads: bool| {
        format!(r#"{{"name":"{name}","inputSchema":{{}},"annotations":{{"readOnlyHint":{reads}}}}}"#)
    };
    let tools = [
        tool("denied_last", true),
        tool("denied_first", false),
        tool("reads", true),
        tool("reads", true),
        tool("denied_first", true),
        tool("denied_last", false),
    ];
    let place = Place::new();
    let list = place.write("tools.json", format!(r#"{{"tools":[{}]}}"#, tools.join(",")));
    let server = Server::named("s").flags("--bare --tool-list").arg(list).line("[servers.s.tools]\nread_only = true");
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__reads"]);
    for hidden in ["denied_last", "denied_first"] {
        assert_eq!(code(&agent.call(&format!("s__{hidden}"), &json!({}))), -32602, "{hidden}");
    }
    expect_never_requested(&daemon, "tools/call");
    let row = daemon.row("s");
    assert_eq!((&row["tools_exposed"], &row["tools_denied"]), (&json!(1), &json!(4)));
    let report = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    let tools = report["tools"].as_array().expect("a list").iter();
    let reasons: Vec<_> = tools.map(|tool| (tool["tool"].clone(), tool["hidden"]["why"].clone())).collect();
    let expected = [
        ("denied_last", json!("read_only")),
        ("denied_first", json!("read_only")),
        ("reads", Value::Null),
        ("reads", json!("again")),
        ("denied_first", json!("read_only")),
        ("denied_last", json!("read_only")),
    ];
    assert_eq!(reasons, expected.map(|(tool, why)| (json!(tool), why)));
    assert!(daemon.client(&["tools", "s"]).expect_code(0).stdout.starts_with("s · 1 tool · "));
}

#[test]
fn changed_rules_hold_at_once_and_cost_no_server_its_process() {
    let place = Place::new();
    let toml = |lines: &[&str]| library(lines).toml(&place);
    let file = place.write("changing.toml", toml(&[]));
    let mut daemon = Setup::new().config(file).start_in(&Rc::clone(&place));
    let pid = daemon.server_pid("s");
    let mut agent = Agent::ready(&daemon);
    let all = list_all(&mut agent);
    for (lines, hidden) in [
        (&[r#"expose = ["tools"]"#][..], [0, 2, 2, 2]),
        (&["tools = { read_only = true }", r#"prompts = { deny = ["*"] }"#], [1, 2, 0, 0]),
        (&[r#"resources = { deny = ["x:*"] }"#], [0, 0, 2, 1]),
        (&[], [0, 0, 0, 0]),
    ] {
        fs::rename(place.write("new.toml", toml(lines)), place.path("changing.toml")).expect("the test's own");
        daemon.signal(Signal::HUP);
        let expected: Vec<_> = all.iter().zip(hidden).map(|(list, hidden)| list.len() - hidden).collect();
        until("the lists are the new ones", || {
            (list_all(&mut agent).map(|list| list.len()).to_vec() == expected).then_some(())
        });
    }
    assert_eq!(daemon.server_pid("s"), pid);
    agent.disconnect();
}

/// Case H5.
#[test]
fn name_with_invisible_characters_is_not_listed_and_is_reported() {
    let names = ["fine", "a\u{202e}b", "c\u{7}d", "e\u{200f}", "g\u{2066}h", &"x".repeat(128), &"x".repeat(129)];
    let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
    let prompts: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    let place = Place::new();
    let list = place.write("tools.json", json!({"tools": tools}).to_string());
    let shelf = place.write("library.json", json!({"prompts": prompts}).to_string());
    let server = Server::named("s").flags("--bare --tool-list").arg(list).arg("--library").arg(shelf);
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let [tools, prompts, ..] = list_all(&mut agent);
    assert_eq!((tools.len(), prompts.len()), (2, 2), "{tools:?} {prompts:?}");
    for name in ["s__a\u{202e}b", "s__c\u{7}d", "a\u{202e}b"] {
        assert_eq!(code(&agent.call(name, &json!({}))), -32602);
    }
    let row = daemon.row("s");
    assert_eq!((&row["names_rejected"], &row["tools_denied"]), (&json!(10), &json!(0)));
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(status.contains("s: 10 tools and prompts are not listed: the name has control characters"), "{status}");
}

#[test]
fn status_names_the_server_that_is_shadowed_by_an_earlier_one() {
    let place = Place::new();
    let shelf = |name: &str, text: &str| place.write(name, text);
    let text =
        r#"{"resources":[{"uri":"x://1","name":"a"}],"resourceTemplates":[{"uriTemplate":"x://{id}","name":"b"}]}"#;
    let (first, second) = (shelf("first.json", text), shelf("second.json", &text.replace("x://{id}", "x://{other}")));
    let setup = Setup::with(Server::named("first").arg("--library").arg(first));
    let daemon = setup.server(Server::named("second").arg("--library").arg(second)).start_in(&place);
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(
        status.contains("second: 2 resources are not listed: an earlier server has the same URIs or templates"),
        "{status}"
    );
    assert!(!status.contains("first: "), "{status}");
}
