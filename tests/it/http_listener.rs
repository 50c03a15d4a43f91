//! Agents over HTTP: Streamable HTTP of both eras on the agent sockets, and on loopback addresses.

mod attacks;
mod legacy;
mod limits;
pub(crate) mod loopback;
mod modern;
mod shared_server;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::http_agent::{GET, HttpAgent, POST, call, request};
use crate::support::{Daemon, Server, Setup, arguments, skipped, until};

/// A user whom a profile admits.
const GUEST: u32 = 54_321;

fn start() -> Daemon {
    Setup::with(Server::named("s").line("deny = ['fail']")).server(Server::named("t")).start()
}

/// A daemon that admits a guest, at this socket. `None` unless this is root, who alone can connect as somebody else.
fn with_guests() -> Option<(Daemon, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return None;
    }
    let profile = format!("[profiles.guests]\nallow_uids = [{GUEST}]");
    let daemon = Setup::with(Server::named("s")).head(&profile).start();
    let socket = daemon.profile_socket("guests");
    Some((daemon, socket))
}

/// The agents that `status` lists.
fn agents(daemon: &Daemon) -> Vec<Value> {
    daemon.status()["agents"].as_array().expect("a list").clone()
}

#[test]
fn paths_lead_to_the_profile_to_one_server_and_to_the_health_check() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = format!("{POST}{}", http.initialize("/servers/s"));
    let listed = http.post("/servers/s", &session, &request(2, "tools/list", &json!({}))).message();
    let names: Vec<_> = listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("echo")) && !names.contains(&&json!("fail")), "{names:?}");
    for (path, tool) in [("/mcp", "s__echo"), ("/servers/t", "echo")] {
        let answer = http.modern(path, 3, "tools/call", &json!({"name": tool, "arguments": {"x": path}}));
        assert_eq!(arguments(&answer.message())["x"], path);
    }
    for path in ["/", "/mcp/", "/servers", "/servers/", "/servers/nope", "/servers/s/x", "/sse"] {
        assert_eq!(http.modern(path, 4, "tools/list", &json!({})).error(), (404, -32600), "{path}");
    }
    let health = http.request("GET /healthz", "Host: localhost\r\n");
    assert_eq!((health.status, &*health.body), (200, "{\"status\":\"ok\"}\n"));
    assert_eq!(http.request("POST /healthz", "Host: localhost\r\nContent-Length: 0\r\n").status, 405);
}

#[test]
fn request_that_http_or_the_protocol_forbids_gets_its_status() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let ping = request(7, "ping", &json!({}));
    let with = |change: &dyn Fn(String) -> String| change(format!("{POST}{session}"));
    for (what, status, headers) in [
        ("no session", 400, POST.to_owned()),
        ("no Accept", 406, with(&|all| all.replace("Accept: application/json, text/event-stream\r\n", ""))),
        ("no events accepted", 406, with(&|all| all.replace(", text/event-stream", ""))),
        ("text", 415, with(&|all| all.replace("Type: application/json", "Type: text/plain"))),
        ("gzip", 415, with(&|all| format!("{all}Content-Encoding: gzip\r\n"))),
        ("unknown version", 400, with(&|all| all.replace("2025-11-25", "2099-01-01"))),
        ("no version", 200, with(&|all| all.replace("MCP-Protocol-Version: 2025-11-25\r\n", ""))),
        ("two versions", 400, with(&|all| format!("{all}MCP-Protocol-Version: 2025-11-25\r\n"))),
        ("foreign host", 403, with(&|all| all.replace("localhost", "evil.example.com"))),
        ("foreign origin", 403, with(&|all| format!("{all}Origin: http://evil.example.com\r\n"))),
        ("unknown session", 404, with(&|all| all.replace("Session-Id: ", "Session-Id: x"))),
        ("two sessions", 404, with(&|all| format!("{all}{}\r\n", session.split("\r\n").next().expect("a header")))),
    ] {
        assert_eq!(http.post("/mcp", &headers, &ping).status, status, "{what}");
    }
    for (body, expected) in [
        ("{", (400, -32700)),
        ("[]", (400, -32600)),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", (400, -32600)),
        ("{\"id\":1,\"method\":\"ping\"}", (400, -32600)),
        ("7", (400, -32600)),
    ] {
        http.start_post("/mcp", &with(&|all| all), body);
        assert_eq!(http.reply().error(), expected, "{body}");
    }
    for (line, allowed) in [
        ("PUT /mcp", "GET, POST, DELETE"),
        ("OPTIONS /mcp", "GET, POST, DELETE"),
        ("PATCH /mcp", "GET, POST, DELETE"),
        ("DELETE /healthz", "GET, HEAD"),
    ] {
        let refused = http.request(line, &format!("{GET}{session}"));
        assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)), "{line}");
    }
    let not_acceptable = GET.replace("text/event-stream", "application/json");
    assert_eq!(http.request("GET /mcp", &format!("{not_acceptable}{session}")).status, 406);
    assert_eq!(http.post("/mcp", &with(&|all| all), &ping).message()["result"], json!({}), "it still works");
}

#[test]
fn body_may_have_line_breaks_and_a_message_over_the_limit_is_refused() {
    let daemon = Setup::with(Server::named("s")).head("[daemon]\nmax_message = '128KiB'").start();
    let mut http = HttpAgent::connect(&daemon);
    let session = format!("{POST}{}", http.initialize("/mcp"));
    for size in [0, 40 << 10] {
        let sent = json!({"text": "x".repeat(size), "deep": {"list": [1, 2]}});
        let body = serde_json::to_string_pretty(&call(1, "s__echo", &sent)).expect("JSON").replace('\n', "\r\n");
        http.start_post("/mcp", &session, &body);
        assert_eq!(arguments(&http.reply().message()), &sent, "{size}");
    }
    let large = call(2, "s__echo", &json!({"text": "x".repeat(200 << 10)})).to_string();
    for size in [200 << 10, 5 << 20] {
        // Most clients read the response once they have sent all.
        http.start_post("/mcp", &session, &call(2, "s__echo", &json!({"text": "x".repeat(size)})).to_string());
        assert_eq!(http.reply().error(), (413, -31006));
    }
    http.start_post("/mcp", &session.replace("application/json\r\nAccept", "text/plain\r\nAccept"), &large);
    assert_eq!(http.reply().error(), (415, -32600));
    let mut http = HttpAgent::connect(&daemon);
    http.write(format!("POST /mcp HTTP/1.1\r\n{session}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", large.len()));
    http.try_write(format!("{large}\r\n0\r\n\r\n"));
    assert_eq!(http.reply().error(), (413, -31006));
}

#[test]
fn status_lists_sessions_over_http() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let client = |agent: &Value| agent["client"].clone();
    assert_eq!(agents(&daemon).iter().map(client).collect::<Vec<_>>(), ["http-agent 7"]);
    http.modern("/mcp", 1, "tools/list", &json!({})).message();
    assert_eq!(agents(&daemon).iter().map(client).collect::<Vec<_>>(), ["http-agent 7", "test-agent 7"]);
    assert_eq!(http.request("DELETE /mcp", &format!("Host: localhost\r\n{session}")).status, 204);
    until("the session has ended", || (agents(&daemon).len() == 1).then_some(()));
    drop(http);
    until("the connection has ended", || agents(&daemon).is_empty().then_some(()));
}
