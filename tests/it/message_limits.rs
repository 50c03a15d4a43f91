//! The size limits of messages: of the daemon, of a server and of a profile, in both directions; and lists that would exceed them.

use std::fs;
use std::rc::Rc;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Server, Setup, Shim, arguments, code, result, until};

const LARGE: usize = 200_000;
const SMALL_LIMIT: usize = 128 << 10;

/// A daemon with the profile `p`. Each of the tables has this limit, in KiB, or none if it is 0.
fn start(daemon: u32, server: u32, profile: u32) -> Daemon {
    let key = |kib: u32| if kib == 0 { String::new() } else { format!("max_message = \"{kib}KiB\"") };
    let head = format!("[daemon]\n{}\n[profiles.p]\n{}", key(daemon), key(profile));
    Setup::with(Server::named("a").line(key(server))).head(&head).start()
}

fn agent(daemon: &Daemon) -> Agent {
    Agent::ready_at(&daemon.profile_socket("p"))
}

/// Fails unless `answer` is the error for a message that exceeds the limit of this table.
#[track_caller]
fn expect_too_large(answer: &Value, outcome: &str, size: usize, table: &str) {
    assert_eq!((code(answer), &answer["error"]["data"]["outcome"]), (-31006, &json!(outcome)), "{answer}");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.ends_with(&format!("more than the {size} of `max_message` in `[{table}]`")), "{message}");
    assert!(message.contains("has 200"), "the size of the message: {message}");
}

/// Leaves a process this many bytes of address space.
fn limit_address_space(pid: u32, left: u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let current = Some(used.and_then(|used| used.parse::<u64>().ok()).expect("a size") * 1024 + left);
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    prlimit(pid, Resource::As, Rlimit { current, maximum: current }).expect("one's own process");
}

