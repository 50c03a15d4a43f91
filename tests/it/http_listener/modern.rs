//! Requests of the modern era: no session, headers that repeat the body, and cancellation by closing the connection.

use serde_json::{Value, json};

use super::start;
use crate::support::http_agent::{GET, HttpAgent, HttpReply, POST, modern, modern_headers, request};
use crate::support::{Place, SUBSCRIPTION, Server, Setup, arguments, until};

#[test]
fn request_needs_no_session_and_gets_none() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let body = modern(1, "tools/call", &json!({"name": "s__echo", "arguments": {"x": 1}}));
    let reply = http.post("/mcp", &format!("{}Mcp-Session-Id: x\r\n", modern_headers(&body)), &body);
    assert_eq!((reply.header("mcp-session-id"), arguments(&reply.message())), (None, &json!({"x": 1})));
    for method in ["GET", "DELETE"] {
        let headers = format!("{GET}MCP-Protocol-Version: 2026-07-28\r\nMcp-Session-Id: x\r\n");
        assert_eq!(http.request(&format!("{method} /mcp"), &headers).status, 405);
    }
    let discovered = http.modern("/mcp", 2, "server/discover", &json!({})).message();
    assert!(discovered["result"]["capabilities"].is_object(), "{discovered}");
}

#[test]
fn headers_that_differ_from_the_body_are_refused() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let body = modern(1, "tools/call", &json!({"name": "s__echo", "arguments": {}}));
    let headers = modern_headers(&body);
    for (what, changed) in [
        ("another method", headers.replace("Mcp-Method: tools/call", "Mcp-Method: tools/list")),
        ("another case", headers.replace("Mcp-Method: tools/call", "Mcp-Method: TOOLS/CALL")),
        ("no method", headers.replace("Mcp-Method: tools/call\r\n", "")),
        ("two methods", format!("{headers}Mcp-Method: tools/call\r\n")),
        ("another name", headers.replace("Mcp-Name: s__echo", "Mcp-Name: t__echo")),
        ("no name", headers.replace("Mcp-Name: s__echo\r\n", "")),
        ("bad base64", headers.replace("Mcp-Name: s__echo", "Mcp-Name: =?base64?%%?=")),
        ("no version", headers.replace("MCP-Protocol-Version: 2026-07-28\r\n", "")),
        ("another version", headers.replace("2026-07-28", "2025-11-25")),
    ] {
        assert_eq!(http.post("/mcp", &changed, &body).error(), (400, -32020), "{what}");
    }
    for same in [
        headers.clone(),
        headers.replace("Mcp-Method", "MCP-METHOD").replace("Mcp-Name: s__echo", "mcp-name:   s__echo  "),
        headers.replace("Mcp-Name: s__echo", "Mcp-Name: =?base64?c19fZWNobw==?="),
    ] {
        http.post("/mcp", &same, &body).message();
    }
}

#[test]
fn arguments_in_headers_that_differ_from_the_body_are_refused() {
    let place = Place::new();
    let deep = json!({"type": "object", "properties": {"deep": {"type": "integer", "x-mcp-header": "Deep"}}});
    let properties = json!({"r": {"type": "string", "x-mcp-header": "Region"}, "within": deep});
    let tools = json!([{"name": "echo", "inputSchema": {"type": "object", "properties": properties}}]);
    let listing = place.write("listing.json", json!({ "tools": tools }).to_string());
    let daemon = Setup::with(Server::named("s").arg("--tool-list").arg(listing)).start_in(&place);
    let mut http = HttpAgent::connect(&daemon);
    until("the tool is listed", || {
        let listed = http.modern("/mcp", 1, "tools/list", &json!({})).message();
        listed["result"]["tools"].to_string().contains("s__echo").then_some(())
    });
    let both = json!({"r": "é", "within": {"deep": 7}});
    let neither = json!({"r": null, "within": {}});
    let region = "Mcp-Param-Region: =?base64?w6k=?=\r\n";
    for (given, params, is_refused) in [
        (&both, format!("{region}Mcp-Param-Deep: 7\r\n"), false),
        (&both, format!("{region}mcp-param-deep: 7.0\r\nMcp-Param-Other: x\r\n"), false),
        (&neither, String::new(), false),
        (&both, String::new(), true),
        (&both, region.to_owned(), true),
        (&both, format!("{region}Mcp-Param-Deep: 8\r\n"), true),
        (&both, format!("{region}Mcp-Param-Deep: 7\r\nMcp-Param-Deep: 7\r\n"), true),
        (&both, "Mcp-Param-Region: e\r\nMcp-Param-Deep: 7\r\n".to_owned(), true),
        (&both, "Mcp-Param-Region: =?base64?%?=\r\nMcp-Param-Deep: 7\r\n".to_owned(), true),
        (&neither, region.to_owned(), true),
        (&neither, "Mcp-Param-Deep: 0\r\n".to_owned(), true),
    ] {
        for (path, tool) in [("/mcp", "s__echo"), ("/servers/s", "echo")] {
            let body = modern(2, "tools/call", &json!({"name": tool, "arguments": given}));
            let reply = HttpAgent::connect(&daemon).post(path, &format!("{}{params}", modern_headers(&body)), &body);
            if is_refused {
                assert_eq!(reply.error(), (400, -32020), "{path} {given} {params}");
            } else {
                assert_eq!(arguments(&reply.message()), given, "{path} {params}");
            }
        }
    }
}

