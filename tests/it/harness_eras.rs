//! The scripted server in the modern era.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{
    LEVEL, PROTOCOL, Place, SCRIPTED, SUBSCRIPTION, code, inputs, meta, plain, request, result, wait_exit,
};

/// A scripted server, over pipes.
struct ScriptedServer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _place: Rc<Place>,
}

impl ScriptedServer {
    fn start(flags: &str) -> Self {
        Self::start_in(&Place::new(), flags)
    }

    fn start_in(place: &Rc<Place>, flags: &str) -> Self {
        let mut command = place.command(SCRIPTED);
        command.args(flags.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { input: child.stdin.take(), child, output, _place: Rc::clone(place) }
    }

    fn send(&mut self, id: &Value, method: &str, params: &Value) {
        let line = request(id.clone(), method, params);
        writeln!(self.input.as_ref().expect("not closed"), "{line}").expect("it reads");
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request as it is and gives the next line.
    fn bare(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!(1), method, params);
        self.next()
    }

    /// Sends a request of a client that can do this, and gives the next line.
    fn request_with_capabilities(&mut self, capabilities: &Value, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        params["_meta"] = Value::Object(meta(capabilities));
        self.bare(method, &params)
    }

    fn modern(&mut self, method: &str, params: &Value) -> Value {
        self.request_with_capabilities(&json!({}), method, params)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.modern("tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        drop(self.input.take());
        wait_exit(&mut self.child);
    }
}

#[test]
fn modern_agent_rejects_a_result_without_a_result_type() {
    let mut server = ScriptedServer::start("--era modern");
    assert_eq!(code(&server.bare("initialize", &json!({"protocolVersion": "2025-11-25"}))), -32022);
    assert_eq!(code(&server.bare("tools/list", &json!({}))), -32602);
    assert_eq!(code(&server.bare("tools/list", &json!({"_meta": {PROTOCOL: "2026-07-28"}}))), -32602);
    let mut other = meta(&json!({}));
    other.insert(PROTOCOL.into(), json!("1900-01-01"));
    let refusal = server.bare("tools/list", &json!({"_meta": other}));
    let data = json!({"supported": ["2026-07-28"], "requested": "1900-01-01"});
    assert_eq!((code(&refusal), &refusal["error"]["data"]), (-32022, &data));
    assert_eq!(code(&server.modern("ping", &json!({}))), -32601);
    let tools = server.modern("tools/list", &json!({}));
    assert_eq!((&result(&tools)["resultType"], &result(&tools)["ttlMs"]), (&json!("complete"), &json!(0)));
    assert_eq!(plain(result(&server.call("refuse", &json!({}))))["isError"], true);
}

#[test]
fn server_of_both_eras_answers_in_the_era_of_each_request() {
    let mut server = ScriptedServer::start("--era both --ttl 50 --cache-scope public");
    let found = server.modern("server/discover", &json!({}));
    assert_eq!(result(&found)["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result(&found)["capabilities"], json!({"tools": {"listChanged": true}}));
    let introduced = server.bare("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(result(&introduced)["protocolVersion"], "2025-11-25");
    assert!(result(&server.bare("tools/list", &json!({})))["resultType"].is_null());
    let tools = server.modern("tools/list", &json!({}));
    assert_eq!((&result(&tools)["ttlMs"], &result(&tools)["cacheScope"]), (&json!(50), &json!("public")));
}

#[test]
fn probe_is_answered_as_the_flags_say() {
    for (flags, expected) in
        [("", -32601), ("--discover-error=-32602", -32602), ("--era modern --supported-version x", -32022)]
    {
        assert_eq!(code(&ScriptedServer::start(flags).modern("server/discover", &json!({}))), expected, "{flags}");
    }
    assert_eq!(ScriptedServer::start("--probe garbage").modern("server/discover", &json!({}))["result"], 7);
    let mut mortal = ScriptedServer::start("--era modern --probe fatal");
    mortal.send(&json!(1), "server/discover", &json!({}));
    assert!(!wait_exit(&mut mortal.child).success());
    let mut silent = ScriptedServer::start("--probe silent");
    silent.send(&json!(1), "server/discover", &json!({}));
    assert_eq!(silent.bare("ping", &json!({}))["result"], json!({}));
}

#[test]
fn scripted_server_requires_input_in_several_rounds() {
    let mut server = ScriptedServer::start("--era modern");
    let name = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "who?"}});
    let rounds =
        json!([{"inputs": {"name": name}}, {"inputs": {"a": {"method": "roots/list"}}, "state": "s"}, {"state": "t"}]);
    let params = json!({"name": "need_input", "arguments": {"rounds": rounds}});
    let refusal = server.request_with_capabilities(&json!({"elicitation": {"url": {}}}), "tools/call", &params);
    assert_eq!(code(&refusal), -32021);
    assert_eq!(refusal["error"]["data"], json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
    let can = json!({"elicitation": {}, "roots": {}});
    let required = server.request_with_capabilities(&can, "tools/call", &params);
    assert_eq!((&inputs(&required)["name"], &result(&required)["requestState"]), (&name, &Value::Null));
    let again = |responses: Value, state: Value| {
        let mut params = params.clone();
        (params["inputResponses"], params["requestState"]) = (responses, state);
        params
    };
    let required = server.request_with_capabilities(&can, "tools/call", &again(json!({"name": {}}), Value::Null));
    assert_eq!((inputs(&required).len(), &result(&required)["requestState"]), (1, &json!("s")));
    let required = server.request_with_capabilities(&can, "tools/call", &again(json!({"a": {}}), json!("s")));
    assert_eq!(result(&required), &json!({"resultType": "input_required", "requestState": "t"}));
    let done = server.request_with_capabilities(&can, "tools/call", &again(Value::Null, json!("t")));
    assert_eq!(result(&done)["structuredContent"]["params"]["requestState"], "t");
    assert_eq!(code(&server.request_with_capabilities(&can, "tools/call", &again(Value::Null, json!("u")))), -32602);
}

#[test]
fn scripted_server_logs_at_the_level_of_each_request() {
    let mut server = ScriptedServer::start("--era modern");
    let messages = json!([{"level": "info", "data": 1}, {"level": "error", "data": 2}]);
    let mut params = json!({"name": "log", "arguments": {"messages": messages}, "_meta": meta(&json!({}))});
    assert_eq!(server.bare("tools/call", &params)["id"], 1);
    params["_meta"][LEVEL] = json!("warning");
    assert_eq!(server.bare("tools/call", &params)["params"]["data"], 2);
    assert_eq!(server.next()["id"], 1);
}

#[test]
fn scripted_server_notifies_subscribers_until_it_ends() {
    let place = Place::new();
    let library = place.write("library.json", r#"{"resources":[],"rounds":{"p":[{"state":"s"}]}}"#);
    let mut server = ScriptedServer::start_in(&place, &format!("--era modern --library {}", library.display()));
    assert_eq!(result(&server.modern("prompts/get", &json!({"name": "p"})))["requestState"], "s");
    let mut listen = |id: &str, filter: Value| {
        server.send(&json!(id), "subscriptions/listen", &json!({"notifications": filter, "_meta": meta(&json!({}))}));
        let notification = server.next();
        assert_eq!(notification["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(notification["params"], json!({"_meta": {SUBSCRIPTION: id}, "notifications": filter}));
    };
    listen("a", json!({"toolsListChanged": true}));
    listen("b", json!({"resourceSubscriptions": ["x://1"]}));
    let notification = server.call("mutate_tools", &json!({"add": ["new"]}));
    assert_eq!(
        (&notification["method"], &notification["params"]["_meta"][SUBSCRIPTION]),
        (&json!("notifications/tools/list_changed"), &json!("a"))
    );
    assert_eq!(server.next()["id"], 1);
    let notification = server.call("touch", &json!({"uris": ["x://2", "x://1"], "lists": ["prompts"]}));
    assert_eq!(
        (&notification["params"]["uri"], &notification["params"]["_meta"][SUBSCRIPTION]),
        (&json!("x://1"), &json!("b"))
    );
    assert_eq!(server.next()["id"], 1);
    let cancelled = crate::support::notification("notifications/cancelled", &json!({"requestId": "a"}));
    writeln!(server.input.as_ref().expect("not closed"), "{cancelled}").expect("it reads");
    let ended = server.call("end_subscriptions", &json!({}));
    assert_eq!((&ended["id"], &ended["result"]["_meta"][SUBSCRIPTION]), (&json!("b"), &json!("b")));
    assert_eq!(server.next()["id"], 1);
}