/// Case B4.
#[test]
fn message_that_exceeds_the_address_space_is_refused_and_the_daemon_serves_on() {
    let daemon = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"128MiB\"\n").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    limit_address_space(daemon.pid(), 48 << 20);
    let answer = agent.call("a__echo", &json!({"text": "x".repeat(40 << 20)}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("not_sent")), "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("could reserve memory")), "{answer}");
    let answer = agent.call("a__big", &json!({"bytes": 40 << 20}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("unknown")), "{answer}");
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case B4.
#[test]
fn message_that_exceeds_the_address_space_of_mcpd_connect_ends_only_its_request() {
    let daemon = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"128MiB\"\n").start();
    let mut agent = Shim::ready(daemon.place());
    arguments(&agent.call("a__echo", &json!({})));
    limit_address_space(agent.pid(), 48 << 20);
    let answer = agent.call("a__big", &json!({"bytes": 40 << 20}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("unknown")), "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("could reserve memory")), "{answer}");
    // A request is forwarded in parts.
    result(&agent.call("a__big", &json!({"bytes": 1, "text": "x".repeat(40 << 20)})));
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case B4.
#[test]
fn list_that_exceeds_the_address_space_lacks_whole_tools_and_the_daemon_serves_on() {
    let place = Place::new();
    let mut setup = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"128MiB\"\n");
    setup = setup.server(Server::named("other"));
    for n in 0..7 {
        let list = tools((0..60).map(|tool| (format!("t{tool}"), 100_000)));
        let file = place.write(&format!("{n}.json"), list);
        setup = setup.server(Server::named(&format!("big{n}")).arg("--tool-list").arg(file));
    }
    let daemon = setup.start_in(&place);
    let count = || Agent::ready(&daemon).tools().iter().filter(|name| name.starts_with("big")).count();
    until("all lists have arrived", || (count() == 420).then_some(()));
    limit_address_space(daemon.pid(), 24 << 20);
    daemon.client(&["disable", "other"]).expect_code(0);
    let left = count();
    assert!(left < 420, "{left}");
    assert_ne!(daemon.status()["profiles"][0]["cut"]["count"], 0);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}

/// Case B4.
#[test]
fn smaller_limit_of_the_two_connections_of_a_call_applies_and_is_named() {
    // The limits of the daemon, of the server and of the profile; the table that the error of the request names, and that of the response.
    for (limits, request, response) in [
        ((128, 0, 0), Some("daemon"), Some("daemon")),
        ((128, 512, 0), Some("daemon"), Some("daemon")),
        ((128, 512, 512), None, None),
        ((512, 128, 0), Some("servers.a"), Some("servers.a")),
        ((512, 128, 128), Some("profiles.p"), Some("servers.a")),
        ((512, 512, 128), Some("profiles.p"), Some("profiles.p")),
        ((512, 0, 0), None, None),
    ] {
        let daemon = start(limits.0, limits.1, limits.2);
        let mut agent = agent(&daemon);
        let answer = agent.call("a__echo", &json!({"text": "x".repeat(LARGE)}));
        match request {
            Some(table) => expect_too_large(&answer, "not_sent", SMALL_LIMIT, table),
            None => drop(arguments(&answer).clone()),
        }
        let answer = agent.call("a__big", &json!({"bytes": LARGE}));
        match response {
            Some(table) => expect_too_large(&answer, "unknown", SMALL_LIMIT, table),
            None => drop(result(&answer).clone()),
        }
        arguments(&agent.call("a__echo", &json!({})));
        let journal = daemon.journal("a");
        assert_eq!(journal.iter().any(|line| line.len() > LARGE), request.is_none(), "{limits:?}");
        assert_eq!(daemon.row("a")["restarts"], 0);
    }
}

#[test]
fn default_limit_permits_messages_of_almost_10_mib_in_both_directions() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let limit = (10 << 20) - (64 << 10);
    for (size, expected) in [(limit - 1000, None), (limit + 1, Some(-31006))] {
        for (tool, arguments) in [("a__echo", json!({"text": "x".repeat(size)})), ("a__big", json!({"bytes": size}))] {
            let answer = agent.call(tool, &arguments);
            assert_eq!(answer["error"]["code"].as_i64(), expected, "{tool} with {size} bytes");
        }
    }
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn limit_of_a_server_applies_in_all_pairs_of_eras() {
    for (agent_era, server_era) in Era::pairs() {
        let server = server_era.server("s").line("max_message = \"128KiB\"");
        let daemon = Setup::with(server).start();
        let mut agent = agent_era.agent(&daemon, &json!({}));
        let answer = agent.call("s__echo", &json!({"text": "x".repeat(LARGE)}));
        expect_too_large(&answer, "not_sent", SMALL_LIMIT, "servers.s");
        let answer = agent.call("s__big", &json!({"bytes": LARGE}));
        expect_too_large(&answer, "unknown", SMALL_LIMIT, "servers.s");
        arguments(&agent.call("s__echo", &json!({})));
    }
}

/// Case B4.
#[test]
fn server_gets_an_error_for_a_request_or_an_answer_that_exceeds_the_limit_of_one_connection() {
    const SAMPLE: &str = "sampling/createMessage";
    let capabilities = json!({"sampling": {}});
    let daemon = start(128, 512, 0);
    let mut agent = Agent::with_capabilities(&daemon, &capabilities);
    let request =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"ask\",\"method\":\"{SAMPLE}\",\"params\":{{\"x\":\"$FILL\"}}}}\n");
    arguments(&agent.call("a__raw", &json!({"text": request, "fill": LARGE})));
    let answer = serde_json::from_str(&daemon.wait_journal("a", "\"id\":\"ask\"")).expect("JSON");
    expect_too_large(&answer, "not_sent", SMALL_LIMIT, "daemon");
    // A notification over the limit is dropped.
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"$FILL\"}}\n";
    arguments(&agent.call("a__raw", &json!({"text": notification, "fill": LARGE})));
    agent.expect_quiet();

    let daemon = start(512, 128, 0);
    let mut agent = Agent::with_capabilities(&daemon, &capabilities);
    let call = agent.start_call("a__send_request", &json!({"method": SAMPLE}));
    let request = agent.expect_request(SAMPLE);
    agent.respond(&request, &json!("x".repeat(LARGE)));
    let received = result(&agent.answer(&call))["structuredContent"].clone();
    expect_too_large(&received, "unknown", SMALL_LIMIT, "servers.a");
    agent.expect_quiet();
}

