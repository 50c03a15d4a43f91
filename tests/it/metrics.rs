//! Metrics: durations, states and use, as `mcpd metrics` and `GET /metrics` print them.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_listener::loopback::free;
use crate::reload::{change, changing, text};
use crate::support::http_agent::{GET, HttpAgent};
use crate::support::{Agent, Daemon, Server, Setup, arguments, code, result, signal, until};

type Labels = BTreeMap<String, String>;

/// A scrape, read strictly.
struct Scraped(Vec<(String, Labels, f64)>);

impl Scraped {
    /// Reads a text of Prometheus 0.0.4, or of OpenMetrics if it ends so. Fails if a line is malformed, or if a histogram contradicts itself.
    fn read(text: &str) -> Self {
        let text = text.strip_suffix("# EOF\n").unwrap_or(text);
        let (mut types, mut samples, mut seen) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let (word, name) = (words.next().expect("a word"), words.next().expect("a name"));
                assert!(
                    ["HELP", "TYPE", "UNIT"].contains(&word) && words.next().is_some_and(|it| !it.is_empty()),
                    "{line}"
                );
                if word == "TYPE" {
                    let kind = comment.rsplit(' ').next().expect("a type");
                    assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
                }
                continue;
            }
            let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
            let is_name =
                |name: &str| name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') && !name.is_empty();
            assert!(is_name(name), "{line}");
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => read_labels(rest).unwrap_or_else(|| panic!("labels: {line}")),
                None => (Labels::new(), rest),
            };
            assert!(labels.keys().all(|label| is_name(label)), "{line}");
            let value =
                value.strip_prefix(' ').and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("value: {line}"));
            let has_type = types.keys().any(|of| {
                name.strip_prefix(&**of)
                    .is_some_and(|ending| ["", "_total", "_info", "_sum", "_count", "_bucket"].contains(&ending))
            });
            assert!(has_type, "no type: {line}");
            assert!(seen.insert((name.to_owned(), labels.clone())), "twice: {line}");
            samples.push((name.to_owned(), labels, value));
        }
        let scraped = Self(samples);
        for (name, _) in types.iter().filter(|(_, kind)| *kind == "histogram") {
            scraped.check_histogram(name);
        }
        scraped
    }

    fn check_histogram(&self, name: &str) {
        for (labels, count) in self.all(&format!("{name}_count")) {
            let mut last = 0.0;
            let buckets: Vec<_> = self
                .all(&format!("{name}_bucket"))
                .into_iter()
                .filter(|(of, _)| {
                    let mut of = of.clone();
                    of.remove("le");
                    of == labels
                })
                .collect();
            assert_eq!(buckets.len(), 15, "{name} {labels:?}");
            for (labels, value) in &buckets {
                assert!(*value >= last, "{name} {labels:?}");
                last = *value;
            }
            assert_eq!((last, buckets[14].0["le"].as_str()), (count, "+Inf"), "{name} {labels:?}");
        }
    }

    fn all(&self, name: &str) -> Vec<(Labels, f64)> {
        self.0.iter().filter(|(found, ..)| found == name).map(|(_, labels, value)| (labels.clone(), *value)).collect()
    }

    /// The sum of the values of the series that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |of: &Labels| {
            labels.iter().all(|(label, value)| of.get(*label).map(String::as_str).unwrap_or_default() == *value)
        };
        let values: Vec<_> = self.all(name).into_iter().filter(|(of, _)| has(of)).map(|(_, value)| value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The values of a label of a metric.
    fn values(&self, name: &str, label: &str) -> BTreeSet<String> {
        self.all(name).into_iter().filter_map(|(labels, _)| labels.get(label).cloned()).collect()
    }
}

fn read_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, char) in after.char_indices() {
            match (escaped, char) {
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, '\\') => escaped = true,
                (false, char) => value.push(char),
                (true, 'n') => (value, escaped) = (value + "\n", false),
                (true, char @ ('"' | '\\')) => (value, escaped) = (value + &char.to_string(), false),
                (true, _) => return None,
            }
        }
        labels.insert(name.to_owned(), value).is_none().then_some(())?;
        rest = &after[end? + 1..];
        match rest.split_at_checked(1)? {
            (",", after) => rest = after,
            ("}", after) => return Some((labels, after)),
            _ => return None,
        }
    }
}

