//! Cookies that a load balancer finds the machine of a session by.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{beside, expect_well, start};
use crate::support::http::{Behavior, HttpServer, Request, Response};
use crate::support::{Agent, Place, Server, code, result, until};

fn reply(request: &Request, result: &Value) -> Response {
    Response::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}))
}

/// Answers within a session whose machine is found by a cookie. `machine` is the one that there is.
fn balanced(request: &Request, machine: usize) -> Response {
    if request.rpc() == "initialize" {
        let identity = json!({
            "protocolVersion": request.json()["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "balanced", "version": "1"},
        });
        return reply(request, &identity)
            .header("mcp-session-id", &format!("session-{machine}"))
            .header("set-cookie", &format!("machine={machine}; Path=/; HttpOnly"))
            .header("set-cookie", "other=1; Path=/elsewhere");
    }
    if request.header("cookie") != Some(&*format!("own=1; machine={machine}")) {
        return Response::status(404);
    }
    match &*request.rpc() {
        "" if request.method == "GET" => Response::status(405),
        "" => Response::status(200),
        "tools/list" => reply(request, &json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})),
        "tools/call" => reply(request, &json!({"content": [], "machine": machine})),
        method if method.starts_with("notifications/") => Response::status(202),
        _ => reply(request, &json!({})),
    }
}

/// Case I18.
#[test]
fn cookies_are_sent_back_for_the_life_of_the_session() {
    let place = Place::new();
    let machine = Arc::new(AtomicUsize::new(1));
    let http = HttpServer::start({
        let machine = Arc::clone(&machine);
        move |request| match &*request.rpc() {
            "server/discover" => Response::status(400),
            _ => balanced(request, machine.load(Ordering::SeqCst)),
        }
    });
    let server = Server::at("a", &http.url("/mcp")).line("headers = { Cookie = \"own=1\" }");
    let daemon = beside(server, &place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(result(&agent.call("a__echo", &json!({})))["machine"], 1);
    // The next session begins without the cookies of the last one.
    machine.store(2, Ordering::SeqCst);
    assert_eq!(code(&agent.call("a__echo", &json!({}))), -31004);
    until("there is another session", || {
        let answer = agent.call("a__echo", &json!({}));
        (answer["result"]["machine"] == 2).then_some(())
    });
    for request in http.requests().iter().filter(|request| request.rpc() == "initialize") {
        assert_eq!(request.header("cookie"), Some("own=1"), "{}", request.head());
    }
    assert!(!daemon.client(&["status"]).stdout.contains("machine=") && !daemon.log().contains("machine="));
}

/// Case I18.
#[test]
fn cookie_of_a_redirect_is_sent_with_the_redirected_request() {
    let (front, daemon) = start(Behavior::default());
    front.intercept(|request| {
        let is_known = request.header("cookie").is_some_and(|cookies| cookies.contains("seen=1"));
        (!is_known).then(|| Response::status(307).header("location", "/mcp").header("set-cookie", "seen=1"))
    });
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    agent.disconnect();
}
