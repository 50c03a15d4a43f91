//! `mcpd tools`: listed tools, details of one tool, and with `--all` the hidden tools with the rule that hides each.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Daemon, Place, Server, Setup};

/// Tools with all that a person wants to know of them.
fn listing() -> Value {
    let path = json!({ "type": "string", "description": "Path of\nthe file" });
    let level = json!({ "anyOf": [{ "enum": ["low", "high"] }, { "type": "null" }], "default": null });
    let read = json!({
        "name": "read",
        "description": "Reads a file\n\nof any size",
        "inputSchema": {
            "type": "object",
            "properties": { "path": path, "head": { "type": "integer" }, "level": level },
            "required": ["path"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true },
    });
    let write = json!({ "name": "write", "description": "Writes", "inputSchema": { "type": "object" } });
    let odd = json!({ "name": "odd\u{202e}", "inputSchema": { "type": "object" } });
    json!({ "tools": [read, write, odd, write] })
}

/// A server that lists these, one with two plain tools, and one that does not start.
fn daemon() -> Daemon {
    let place = Place::new();
    let file = place.write("listing", listing().to_string());
    start(&place, Server::named("files").arg("--tool-list").arg(file))
}

fn start(place: &Rc<Place>, files: Server) -> Daemon {
    let head = "[defaults]\ndeny = ['sec*']\n[profiles.narrow]\nservers = ['files']\ndeny = ['*/wr*']\n\
        [profiles.reader]\ntools.read_only = true\n[profiles.none]\nexpose = ['prompts']";
    let git = Server::named("git").flags("--bare --tool log --tool secret --tool push").line("deny = ['pull', 'p*']");
    let web = Server::run_by("web", "false");
    Setup::new().head(head).server(files).server(git).server(web).start_in(place)
}

/// What is printed, beside a hint at the server that does not start.
fn show_tools(daemon: &Daemon, args: &[&str]) -> String {
    let ran = daemon.client(&[&["tools"], args].concat()).expect_code(0);
    assert!(ran.stderr.is_empty() || is_hint(&ran.stderr), "{ran}");
    ran.stdout
}

fn is_hint(text: &str) -> bool {
    text.starts_with("mcpd: not listed yet: web (") && text.ends_with(")\n") && text.lines().count() == 1
}

#[test]
fn servers_that_have_not_listed_are_named() {
    let daemon = daemon();
    for options in [&[][..], &["--json"], &["--profile", "reader"]] {
        let ran = daemon.client(&[&["tools"], options].concat()).expect_code(0);
        assert!(is_hint(&ran.stderr), "{ran}");
    }
    let elsewhere = daemon.client(&["tools", "--profile", "narrow"]).expect_code(0);
    assert_eq!(elsewhere.stderr, "", "the profile lacks that server");
    let all = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    let missing = all["servers"].as_array().expect("servers").iter().filter(|one| one["missing"] == true);
    assert_eq!(missing.map(|one| &one["name"]).collect::<Vec<_>>(), ["web"]);
}

#[test]
fn tool_that_requires_a_task_is_reported_as_left_out_for_modern_agents() {
    let daemon = Server::named("s").flags("--tasks --task-only build").start();
    let why = "not listed for agents of MCP 2026-07-28: it can only be called as a task";
    for options in [&[][..], &["--json"]] {
        let ran = daemon.client(&[&["tools"], options].concat()).expect_code(0);
        assert_eq!(ran.stderr, format!("mcpd: s__build is {why}\n"), "{ran}");
    }
    let all = daemon.client(&["tools", "--all"]).expect_code(0);
    let is_it = |line: &str| line.contains("s__build") && line.ends_with(why);
    assert_eq!(all.stdout.lines().filter(|line| is_it(line)).count(), 1, "{all}");
    let all = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    for tool in all["tools"].as_array().expect("tools") {
        let expected = if tool["tool"] == "build" { json!("task_only") } else { Value::Null };
        assert_eq!(tool["hidden_from_modern"], expected, "{tool}");
    }
}

#[test]
fn tools_are_listed_below_their_servers_with_their_token_costs() {
    let daemon = daemon();
    let expected = "files · 2 tools · ~81 tokens\n  files__read   Reads a file\n  files__write  Writes\n\n\
        git · 1 tool · ~19 tokens\n  git__log      café / é\n\n3 tools of 2 servers · ~100 tokens\n";
    assert_eq!(show_tools(&daemon, &[]), expected);
    let status = daemon.client(&["status", "--json"]).json();
    assert_eq!([&status["servers"][0]["tokens"], &status["servers"][1]["tokens"]], [&json!(81), &json!(19)]);
}

#[test]
fn server_pattern_and_profile_narrow_the_list() {
    let daemon = daemon();
    assert_eq!(show_tools(&daemon, &["git"]), "git · 1 tool · ~19 tokens\n  git__log  café / é\n");
    assert!(show_tools(&daemon, &["*write"]).starts_with("files · 1 tool"));
    assert!(!show_tools(&daemon, &["--profile", "narrow"]).contains("write"));
    let json = daemon.client(&["tools", "*write", "--json"]).expect_code(0).json();
    assert_eq!(json["tools"].as_array().expect("a list").len(), 1);
    assert_eq!(json["tools"][0]["name"], "files__write");
    let unknown = daemon.client(&["tools", "fils"]).expect_code(2);
    assert_eq!(
        unknown.stderr,
        "mcpd: agents see no server or tool called `fils`: did you mean `files`?\n\
        write a tool as `mcpd tools` prints it, such as `files__read`, or as SERVER/TOOL, such as `files/read`\n"
    );
    let down = daemon.client(&["tools", "web"]).expect_code(1);
    assert!(down.stderr.starts_with("mcpd: agents see no tools of `web` ("), "{down}");
    assert!(down.stderr.contains("`mcpd doctor web`"), "{down}");
    let hidden = daemon.client(&["tools", "git", "--profile", "narrow"]).expect_code(1);
    assert!(hidden.stderr.ends_with(": `mcpd tools git --profile narrow --all` shows why\n"), "{hidden}");
    let all = daemon.client(&["tools", "gitt", "--all"]).expect_code(2);
    assert_eq!(
        all.stderr,
        "mcpd: there is no server or tool `gitt`: did you mean `git`?\n\
        write a tool as `mcpd tools` prints it, such as `files__read`, or as SERVER/TOOL, such as `files/read`\n"
    );
    let denied = daemon.client(&["tools", "git__push"]).expect_code(2);
    assert_eq!(denied.stderr, "mcpd: agents do not see `git/push`: denied by `p*` of [servers.git]\n");
    let outside = daemon.client(&["tools", "git/log", "--profile", "narrow"]).expect_code(2);
    assert_eq!(
        outside.stderr,
        "mcpd: agents of profile `narrow` do not see `git/log`: its server is not in the profile\n"
    );
}

#[test]
fn one_tool_is_shown_with_all_that_a_call_needs() {
    let daemon = daemon();
    let expected = "files__read · ~69 tokens · declared read-only\nReads a file\n\nof any size\n\n\
        ARGUMENT  TYPE         REQUIRED  DESCRIPTION\n\
        path      string       yes       Path of the file\n\
        head      integer      no\n\
        level     string|null  no        one of \"low\", \"high\", null; default null\n\n\
        mcpd call files__read path=PATH\n";
    assert_eq!(show_tools(&daemon, &["files__read"]), expected);
    assert!(show_tools(&daemon, &["files__write"]).ends_with("no arguments\n\nmcpd call files__write\n"));
}

#[test]
fn operator_sees_hidden_tools_and_the_rule_that_hides_each() {
    let daemon = daemon();
    daemon.client(&["disable", "files/write"]).expect_code(0);
    let expected = "files · 1 tool · 3 hidden · ~69 tokens\n\
        \x20 files__read  Reads a file\n\
        \x20 write        disabled: `mcpd enable files/write`\n\
        \x20 odd\\u{202e}  its name is too long or has invisible characters\n\
        \x20 write        disabled: `mcpd enable files/write`\n\n\
        git · 1 tool · 2 hidden · ~19 tokens\n\
        \x20 git__log     café / é\n\
        \x20 secret       denied by `sec*` of [defaults]\n\
        \x20 push         denied by `p*` of [servers.git]\n\n";
    let all = show_tools(&daemon, &["--all"]);
    assert!(all.starts_with(expected), "{all}");
    assert!(["backoff", "starting"].iter().any(|state| all.contains(&format!("web · 0 tools · {state}\n"))), "{all}");
    assert!(all.ends_with("2 tools of 3 servers · 5 hidden · ~88 tokens\n"), "{all}");
    daemon.client(&["enable", "files/write"]).expect_code(0);
    daemon.client(&["disable", "git"]).expect_code(0);
    assert!(show_tools(&daemon, &["git", "--all"]).contains("log     its server is disabled: `mcpd enable git`\n"));
    assert!(show_tools(&daemon, &["files/*", "--all"]).contains("write         its server lists it twice\n"));
    assert!(!show_tools(&daemon, &[]).contains("secret"));
}

#[test]
fn tools_hidden_by_a_profile_name_the_profile() {
    let daemon = daemon();
    let all = |profile: &str| show_tools(&daemon, &["--all", "--profile", profile]);
    let narrow = all("narrow");
    assert!(narrow.contains("write        denied by `wr*` of [profiles.narrow]\n"), "{narrow}");
    assert!(narrow.contains("log          its server is not in the profile\n"), "{narrow}");
    assert!(all("reader").contains("not declared read-only, as `tools.read_only` of [profiles.reader] requires\n"));
    assert!(all("none").contains("`expose` of [profiles.none] does not include tools\n"));
    let unknown = daemon.client(&["tools", "--all", "--profile", "nobody"]).expect_code(1);
    assert!(unknown.stderr.contains("there is no profile `nobody`; the daemon has: default, narrow, reader, none"));
}

#[test]
fn json_output_has_the_same_facts_in_one_object() {
    let daemon = daemon();
    let report = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    assert_eq!((&report["format"], &report["profile"]), (&json!(1), &json!("default")));
    assert_eq!(report["servers"][0], json!({ "name": "files", "state": "ready", "instructions_bytes": 0 }));
    let push = report["tools"].as_array().expect("a list").iter().find(|tool| tool["tool"] == "push").expect("listed");
    assert_eq!(push["hidden"], json!({ "why": "deny", "pattern": "p*", "table": "servers.git" }));
    assert_eq!((&push["name"], &push["server"]), (&Value::Null, &json!("git")));
    let read = &report["tools"][0];
    assert_eq!((&read["name"], &read["hidden"], &read["tokens"]), (&json!("files__read"), &Value::Null, &json!(69)));
    assert_eq!(read["description_bytes"], "Reads a file\n\nof any size".len());
}

/// What is cut is the list of the operator's socket, too, in messages that each fit.
#[test]
fn ten_thousand_tools_are_listed() {
    let place = Place::new();
    let tool = |n: usize| json!({ "name": format!("t{n}"), "description": "x".repeat(600), "inputSchema": {"type": "object"} });
    let listing = json!({ "tools": (0..10_000).map(tool).collect::<Vec<_>>() });
    let file = place.write("listing", listing.to_string());
    let daemon = Setup::with(Server::named("a").arg("--tool-list").arg(file).line("deny = ['t1*']")).start_in(&place);
    let report = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    assert_eq!(report["tools"].as_array().expect("a list").len(), 10_000);
    assert!(show_tools(&daemon, &[]).contains("8889 tools · "));
}