fn scrape(daemon: &Daemon) -> Scraped {
    Scraped::read(&daemon.client(&["metrics"]).expect_code(0).stdout)
}

const OF_AGENTS: &str = "mcp_server_operation_duration_seconds_count";
const OF_SERVERS: &str = "mcp_client_operation_duration_seconds_count";

#[test]
fn requests_of_agents_and_to_servers_count_with_tool_and_error() {
    let daemon = Server::named("a").flags("--bare --tool echo --tool fail").start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    for _ in 0..3 {
        arguments(&agent.call("a__echo", &json!({})));
    }
    code(&agent.call("a__fail", &json!({"code": -32602})));
    code(&agent.call("a__fail", &json!({"code": 17})));
    let metrics = scrape(&daemon);
    for (metric, is_of_agent) in [(OF_AGENTS, true), (OF_SERVERS, false)] {
        let echo = [("mcpd_server", "a"), ("mcp_method_name", "tools/call"), ("gen_ai_tool_name", "echo")];
        assert_eq!(metrics.sum(metric, &echo), Some(3.0));
        let with = [("gen_ai_operation_name", "execute_tool"), ("error_type", ""), ("gen_ai_tool_name", "echo")];
        assert_eq!(metrics.sum(metric, &with), Some(3.0));
        let invalid = [("error_type", "-32602"), ("rpc_response_status_code", "-32602"), ("gen_ai_tool_name", "fail")];
        assert_eq!(metrics.sum(metric, &invalid), Some(1.0));
        assert_eq!(metrics.sum(metric, &[("error_type", "_OTHER"), ("gen_ai_tool_name", "fail")]), Some(1.0));
        assert_eq!(metrics.sum(metric, &[("mcp_method_name", "tools/list"), ("error_type", "")]), Some(1.0));
        let profile = if is_of_agent { "default" } else { "" };
        assert_eq!(
            metrics.values(metric, "mcpd_profile"),
            BTreeSet::from_iter(is_of_agent.then(|| profile.to_owned()))
        );
    }
    assert_eq!(metrics.sum(OF_AGENTS, &[("mcp_method_name", "initialize")]), Some(1.0));
    assert_eq!(metrics.sum("mcpd_server_calls_total", &[("mcpd_server", "a")]), Some(5.0));
    assert_eq!(metrics.sum("mcpd_server_call_errors_total", &[("mcpd_server", "a")]), Some(2.0));
    assert_eq!(metrics.sum("mcpd_agents", &[("mcpd_profile", "default")]), Some(1.0));
}

/// Case F8.
#[test]
fn names_that_agents_make_up_share_one_series() {
    let daemon = Server::named("a").flags("--bare --tool echo").start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    for n in 0..50 {
        code(&agent.call(&format!("a__made-up-{n}"), &json!({})));
        code(&agent.request(&format!("made/up-{n}"), &json!({})));
    }
    let metrics = scrape(&daemon);
    assert_eq!(metrics.values(OF_AGENTS, "gen_ai_tool_name"), BTreeSet::from(["_OTHER".to_owned()]));
    assert_eq!(metrics.sum(OF_AGENTS, &[("gen_ai_tool_name", "_OTHER"), ("error_type", "unknown_tool")]), Some(50.0));
    let methods = metrics.values(OF_AGENTS, "mcp_method_name");
    assert!(methods.iter().all(|method| !method.contains("made")), "{methods:?}");
    assert_eq!(metrics.values(OF_SERVERS, "gen_ai_tool_name"), BTreeSet::new());
}