fn tools(names: impl Iterator<Item = (String, usize)>) -> String {
    let tool = |(name, size): (String, usize)| json!({"name": name, "inputSchema": {"type": "object"}, "description": "x".repeat(size)});
    json!({ "tools": names.map(tool).collect::<Vec<_>>() }).to_string()
}

/// A server that lists these tools.
fn lister(place: &Rc<Place>, name: &str, list: impl Iterator<Item = (String, usize)>) -> Server {
    let server = Server::named(name).line("max_message = \"1MiB\"");
    server.arg("--tool-list").arg(place.write(&format!("{name}.json"), tools(list)))
}

/// Case B4.
#[test]
fn list_that_would_exceed_the_limit_lacks_whole_tools_of_the_largest_servers() {
    let place = Place::new();
    let many = |count: usize, size: usize| (0..count).map(move |n| (format!("t{n}"), size));
    let setup = Setup::with(lister(&place, "small", many(3, 100)))
        .server(lister(&place, "big", many(40, 10_000)))
        .server(lister(
            &place,
            "odd",
            many(3, 100).chain([("giant".to_owned(), LARGE)]).chain([("last".to_owned(), 1)]),
        ))
        .head("[daemon]\nmax_message = \"128KiB\"");
    let daemon = setup.start_in(&place);
    for mut agent in [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))] {
        let answer = agent.request("tools/list", &json!({}));
        assert!(answer.to_string().len() <= SMALL_LIMIT);
        let listed: Vec<_> = result(&answer)["tools"].as_array().expect("a list").iter().collect();
        let is_of = |tool: &Value, server: &str| tool["name"].as_str().is_some_and(|name| name.starts_with(server));
        let count = |server: &str| listed.iter().filter(|tool| is_of(tool, server)).count();
        assert_eq!((count("small__"), count("odd__")), (3, 4));
        assert!((3..13).contains(&count("big__")), "{}", count("big__"));
        assert_eq!(code(&agent.call("odd__giant", &json!({}))), -32602);
        assert_eq!(code(&agent.call("big__t39", &json!({}))), -32602);
        assert!(!daemon.journal("odd").iter().any(|line| line.contains("\"giant\"")));
        assert!(!daemon.journal("big").iter().any(|line| line.contains("\"t39\"")));
    }
    let report = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    let all: Vec<_> = report["tools"].as_array().expect("a list").iter().collect();
    let cut: Vec<_> = all.iter().filter(|tool| tool["hidden"]["why"] == "cut").map(|tool| &tool["tool"]).collect();
    assert!(cut.contains(&&json!("giant")) && cut.contains(&&json!("t39")), "{cut:?}");
    let status = daemon.status();
    assert_eq!(status["profiles"][0]["cut"]["count"], cut.len(), "{}", status["profiles"]);
    let shown = daemon.client(&["status"]);
    assert!(shown.stdout.contains("big/t") && shown.stdout.contains("not listed"), "{shown}");
}

#[test]
fn other_lists_are_cut_by_whole_items() {
    let all = |item: fn(u32) -> Value| (0..40).map(item).collect::<Vec<_>>();
    fn text() -> String {
        "x".repeat(10_000)
    }
    let library = json!({
        "prompts": all(|n| json!({"name": format!("p{n}"), "description": text()})),
        "resources": all(|n| json!({"uri": format!("x://{n}"), "name": "r", "description": text()})),
        "resourceTemplates": all(|n| json!({"uriTemplate": format!("x://{n}/{{id}}"), "name": "t", "description": text()})),
    });
    let server = Server::named("s").line("max_message = \"1MiB\"");
    let server = server.library(library);
    let daemon = Setup::with(server).head("[daemon]\nmax_message = \"128KiB\"").start();
    let mut agent = Agent::ready(&daemon);
    for (method, member) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let answer = agent.request(method, &json!({}));
        let listed = result(&answer)[member].as_array().expect("a list").len();
        assert!((5..13).contains(&listed) && answer.to_string().len() <= SMALL_LIMIT, "{method}: {listed}");
    }
    result(&agent.request("resources/read", &json!({"uri": "x://0"})));
    assert!(agent.request("resources/read", &json!({"uri": "x://39"}))["error"].is_object());
    assert!(daemon.status()["profiles"][0]["cut"]["count"].as_u64() > Some(80));
}
