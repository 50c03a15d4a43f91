//! The report as it is drawn, for terminals of several widths.

use serde_json::{Value, json};

use super::*;

fn server(name: &str, more: Value) -> Value {
    let mut server = json!({
        "name": name, "state": "ready", "pid": 41231, "uptime_ms": 7_400_000, "protocol": "2025-11-25",
        "tools_exposed": 11, "tools_denied": 3, "calls": 512, "in_flight": 0, "errors": 0, "restarts": 0,
        "skipped_lines": 0, "stray_responses": 0,
    });
    let Value::Object(more) = more else { panic!("an object") };
    server.as_object_mut().expect("an object").extend(more);
    server
}

fn report(servers: Vec<Value>, agents: Vec<Value>) -> Report {
    let names: Vec<_> = servers.iter().map(|server| server["name"].clone()).collect();
    let few = &names[..names.len().min(2)];
    let profiles = json!([
        {"name": "default", "socket": "/run/user/1000/mcpd/mcp.sock", "servers": names, "tools": 30, "agents": 2},
        {"name": "reviewer", "socket": "/run/user/1000/mcpd/reviewer.sock", "servers": few, "tools": 4, "agents": 0},
    ]);
    let report = json!({
        "version": "1.2.3", "pid": 41200, "uptime_ms": 7_500_000, "settled": true, "servers": servers, "agents": agents,
        "profiles": profiles,
    });
    serde_json::from_value(report).expect("a report")
}

fn some() -> Report {
    let instance = |purpose, calls| {
        let uptime = 7_400_000;
        json!({"purpose": purpose, "state": "ready", "pid": 41302, "uptime_ms": uptime, "protocol": "2025-11-25",
               "calls": calls, "in_flight": 0, "errors": 0, "restarts": 0})
    };
    let git = json!({"instances": [instance("/home/u/projects/a-long-name/here", 31), instance("/home/u/b", 9)]});
    let web = json!({
        "state": "backoff", "pid": null, "uptime_ms": null, "reason": "exited with code 3 before its handshake was over",
        "retry_in_ms": 12_300, "restarts": 7, "stderr": ["Error: cannot open the index, since it is locked by another process"],
    });
    let servers = vec![
        server("files", json!({})),
        server("git", git),
        server("web", web),
        server("notes", json!({"state": "disabled", "disabled": true, "tools_disabled": ["write"]})),
    ];
    let agent = |session, client| {
        json!({"session": session, "profile": "default", "pid": 4242, "uid": 1000, "client": client, "protocol": "2025-11-25",
               "connected_ms": 61_000, "calls": 40})
    };
    report(servers, vec![agent(1, json!("claude-code 2.1.0")), agent(12, Value::Null)])
}

#[test]
fn server_without_stderr_points_to_the_doctor() {
    let silent = json!({"state": "backoff", "pid": null, "reason": "command `x` not found"});
    let drawn = render(&report(vec![server("web", silent)], Vec::new()), OutputStyle::PLAIN);
    assert!(drawn.contains("→ mcpd doctor web\n"), "{drawn}");
}

#[test]
fn server_that_needs_a_login_is_down_and_shows_the_command() {
    let locked = json!({"state": "needs_login", "pid": null, "reason": "there is no token of it"});
    let report = report(vec![server("web", locked)], Vec::new());
    assert!(is_down(&report.servers[0]));
    let drawn = render(&report, OutputStyle::PLAIN);
    let expected = "✗ web: needs a login: there is no token of it\n    → mcpd login web\n";
    assert!(drawn.contains("1 server, 1 down") && drawn.contains(expected), "{drawn}");
}

#[test]
fn a_server_with_a_url_is_shown_with_where_it_is_reached() {
    let up = json!({"pid": null, "remote": {"origin": "https://search.example.org", "transport": "streamable http"}});
    let down = json!({"state": "backoff", "pid": null, "remote": {"origin": "http://127.0.0.1:8080"}});
    let servers = vec![server("files", json!({})), server("search", up), server("web", down)];
    let drawn = render(&report(servers, Vec::new()), OutputStyle::PLAIN);
    let table = "REMOTE  ORIGIN                      TRANSPORT\n\
                 search  https://search.example.org  streamable http\n\
                 web     http://127.0.0.1:8080       –\n\n";
    assert!(drawn.contains(table), "{drawn}");
}

#[test]
fn quotas_that_were_reached_are_listed() {
    let mut report = some();
    let quota = |key, uid, used, refused| {
        serde_json::from_value(json!({"key": key, "uid": uid, "limit": 16, "used": used, "refused": refused}))
    };
    let quotas = [
        quota("max_calls", Value::Null, Some(3), 12),
        quota("rate", json!(1001), None, 340),
        quota("connections", Value::Null, Some(1), 0),
    ];
    report.profiles[1].quotas = quotas.map(|quota| quota.expect("a quota")).into();
    let drawn = render(&report, OutputStyle::PLAIN);
    let table = "\nQUOTA REACHED  PROFILE   USER  LIMIT  IN USE  REFUSED\n\
                 max_calls      reviewer     –     16       3       12\n\
                 rate           reviewer  1001     16       –      340\n";
    assert!(drawn.ends_with(table), "{drawn}");
}