#[test]
fn errors_have_the_status_of_the_protocol() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let unknown = http.modern("/mcp", 1, "nope/nope", &json!({}));
    assert_eq!(unknown.error(), (404, -32601));
    let denied = http.modern("/mcp", 2, "tools/call", &json!({"name": "s__fail", "arguments": {}}));
    assert_eq!(denied.error(), (200, -32602));
    let version = "io.modelcontextprotocol/protocolVersion";
    let body = modern(3, "tools/list", &json!({"_meta": {version: "2099-01-01"}}));
    let headers = modern_headers(&body).replace("2026-07-28", "2099-01-01");
    let reply = http.post("/mcp", &headers, &body);
    assert_eq!((reply.error(), &reply.json()["error"]["data"]["supported"]), ((400, -32022), &json!(["2026-07-28"])));
    let bare = request(4, "tools/list", &json!({}));
    assert_eq!(http.post("/mcp", &modern_headers(&bare), &bare).error(), (400, -32602));
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let headers = format!("{POST}MCP-Protocol-Version: 2026-07-28\r\n");
    assert_eq!(http.post("/mcp", &headers, &response).status, 400);
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    assert_eq!(http.post("/mcp", &headers, &notification).status, 202);
}

#[test]
fn progress_precedes_the_response_in_its_stream() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    for id in 1..3 {
        let params = json!({"name": "s__progress", "arguments": {"n": 2, "every": 1}, "_meta": {"progressToken": "p"}});
        assert_eq!(http.modern("/mcp", id, "tools/call", &params).header("content-type"), Some("text/event-stream"));
        let first = http.event().expect("progress");
        assert_eq!((first.id, &first.data["params"]["progressToken"]), (None, &json!("p")));
        let messages = http.messages();
        assert_eq!((messages.len(), &messages[1]["id"]), (2, &json!(id)));
    }
}

#[test]
fn subscription_is_a_stream_until_the_agent_closes_it() {
    let daemon = start();
    let (mut listening, mut http) = (HttpAgent::connect(&daemon), HttpAgent::connect(&daemon));
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let reply = listening.modern("/mcp", 7, "subscriptions/listen", &filter);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let acknowledged = listening.event().expect("the acknowledgement").data;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let add = json!({"name": "s__mutate_tools", "arguments": {"add": ["fresh"]}});
    http.modern("/mcp", 7, "tools/call", &add).message();
    let changed = listening.event().expect("a notification").data;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 7);
    drop(listening);
    until("its agent is gone", || (super::agents(&daemon).len() == 1).then_some(()));
}

#[test]
fn closed_connection_cancels_its_request() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    http.start_modern("/mcp", 1, "tools/call", &json!({"name": "s__sleep", "arguments": {"ms": 60_000}}));
    let in_flight = || daemon.status()["servers"][0]["in_flight"].as_u64().expect("a number");
    until("the call runs", || (in_flight() == 1).then_some(()));
    drop(http);
    until("the call was cancelled", || (in_flight() == 0).then_some(()));
    assert!(daemon.journal("s").iter().any(|line| line.contains("notifications/cancelled")));
}

