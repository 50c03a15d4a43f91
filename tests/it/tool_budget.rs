//! `mcpd tools --budget`: the cost of each profile, and the `allow` that fits a limit.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Daemon, Place, Server, Setup, Terminal};

/// A daemon with its configuration: 60 tools of two servers. In `big`, later tools are longer, and one has a description that Claude Code cuts.
fn daemon(place: &Rc<Place>) -> (Daemon, PathBuf) {
    let tool = |index: usize| {
        let length = if index == 49 { 3000 } else { 10 * index };
        json!({ "name": format!("{}_{index}", ["get", "put"][index % 2]), "description": "x".repeat(length), "inputSchema": { "type": "object" } })
    };
    let tools: Vec<_> = (0..50).map(tool).collect();
    let listing = place.write("listing", json!({ "tools": tools }).to_string());
    let big = Server::named("big")
        .flags("--tool put_49 --tool get_48 --tool-list")
        .arg(listing)
        .arg("--instructions")
        .arg(format!("Big. {}", "y".repeat(2100)));
    let small: String = (0..10).map(|index| format!(" --tool s{index}")).collect();
    let small = Server::named("small").flags(&format!("--bare{small}")).arg("--instructions").arg("Small.");
    let head = "[profiles.narrow]\nallow = ['small/*', 'big/get_*']\ndeny = ['big/get_0', 'small/s9']";
    let file = Setup::new().head(head).server(big).server(small).write(place);
    (Setup::new().config(file.clone()).start_in(place), file)
}

fn profile<'r>(report: &'r Value, name: &str) -> &'r Value {
    let profiles = report["profiles"].as_array().expect("profiles");
    profiles.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// The limit with this measure and value.
fn limit<'r>(profile: &'r Value, of: &str, max: usize) -> &'r Value {
    let limits = profile["limits"].as_array().expect("limits");
    limits.iter().find(|one| one["of"] == of && one["max"] == max).unwrap_or_else(|| panic!("no {max} {of}: {profile}"))
}

#[test]
fn each_profile_is_compared_with_the_limits_of_clients() {
    let place = Place::new();
    let (daemon, _) = daemon(&place);
    let report = daemon.client(&["tools", "--budget", "--json"]).expect_code(0).json();
    assert_eq!((&report["format"], &report["calls"]), (&json!(1), &json!(0)));
    let default = profile(&report, "default");
    let listed = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    let tokens = |server: &str| {
        let tools = listed["tools"].as_array().expect("tools").iter().filter(|tool| tool["server"] == server);
        tools.map(|tool| tool["tokens"].as_u64().expect("a number")).sum::<u64>()
    };
    assert_eq!(
        default["servers"],
        json!([
            { "name": "big", "tools": 50, "tokens": tokens("big"), "instructions_bytes": 2105 },
            { "name": "small", "tools": 10, "tokens": tokens("small"), "instructions_bytes": 6 },
        ])
    );
    assert_eq!((&default["tools"], &default["tokens"]), (&json!(60), &json!(tokens("big") + tokens("small"))));
    let fits = limit(default, "tools", 100);
    assert_eq!(
        (&fits["clients"], &fits["exceeded"], &fits["found"]),
        (&json!(["Windsurf"]), &json!(false), &json!(60))
    );
    assert_eq!(fits["allow"], Value::Null);
    let instructions = limit(default, "instructions", 2048);
    assert_eq!((&instructions["exceeded"], &instructions["over"]), (&json!(true), &json!(["big"])));
    assert_eq!(instructions["found"], default["instructions_bytes"]);
    assert_eq!(limit(default, "description", 2048)["over"], json!(["big__put_49"]));
    let narrow = profile(&report, "narrow");
    assert_eq!((&narrow["tools"], &limit(narrow, "tools", 40)["exceeded"]), (&json!(33), &json!(false)));
    let one = daemon.client(&["tools", "--budget", "--profile", "narrow", "--json"]).expect_code(0).json();
    assert_eq!(one["profiles"], json!([narrow]));
    let unknown = daemon.client(&["tools", "--budget", "--profile", "gone"]).expect_code(2);
    assert_eq!(unknown.stderr, "mcpd: there is no profile `gone`; the daemon has: default, narrow\n");
    daemon.client(&["tools", "--budget", "big"]).expect_code(2);
}

#[test]
fn printed_allow_fits_the_limit_and_keeps_called_tools() {
    let place = Place::new();
    let (daemon, config) = daemon(&place);
    // The two most expensive tools.
    for tool in ["big__put_49", "big__get_48", "big__put_49"] {
        daemon.client(&["call", tool]).expect_code(0);
    }
    let page = daemon.client(&["tools", "--budget", "--profile", "default"]).expect_code(0).stdout;
    let problem = page.lines().position(|line| line.starts_with("✗ 40 tools (Cursor of early 2025): 20 too many."));
    let snippet: Vec<_> = page.lines().skip(problem.expect("a limit") + 1).take(2).map(str::trim).collect();
    assert_eq!(snippet[0], "[profiles.default]", "{page}");
    assert!(page.ends_with("most in 3 recorded calls, then the cheapest.\n"), "{page}");
    let before = fs::read_to_string(&config).expect("the configuration");
    fs::write(&config, format!("{before}\n{}\n", snippet.join("\n"))).expect("writable");
    daemon.client(&["reload"]).expect_code(0);
    let report = daemon.client(&["tools", "--budget", "--json"]).expect_code(0).json();
    let default = profile(&report, "default");
    assert_eq!((&default["tools"], &limit(default, "tools", 40)["exceeded"]), (&json!(40), &json!(false)));
    let names = daemon.client(&["tools"]).expect_code(0).stdout;
    for kept in ["big__put_49", "big__get_48", "big__get_0", "small__s9"] {
        assert!(names.contains(kept), "{names}");
    }
    assert!(!names.contains("big__get_46"), "{names}");
}

#[test]
fn report_fits_a_terminal_of_eighty_columns() {
    let place = Place::new();
    let _daemon = daemon(&place);
    let Some(terminal) = Terminal::open(&place, 80, 60) else { return };
    terminal.line("clear; m tools --budget --profile default");
    let screen = terminal.wait_for("the report ends", |screen| screen.contains("No calls are recorded yet"));
    assert!(screen.contains("\n    allow = [\n      \"") && screen.contains("\n    ]\n"), "{screen}");
    assert!(screen.contains("✓ 80 tools (Cursor before 2.4), 100 tools (Windsurf), "), "{screen}");
}
