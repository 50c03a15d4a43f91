//! Prompts and resources are listed under the rules of tools, and requests reach their server.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, result};

const PROMPTS: &str = r#"{"prompts":[{"zeta":1.10,"name":"greet","arguments":[]},{"name":"part"}],"completions":true}"#;
const LIBRARY: &str = r#"{"resources":[{"uri":"x://1","name":"one","size":100}],"resourceTemplates":[{"uriTemplate":"x://{id}","name":"any"}]}"#;
const OTHER_LIBRARY: &str = r#"{"resources":[{"uri":"y://1","name":"mine"},{"uri":"x://1","name":"late"}],"resourceTemplates":[{"uriTemplate":"y://{+path}","name":"deep"}]}"#;

fn start(servers: &[(&str, &str)]) -> Daemon {
    let servers = servers.iter().map(|(name, library)| Server::named(name).library(library));
    servers.fold(Setup::new(), Setup::server).start()
}

fn list(agent: &mut Agent, method: &str) -> Value {
    result(&agent.request(method, &json!({}))).clone()
}

fn read(agent: &mut Agent, uri: &str) -> Value {
    agent.request("resources/read", &json!({ "uri": uri }))
}

#[test]
fn prompts_are_listed_and_got_under_exposed_names_and_pass_unaltered() {
    let daemon = start(&[("one", PROMPTS), ("two", PROMPTS)]);
    let mut agent = Agent::ready(&daemon);
    let listed = list(&mut agent, "prompts/list");
    let names: Vec<_> = listed["prompts"].as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["one__greet", "one__part", "two__greet", "two__part"]);
    agent.send_raw("{\"jsonrpc\":\"2.0\",\"id\":1.50,\"method\":\"prompts/get\",\"params\":{\"name\":\"two__greet\",\"x\":1.10}}\n");
    let line = agent.next_line().expect("an answer");
    assert_eq!(
        line.trim(),
        r#"{"jsonrpc":"2.0","id":1.50,"result":{"zeta":1.10,"received":{"name":"greet","x":1.10}}}"#
    );
    let unknown = agent.request("prompts/get", &json!({"name": "greet"}));
    assert_eq!((code(&unknown), &unknown["error"]["message"]), (-32602, &json!("Unknown prompt: greet")));
    assert_eq!(code(&agent.request("prompts/get", &json!({"name": "one__echo"}))), -32602, "a tool is no prompt");
}

#[test]
fn resource_is_read_from_the_server_that_lists_it_or_has_a_template_for_it() {
    let daemon = start(&[("a", LIBRARY), ("b", OTHER_LIBRARY)]);
    let mut agent = Agent::ready(&daemon);
    let listed = list(&mut agent, "resources/list");
    let expected = json!([{"uri": "x://1", "name": "one", "size": 100}, {"uri": "y://1", "name": "mine"}]);
    assert_eq!(listed["resources"], expected, "of two servers with one URI the first has it");
    let templates = list(&mut agent, "resources/templates/list");
    assert_eq!(templates["resourceTemplates"].as_array().map(Vec::len), Some(2));
    for (uri, server) in [("x://1", "a"), ("x://7", "a"), ("y://1", "b"), ("y://deep/down", "b")] {
        assert_eq!(result(&read(&mut agent, uri))["received"]["uri"], uri);
        daemon.wait_journal(server, &format!("\"uri\":\"{uri}\""));
    }
    let unknown = read(&mut agent, "z://1");
    assert_eq!((code(&unknown), &unknown["error"]["data"]["uri"]), (-32002, &json!("z://1")));
    let row = daemon.row("b");
    assert_eq!((&row["resources_exposed"], &row["resources_shadowed"]), (&json!(2), &json!(1)));
}

#[test]
fn completion_goes_where_its_prompt_or_resource_is() {
    let daemon = start(&[("p", PROMPTS), ("r", LIBRARY)]);
    let mut agent = Agent::ready(&daemon);
    let argument = json!({"name": "x", "value": "y"});
    let mut complete =
        |reference: Value| agent.request("completion/complete", &json!({"ref": reference, "argument": argument}));
    let prompt = complete(json!({"type": "ref/prompt", "name": "p__greet"}));
    assert_eq!(result(&prompt)["received"]["ref"]["name"], "greet");
    let template = complete(json!({"type": "ref/resource", "uri": "x://{id}"}));
    assert_eq!(result(&template)["received"]["ref"]["uri"], "x://{id}");
    assert_eq!(code(&complete(json!({"type": "ref/prompt", "name": "greet"}))), -32602);
    assert_eq!(code(&complete(json!({"type": "ref/tool", "name": "p__greet"}))), -32602);
}

#[test]
fn server_receives_only_requests_for_kinds_that_it_declares() {
    let daemon = start(&[("p", PROMPTS)]);
    Agent::ready(&daemon).tools();
    let received = daemon.journal("p").join("\n");
    assert!(received.contains("prompts/list") && received.contains("tools/list"), "{received}");
    assert!(!received.contains("resources/"), "{received}");
}

#[test]
fn resource_server_without_templates_lists_none_and_is_healthy() {
    let daemon = start(&[("r", r#"{"resources":[{"uri":"test://one","name":"one"}]}"#)]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list(&mut agent, "resources/list")["resources"][0]["uri"], "test://one");
    assert_eq!(list(&mut agent, "resources/templates/list")["resourceTemplates"], json!([]));
    daemon.wait_journal("r", "resources/templates/list");
    assert!(daemon.row("r")["last_error"].is_null(), "{}", daemon.row("r"));
}

#[test]
fn list_change_is_announced_for_that_list_only_to_agents_that_see_it() {
    let daemon = start(&[("p", PROMPTS), ("r", LIBRARY)]);
    let (mut reader, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    list(&mut reader, "resources/list");
    list(&mut other, "prompts/list");
    daemon.place().replace("r.library", OTHER_LIBRARY);
    let change = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n";
    result(&other.call("r__raw", &json!({"text": change})));
    reader.expect_notification("notifications/resources/list_changed");
    assert_eq!(list(&mut reader, "resources/list")["resources"][0]["uri"], "y://1");
    other.expect_quiet();
}