#[test]
fn time_that_a_call_waits_counts_towards_the_agent_only() {
    let daemon = Setup::with(Server::named("s").line("max_concurrent = 1")).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let first = agent.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let second = agent.start_call("s__echo", &json!({}));
    daemon.wait_row("s", "has queued the second call", |row| row["calls_queued"] == 1);
    let state = |state| [("mcpd_server", "s"), ("mcpd_state", state)];
    let metrics = scrape(&daemon);
    for (name, expected) in [("in_flight", 1.0), ("queued", 1.0), ("parked", 0.0)] {
        assert_eq!(metrics.sum("mcpd_server_unanswered_calls", &state(name)), Some(expected), "{name}");
    }
    gate.open();
    arguments(&agent.answer(&second));
    result(&agent.answer(&first));
    let metrics = scrape(&daemon);
    assert_eq!(metrics.sum("mcpd_server_unanswered_calls", &[]), Some(0.0));
    let echo = [("gen_ai_tool_name", "echo")];
    let took = |side: &str| metrics.sum(&format!("mcp_{side}_operation_duration_seconds_sum"), &echo).expect("a sum");
    assert!(took("server") > took("client"), "{} {}", took("server"), took("client"));
}

#[test]
fn sessions_count_once_they_have_ended() {
    let daemon = Server::named("a").start();
    let agent = Agent::ready(&daemon);
    let none = scrape(&daemon);
    assert_eq!(none.sum("mcp_server_session_duration_seconds_count", &[]), None);
    agent.disconnect();
    let labels = [("mcpd_profile", "default"), ("mcp_protocol_version", "2025-11-25"), ("error_type", "")];
    until("the session is counted", || scrape(&daemon).sum("mcp_server_session_duration_seconds_count", &labels));
    signal(daemon.server_pid("a"), Signal::KILL);
    daemon.wait_row("a", "is ready again", |row| row["restarts"] == 1 && row["state"] == "ready");
    daemon.client(&["restart", "a"]).expect_code(0);
    let metrics = scrape(&daemon);
    let of_server = "mcp_client_session_duration_seconds_count";
    assert_eq!(metrics.sum(of_server, &[("mcpd_server", "a"), ("error_type", "signaled")]), Some(1.0));
    assert_eq!(metrics.sum(of_server, &[("mcpd_server", "a"), ("error_type", "")]), Some(1.0));
    assert_eq!(metrics.sum("mcpd_server_restarts_total", &[("mcpd_server", "a")]), Some(2.0));
    assert_eq!(metrics.sum("mcpd_server_failures", &[("mcpd_server", "a")]), Some(1.0));
}

#[test]
fn server_has_its_state_memory_and_processor_time() {
    let server = |name| Server::named(name).flags("--bare --tool echo");
    let sick = Server::named("sick").flags("--exit-at-start 3");
    let daemon = Setup::with(server("a")).server(sick).server(server("off")).start();
    daemon.client(&["disable", "off", "--stop"]).expect_code(0);
    daemon.wait_row("sick", "is in backoff", |row| row["state"] == "backoff");
    let has_guard = |row: &Value| row["usage"]["processes"].as_u64() >= Some(2);
    let row = daemon.wait_row("a", "is measured with its guard", has_guard);
    assert!(row["usage"]["memory_bytes"].as_u64() > Some(50_000), "{row}");
    let metrics = scrape(&daemon);
    assert_eq!(metrics.sum("mcpd_server_up", &[("mcpd_server", "a")]), Some(1.0));
    assert_eq!(metrics.sum("mcpd_server_up", &[("mcpd_server", "sick")]), Some(0.0));
    assert_eq!(metrics.sum("mcpd_server_up", &[("mcpd_server", "off")]), None);
    for metric in ["mcpd_server_memory_bytes", "mcpd_server_cpu_seconds_total", "mcpd_server_processes"] {
        assert!(metrics.sum(metric, &[("mcpd_server", "a")]).is_some(), "{metric}");
        assert_eq!(metrics.sum(metric, &[("mcpd_server", "off")]), None, "{metric}");
    }
    assert_eq!(metrics.sum("mcpd_server_list_items", &[("mcpd_server", "a"), ("mcpd_list", "tools")]), Some(1.0));
    assert!(metrics.sum("mcpd_server_list_size_bytes", &[("mcpd_server", "a"), ("mcpd_list", "tools")]) > Some(10.0));
    assert_eq!(metrics.sum("mcpd_server_sandbox_info", &[("mcpd_server", "a"), ("mcpd_level", "scope")]), Some(1.0));
    assert!(metrics.sum("process_resident_memory_bytes", &[]) > Some(1e6));
    assert!(metrics.sum("process_start_time_seconds", &[]) > Some(1.7e9));
}