#[test]
fn request_names_the_directory_that_its_server_works_in() {
    let server = Server::named("s").line("sharing = 'workspace'").line("cwd = '${agent:cwd}'");
    let daemon = Setup::with(server).start();
    let place = daemon.place().path("work");
    std::fs::create_dir(&place).expect("a new directory");
    let mut http = HttpAgent::connect(&daemon);
    let params = json!({"name": "s__cwd", "arguments": {}, "_meta": {"mcpd/cwd": place}});
    let answer = until("the tool is listed", || {
        let reply = http.modern("/mcp", 1, "tools/call", &params);
        reply.json().get("result").map(Value::to_string)
    });
    assert!(answer.contains(place.to_str().expect("text")), "{answer}");
}

/// The copy of the server that answers a call.
fn pid_of(reply: &HttpReply) -> Value {
    reply.message()["result"]["structuredContent"]["pid"].clone()
}

fn echo(meta: &Value) -> Value {
    json!({"name": "s__echo", "arguments": {}, "_meta": meta})
}

#[test]
fn agent_is_a_process_with_the_directory_that_it_states() {
    let daemon = Setup::with(Server::named("s").line("sharing = 'session'")).start();
    let mut one = HttpAgent::connect(&daemon);
    // Its own copy of the server has to start.
    until("the tool is listed", || {
        one.modern("/mcp", 1, "tools/call", &echo(&json!({}))).json().get("result").map(drop)
    });
    let pid = pid_of(&one.modern("/mcp", 1, "tools/call", &echo(&json!({}))));
    let mut other = HttpAgent::connect(&daemon);
    assert_eq!(pid_of(&other.modern("/mcp", 1, "tools/call", &echo(&json!({})))), pid, "by another connection");
    assert_eq!(super::agents(&daemon).len(), 1);
    let elsewhere = echo(&json!({"mcpd/cwd": "/tmp"}));
    until("the tool is listed", || other.modern("/mcp", 1, "tools/call", &elsewhere).json().get("result").map(drop));
    assert_ne!(pid_of(&other.modern("/mcp", 1, "tools/call", &elsewhere)), pid);
    assert_eq!(super::agents(&daemon).len(), 2);
    drop(other);
    until("the other has left", || (super::agents(&daemon).len() == 1).then_some(()));
    assert_eq!(pid_of(&one.modern("/mcp", 2, "tools/call", &echo(&json!({})))), pid, "its session goes on");
}

#[test]
fn clients_in_one_process_may_use_the_same_ids() {
    let daemon = start();
    let mut connections = [(); 3].map(|()| HttpAgent::connect(&daemon));
    let in_flight = || daemon.status()["servers"][0]["in_flight"].as_u64().expect("a number");
    for (at, http) in connections.iter_mut().enumerate() {
        http.start_modern("/mcp", 1, "tools/call", &json!({"name": "s__sleep", "arguments": {"ms": 60_000}}));
        until("the call runs", || (in_flight() == at as u64 + 1).then_some(()));
    }
    let [one, two, three] = connections;
    drop((one, two));
    until("the calls of the closed connections were cancelled", || (in_flight() == 1).then_some(()));
    let mut http = HttpAgent::connect(&daemon);
    let sent = json!({"name": "s__echo", "arguments": {"n": 1}});
    assert_eq!(arguments(&http.modern("/mcp", 1, "tools/call", &sent).message()), &json!({"n": 1}));
    drop(http);
    assert_eq!(in_flight(), 1, "the last call goes on");
    drop(three);
}

#[test]
fn agent_that_leaves_a_stream_cancels_only_its_request() {
    let daemon = start();
    let (mut staying, mut leaving) = (HttpAgent::connect(&daemon), HttpAgent::connect(&daemon));
    let in_flight = || daemon.status()["servers"][0]["in_flight"].as_u64().expect("a number");
    for (id, http) in [(1, &mut staying), (2, &mut leaving)] {
        http.start_modern("/mcp", id, "tools/call", &json!({"name": "s__sleep", "arguments": {"ms": 60_000}}));
    }
    until("the calls run", || (in_flight() == 2).then_some(()));
    assert_eq!(super::agents(&daemon).len(), 1);
    drop(leaving);
    until("one was cancelled", || (in_flight() == 1).then_some(()));
    assert_eq!(super::agents(&daemon).len(), 1);
    drop(staying);
    until("the other was cancelled", || (in_flight() == 0).then_some(()));
    until("the agent is gone", || super::agents(&daemon).is_empty().then_some(()));
}
