//! Agents by lines and over HTTP at one copy of a server.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use super::start;
use crate::support::http_agent::{HttpAgent, POST, call, modern, modern_headers};
use crate::support::{Agent, arguments, result};

/// Calls of each HTTP connection.
const CALLS: u64 = 1000;
/// HTTP connections of each era. Those of the legacy era have one session.
const CONNECTIONS: u64 = 3;
/// Calls by lines.
const BY_LINES: u64 = 4000;
/// Calls that are sent before the first of them is answered.
const AT_ONCE: u64 = 50;

/// What a call sends, and expects back.
fn marker(agent: &str, n: u64) -> Value {
    json!({"from": agent, "n": n, "text": format!("π {agent} {n}")})
}

/// Every tenth call has progress notifications.
fn tool(n: u64) -> &'static str {
    if n.is_multiple_of(10) { "s__progress" } else { "s__echo" }
}

/// The params of a call. The same progress tokens are used by all agents.
fn params(agent: &str, n: u64) -> Value {
    let mut sent = marker(agent, n);
    if n.is_multiple_of(10) {
        (sent["n"], sent["every"]) = (json!(1), json!(1));
    }
    json!({"name": tool(n), "arguments": sent, "_meta": {"progressToken": n}})
}

#[track_caller]
fn check(answer: &Value, agent: &str, n: u64, pid: u32) {
    assert_eq!(arguments(answer), &params(agent, n)["arguments"], "{agent}");
    assert_eq!(result(answer)["structuredContent"]["pid"], pid);
}

/// Calls over one connection, [`AT_ONCE`] requests in a row without waiting.
fn call_over_http(http: &mut HttpAgent, agent: &str, pid: u32, post: impl Fn(u64) -> (String, Value)) {
    for first in (0..CALLS).step_by(AT_ONCE as usize) {
        for n in first..first + AT_ONCE {
            let (headers, body) = post(n);
            http.start_post("/mcp", &headers, &body.to_string());
        }
        for n in first..first + AT_ONCE {
            let reply = http.reply();
            let messages = if reply.body.is_empty() { http.messages() } else { vec![reply.message()] };
            let (answer, before) = messages.split_last().expect("a response");
            assert_eq!(answer["id"], post(n).1["id"], "{agent}");
            check(answer, agent, n, pid);
            let steps: Vec<_> = before.iter().map(|step| step["params"]["progressToken"].clone()).collect();
            assert_eq!(steps, if n.is_multiple_of(10) { vec![json!(n)] } else { Vec::new() }, "{agent}");
        }
    }
}

fn call_by_lines(lines: &mut Agent, pid: u32) {
    for first in (0..BY_LINES).step_by(AT_ONCE as usize) {
        let calls = first..first + AT_ONCE;
        let ids: Vec<_> = calls.clone().map(|n| lines.start_request("tools/call", &params("lines", n))).collect();
        for (n, id) in calls.clone().zip(ids) {
            check(&lines.answer(&id), "lines", n, pid);
        }
        let with_progress = calls.filter(|n| n.is_multiple_of(10));
        let expected: BTreeSet<u64> = with_progress.collect();
        let token = |_| lines.expect_notification("notifications/progress")["params"]["progressToken"].as_u64();
        assert_eq!((0..expected.len()).filter_map(token).collect::<BTreeSet<_>>(), expected);
    }
    lines.expect_quiet();
}

#[test]
fn ten_thousand_mixed_calls_by_lines_and_over_http_share_one_process_and_do_not_mix() {
    let daemon = start();
    let mut lines = Agent::ready(&daemon);
    let pid = daemon.server_pid("s");
    let session = format!("{POST}{}", HttpAgent::connect(&daemon).initialize("/mcp"));
    let [legacy, modern_ones] = [(); 2].map(|()| (0..CONNECTIONS).map(|_| HttpAgent::connect(&daemon)).collect());
    let (legacy, modern_ones): (Vec<_>, Vec<_>) = (legacy, modern_ones);
    thread::scope(|scope| {
        scope.spawn(|| call_by_lines(&mut lines, pid));
        for (number, mut http) in (0..).zip(legacy) {
            let session = &session;
            scope.spawn(move || {
                let agent = format!("legacy {number}");
                // Ids are those of the session. The same are used by lines, and at each modern connection.
                call_over_http(&mut http, &agent, pid, |n| {
                    let mut body = call(number * CALLS + n, tool(n), &json!({}));
                    body["params"] = params(&agent, n);
                    (session.clone(), body)
                });
            });
        }
        for (number, mut http) in (0..CONNECTIONS).zip(modern_ones) {
            scope.spawn(move || {
                let agent = format!("modern {number}");
                call_over_http(&mut http, &agent, pid, |n| {
                    let body = modern(n, "tools/call", &params(&agent, n));
                    (modern_headers(&body), body)
                });
            });
        }
    });
    let row = daemon.row("s");
    assert_eq!((&row["pid"], &row["restarts"], &row["in_flight"]), (&json!(pid), &json!(0), &json!(0)), "{row}");
}