#[test]
fn at_eighty_columns_nothing_is_wrapped_but_sentences() {
    let drawn = render(&some(), OutputStyle::of_width(80));
    assert_eq!(drawn, include_str!("tests/80.txt"), "\n{drawn}");
}

#[test]
fn a_narrow_terminal_has_what_matters_most() {
    let drawn = render(&some(), OutputStyle::of_width(40));
    assert_eq!(drawn, include_str!("tests/40.txt"), "\n{drawn}");
}

#[test]
fn where_there_is_no_width_every_column_is_there() {
    let drawn = render(&some(), OutputStyle::PLAIN);
    assert_eq!(drawn, include_str!("tests/piped.txt"), "\n{drawn}");
}

#[test]
fn a_thousand_servers_and_agents_are_no_wall() {
    let down = |at: usize| {
        if at.is_multiple_of(10) { json!({"state": "failed", "reason": "no such file"}) } else { json!({}) }
    };
    let servers = (0..1000).map(|at| server(&format!("s{at}"), down(at))).collect();
    let agents =
        (0..1000).map(|at| json!({"session": at, "profile": "default", "uid": 0, "connected_ms": 1, "calls": 0}));
    let drawn = render(&report(servers, agents.collect()), OutputStyle::of_width(80));
    assert!(drawn.lines().count() < 110, "{drawn}");
    for expected in ["1000 servers, 100 down · 1000 agents", "… 90 more", "… 960 more", "… 980 more"] {
        assert!(drawn.contains(expected), "no {expected}: {drawn}");
    }
}

#[test]
fn a_pipe_has_every_row() {
    let servers = (0..100).map(|at| {
        let tools: Vec<_> = (0..20).map(|tool| format!("tool-{at}-{tool}")).collect();
        server(
            &format!("s{at}"),
            json!({"state": "failed", "reason": format!("reason {at}."), "tools_disabled": tools}),
        )
    });
    let agents =
        (0..100).map(|at| json!({"session": at, "profile": "default", "uid": 0, "connected_ms": 1, "calls": 0, "client": format!("client-{at}.")}));
    let drawn = render(&report(servers.collect(), agents.collect()), OutputStyle::PLAIN);
    for at in 0..100 {
        for part in
            [format!("\n✗ s{at}: reason {at}."), format!("\ns{at} "), format!("tool-{at}-19"), format!(" client-{at}.")]
        {
            assert!(drawn.contains(&part), "no {part}: {drawn}");
        }
    }
    assert!(!drawn.contains('…') && !drawn.contains(" more"), "{drawn}");
}

#[test]
fn an_empty_daemon_says_what_to_do_next() {
    let drawn = render(&report(Vec::new(), Vec::new()), OutputStyle::of_width(200));
    for command in ["mcpd import", "mcpd add NAME COMMAND", "mcpd link CLIENT"] {
        assert!(drawn.contains(command), "no {command}: {drawn}");
    }
}

#[test]
fn operate_md_shows_what_is_printed() {
    let up = |more: Value| {
        let mut all = json!({"uptime_ms": 7_380_000});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let down = json!({"pid": null, "uptime_ms": null, "protocol": null, "tools_exposed": 0, "tools_denied": 0});
    let no_process = |more: Value| {
        let mut all = down.clone();
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let instance = |purpose: &str, pid: u32, uptime_ms: u64, calls: u64| {
        json!({"purpose": purpose, "state": "ready", "pid": pid, "uptime_ms": uptime_ms, "protocol": "2025-11-25",
               "calls": calls, "in_flight": 0, "errors": 0, "restarts": 0})
    };
    let instances = [instance("/home/u/a", 41302, 7_380_000, 31), instance("/home/u/b", 41377, 300_000, 9)];
    let git = json!({"pid": null, "tools_exposed": 12, "tools_denied": 0, "calls": 40, "instances": instances});
    let web = json!({"state": "backoff", "reason": "exited with code 3", "retry_in_ms": 12_300, "restarts": 7, "calls": 12,
                     "stderr": ["Error: cannot open the index, since it is locked by another process"]});
    let servers = vec![
        server("files", up(json!({}))),
        server("git", up(git)),
        server("web", no_process(web)),
        server("notes", no_process(json!({"state": "disabled", "disabled": true, "calls": 3}))),
    ];
    let agent = |session: u64, client: &str, pid: u32, connected_ms: u64, calls: u64| {
        json!({"session": session, "profile": "default", "pid": pid, "uid": 1000, "client": client, "protocol": "2025-11-25",
               "connected_ms": connected_ms, "calls": calls})
    };
    let agents =
        vec![agent(1, "claude-code 2.1.0", 4242, 7_200_000, 527), agent(2, "cursor-vscode 1.0.0", 4377, 310_000, 40)];
    let mut report = Report { version: "0.2.0".to_owned(), ..report(servers, agents) };
    (report.profiles[0].tools, report.profiles[1].tools) = (23, 4);
    let sums = |count: fn(&ServerReport) -> u64| report.servers.iter().map(count).sum::<u64>();
    assert_eq!(sums(|server| server.tools_exposed as u64), 23);
    assert_eq!(sums(|server| server.calls), report.agents.iter().map(|agent| agent.calls).sum::<u64>());
    let drawn = render(&report, OutputStyle::PLAIN);
    let page = include_str!("../../../docs/operate.md");
    assert!(page.contains(&format!("```text\n{drawn}```\n")), "operate.md does not have\n{drawn}");
}