#[test]
fn series_of_a_removed_server_go() {
    let (mut daemon, place) = changing(&[Server::named("a"), Server::named("b")]);
    let mut agent = Agent::ready(&daemon);
    for tool in ["a__echo", "b__echo"] {
        arguments(&agent.call(tool, &json!({})));
    }
    assert!(scrape(&daemon).values(OF_SERVERS, "mcpd_server").contains("b"));
    change(&mut daemon, text(&[Server::named("a")], &place), "reloaded");
    let metrics = scrape(&daemon);
    let servers: BTreeSet<_> = metrics.0.iter().filter_map(|(_, labels, _)| labels.get("mcpd_server")).collect();
    assert_eq!(servers, BTreeSet::from([&"a".to_owned()]));
}

/// Case H22.
#[test]
fn loopback_address_shows_only_what_its_profile_sees() {
    let (address, narrow) = (free(), free());
    let profiles = format!(
        "[profiles.default]\nhttp = '{address}'\n[profiles.narrow]\nhttp = '{narrow}'\nservers = ['a']\ndeny = ['a/fail']"
    );
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).head(&profiles).start();
    let mut agent = Agent::ready(&daemon);
    for tool in ["a__echo", "b__echo"] {
        arguments(&agent.call(tool, &json!({})));
    }
    code(&agent.call("a__fail", &json!({"code": -32602})));
    let mut of_narrow = Agent::ready_at(&daemon.profile_socket("narrow"));
    code(&of_narrow.call("a__fail", &json!({"code": -32602})));
    arguments(&of_narrow.call("a__echo", &json!({})));

    let token = |profile: &str| {
        let token = daemon.client(&["token", "--profile", profile]).expect_code(0).stdout;
        format!("{GET}Authorization: Bearer {}\r\n", token.trim_end())
    };
    let mut http = HttpAgent::connect_tcp(narrow);
    let reply = http.request("GET /metrics", &token("narrow"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    let metrics = Scraped::read(&reply.body);
    let servers: BTreeSet<_> = metrics.0.iter().filter_map(|(_, labels, _)| labels.get("mcpd_server")).collect();
    assert_eq!(servers, BTreeSet::from([&"a".to_owned()]));
    assert_eq!(metrics.values(OF_AGENTS, "mcpd_profile"), BTreeSet::from(["narrow".to_owned()]));
    let own: BTreeSet<_> = ["_OTHER", "echo"].map(str::to_owned).into();
    assert_eq!(metrics.values(OF_AGENTS, "gen_ai_tool_name"), own, "the name of a denied tool is hidden");
    assert_eq!(metrics.sum(OF_SERVERS, &[("gen_ai_tool_name", "echo")]), Some(2.0));
    assert_eq!(metrics.values(OF_SERVERS, "gen_ai_tool_name"), BTreeSet::from(["echo".to_owned()]));
    assert!(!reply.body.contains("process_") && !reply.body.contains("mcpd_agents"), "{}", reply.body);

    let open = token("default")
        .replace(GET, &GET.replace("Accept: text/event-stream", "Accept: application/openmetrics-text"));
    let reply = HttpAgent::connect_tcp(address).request("GET /metrics", &open);
    assert_eq!(reply.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(reply.body.ends_with("# EOF\n"), "{}", reply.body);
    let metrics = Scraped::read(&reply.body);
    assert_eq!(metrics.values(OF_AGENTS, "mcpd_server"), ["a", "b"].map(str::to_owned).into());

    for (what, headers, status) in [
        ("no token", GET.to_owned(), 401),
        ("the token of another profile", token("default"), 401),
        ("another host", token("narrow").replace("localhost", "evil.example.com"), 403),
    ] {
        assert_eq!(HttpAgent::connect_tcp(narrow).request("GET /metrics", &headers).status, status, "{what}");
    }
    let post =
        HttpAgent::connect_tcp(narrow).request("POST /metrics", &format!("{}Content-Length: 0\r\n", token("narrow")));
    assert_eq!(post.status, 405);
    assert_eq!(HttpAgent::connect(&daemon).request("GET /metrics", GET).status, 404, "agents on a socket have none");
}
