//! Servers that are nearly right: their reasons quote what they have left, and the advice follows from it.

use std::fs;

use serde_json::json;

use super::{Finding, doctor, findings};
use crate::support::http::{Behavior, Front, Response};
use crate::support::{
    Agent, Daemon, Place, Ran, Server, Setup, kernel_has_landlock, result, system_has_namespaces, until,
};

/// A server that a shell runs, with this time to answer. `hang` reads all messages and answers none.
fn shell(name: &str, script: &str, handshake_timeout: &str) -> Server {
    let timeout = format!("handshake_timeout = \"{handshake_timeout}\"");
    let script = format!("hang() {{ while read line; do :; done; }}; {script}");
    Server::run_by(name, "sh").arg("-c").arg(script).line("era = \"legacy\"").line(timeout)
}

/// The row of a server once its reason has this part.
fn row_with(daemon: &Daemon, name: &str, part: &str) -> serde_json::Value {
    daemon.wait_row(name, &format!("names {part}"), |row| {
        row["reason"].as_str().is_some_and(|reason| reason.contains(part))
    })
}

#[track_caller]
fn problem(ran: &Ran, name: &str) -> Finding {
    let of_server = |one: &Finding| one.get("group") == "servers" && one.get("about") == name;
    let found = findings(ran).into_iter().find(|one| of_server(one) && one.get("level") == "problem");
    found.unwrap_or_else(|| panic!("no problem of {name}: {ran}"))
}

/// A script, and what the reason, the cause and the advice of its server are.
const SCRIPTS: [(&str, &str, &str, &str, &str); 13] = [
    (
        "http",
        "echo 'Listening on http://0.0.0.0:8080/mcp.'; hang",
        "it seems to serve HTTP: write `url = \"http://127.0.0.1:8080/mcp\"` beside its `command`",
        "http_server",
        "option for stdio",
    ),
    (
        "header",
        r"printf 'content-length: 36\r\n\r\n{}'; hang",
        "it sends `Content-Length` headers",
        "header_framing",
        "language server",
    ),
    (
        "id",
        r#"for i in 1 2 3; do echo '{"jsonrpc":"2.0","id":0,"result":{}}'; done; hang"#,
        "it sent 3 answers with ids that no request had, the first `0`",
        "unused_ids",
        "has to repeat the id",
    ),
    (
        "error",
        r#"echo '{"jsonrpc":"2.0","id":"x","error":{"code":-32700,"message":"Parse error"}}'; hang"#,
        r#"no request had: `"x"`, with the error `{"code":-32700,"message":"Parse error"}`"#,
        "unused_ids",
        "has to repeat the id",
    ),
    (
        "unended",
        r#"printf '{"jsonrpc":"2.0","id":1,"result":{}}'; hang"#,
        r#"it has not ended the line of its message `{"jsonrpc":"2.0","id":1,"result":{}}`"#,
        "unended_message",
        "has to end with a line feed",
    ),
    (
        "banner",
        "echo 'Serving on stdio'; echo ready; hang",
        "it sent 2 lines that are no messages, the first `Serving on stdio`",
        "skipped_lines",
        "so that it serves MCP on stdio",
    ),
    (
        "pretty",
        r#"printf '{\n  "jsonrpc": "2.0",\n  "id": 1\n}\n'; hang"#,
        "it sent 4 lines that are no messages, the first `{`",
        "skipped_lines",
        "so that it serves MCP on stdio",
    ),
    (
        "usage",
        "printf 'Usage: usage [options]'; exit 2",
        "exited with code 2; it sent a line that is no message: `Usage: usage [options]`",
        "skipped_lines",
        "correct `command` and `args`",
    ),
    (
        "unread",
        "exec tail -f /dev/null",
        "did not answer `initialize` within 700ms (`handshake_timeout`); it has read nothing from its stdin",
        "stdin_unread",
        "runs in the foreground and uses the stdin",
    ),
    (
        "finished",
        "exit 0",
        "exited with code 0; it has read nothing from its stdin",
        "stdin_unread",
        "runs in the foreground and uses the stdin",
    ),
    ("closed", "exec >&-; hang", "closed its stdout", "stream_closed", "runs in the foreground and uses the stdin"),
    (
        "last",
        "read line; exit 3",
        "exited with code 3; the last message to it was `initialize`",
        "last_message",
        "with the message that it ended over",
    ),
    (
        "secret",
        "echo \"token $TOKEN given\"; hang",
        "it sent a line that is no message: `token ",
        "skipped_lines",
        "so that it serves MCP on stdio",
    ),
];

/// Case A24.
#[test]
fn reason_quotes_what_the_server_has_left_and_the_advice_follows_from_it() {
    let place = Place::new();
    let token = place.write("token", "very-secret-value");
    let server = |(name, script, ..): (&str, &str, &str, &str, &str)| {
        shell(name, script, "700ms").env("TOKEN", &format!("${{file:{}}}", token.display()))
    };
    // A line counts as ended after 1 s.
    let question = shell("question", "printf 'Your name? ' >&2; hang", "3s");
    let daemon = SCRIPTS.into_iter().map(server).fold(Setup::with(question), Setup::server).start_in(&place);
    for (name, _, part, cause, _) in SCRIPTS {
        let row = row_with(&daemon, name, part);
        assert_eq!(row["cause"], cause, "{row}");
    }
    let row = row_with(&daemon, "question", "its last line on stderr has no end: `Your name?`");
    assert_eq!(row["cause"], "question", "{row}");
    let ran = doctor(&daemon);
    for (name, _, part, cause, advice) in SCRIPTS {
        let finding = problem(&ran, name);
        assert!(finding.get("found").contains(part) && finding.get("advice").contains(advice), "{finding:?}");
        assert!(!finding.get("advice").contains("wrote nothing to stderr"), "{cause}: {finding:?}");
    }
    let status = daemon.client(&["status"]);
    assert!(status.stdout.contains("the first `Serving on stdio`"), "{status}");
    for text in [&ran.stdout, &status.stdout, &daemon.log()] {
        assert!(!text.contains("very-secret-value"), "{text}");
    }
}

/// Case A25.
#[test]
fn crash_is_shown_by_its_message() {
    let rows = [
        (
            "node",
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'ajv'\nRequire stack:\n- /s/i.js\n    \
             at a (b:1)\n    at c (d:1)\n    at e (f:1)\n    at g (h:1) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/s/i.js' ]\n}\n\nNode.js v22.1.0\n",
            "Error: Cannot find module 'ajv'",
        ),
        (
            "python",
            "Traceback (most recent call last):\n  File \"/s/m.py\", line 1, in <module>\n    import mcp\nModuleNotFoundError: No module named 'mcp'\nbye\nbye\n",
            "ModuleNotFoundError: No module named 'mcp'",
        ),
        (
            "go",
            "panic: no token\n\ngoroutine 1 [running]:\nmain.a()\n\t/s/main.go:9 +0x25\nmain.b()\n\t/s/main.go:7 +0x25\nmain.c()\n\t/s/main.go:5 +0x25\nmain.main()\n\t/s/main.go:4 +0x25\nexit status 2\n",
            "panic: no token",
        ),
    ];
    let place = Place::new();
    let server = |(name, text, _): &(&str, &str, &str)| {
        let file = place.write(&format!("{name}.txt"), text);
        shell(name, &format!("cat {} >&2; exit 1", file.display()), "30s")
    };
    let daemon = rows.iter().map(server).fold(Setup::new(), Setup::server).start_in(&place);
    for (name, _, message) in &rows {
        let shown = |row: &serde_json::Value| row["stderr"].to_string().contains(&message.replace('"', "\\\""));
        daemon.wait_row(name, "has reported a crash", |row| row["state"] == "backoff" && shown(row));
    }
    let (ran, status) = (doctor(&daemon), daemon.client(&["status"]));
    for (name, _, message) in &rows {
        let finding = problem(&ran, name);
        assert!(finding.0["lines"].to_string().contains(message), "{finding:?}");
        assert!(finding.get("advice").contains("fix what its last lines report"), "{finding:?}");
        assert!(status.stdout.contains(message), "{status}");
        assert!(daemon.log().contains(&format!("stderr={message}")), "{}", daemon.log());
    }
}

/// Case A24.
#[test]
fn advice_for_a_container_without_stdin_is_its_option() {
    let place = Place::new();
    let docker = place.write_program("tools/docker", "#!/bin/sh\necho serving on stdio >&2\n");
    let daemon = Setup::with(Server::run_by("box", docker).flags("run --rm image")).start_in(&place);
    row_with(&daemon, "box", "it has read nothing from its stdin");
    let ran = doctor(&daemon);
    let advice = problem(&ran, "box").get("advice").to_owned();
    assert!(advice.starts_with("write `\"-i\"` after `\"run\"` in its `args` in "), "{advice}");
}

/// Case I24.
#[test]
fn advice_for_a_server_that_answers_is_not_about_the_way_to_it() {
    let place = Place::new();
    const NO_SERVER: &str = "is reached, but does not answer as an MCP server";
    const JSON: &str = "application/json";
    let rows = [
        ("page", "text/html", "identity", "<p>", "(`Content-Type: text/html`)", NO_SERVER),
        (
            "id",
            JSON,
            "identity",
            r#"{"jsonrpc":"2.0","id":0,"result":{}}"#,
            "no request had, the first `0`",
            "has to repeat the id",
        ),
        ("coding", JSON, "br", "x", "`Content-Encoding: br`", "report it to its operator"),
        ("text", JSON, "identity", "hello", "no messages, the first `hello`", NO_SERVER),
    ];
    let fronts = rows.map(|(name, content_type, coding, body, ..)| {
        let front = Front::start(&place, name, "", Behavior::default());
        front.intercept(move |_| Some(Response::body(content_type, body).header("content-encoding", coding)));
        front
    });
    let daemon = fronts.iter().fold(Setup::new(), |setup, front| setup.server(front.server())).start_in(&place);
    for (name, _, _, _, part, _) in rows {
        row_with(&daemon, name, part);
    }
    let ran = doctor(&daemon);
    for (name, _, _, _, part, advice) in rows {
        let finding = problem(&ran, name);
        assert!(finding.get("found").contains(part) && finding.get("advice").contains(advice), "{finding:?}");
        assert!(!finding.get("advice").contains("how this machine reaches"), "{finding:?}");
    }
}

/// Case A24.
#[test]
fn question_of_a_server_that_starts_is_shown() {
    let server = shell("one", "printf 'Trust this folder? (y/n) ' >&2; hang", "5m");
    let daemon = Setup::with(server).spawn();
    daemon.wait_row("one", "asks", |row| row["state"] == "starting" && row["cause"] == "question");
    let shown = "is starting, and its last line on stderr has no end: `Trust this folder? (y/n)`";
    let finding = super::expect(doctor(&daemon), "warning", "one", shown);
    assert!(finding.get("advice").contains("in a terminal and answer it; then `mcpd reload"), "{finding:?}");
    let status = daemon.client(&["status"]);
    assert!(status.stdout.contains(&format!("one: {shown}")), "{status}");
}

/// Case K36.
#[test]
fn paths_that_a_sandbox_keeps_from_a_server_are_proposed_at_once() {
    if !system_has_namespaces() && !kernel_has_landlock(3) {
        return;
    }
    let place = Place::new();
    for file in ["home/app/node_modules/x/i.js", "home/notes/a.md", "home/out/old"] {
        fs::create_dir_all(place.path(file).parent().expect("a directory")).expect("a fresh directory");
        place.write(file, "text\n");
    }
    let home = place.path("home");
    let at = |name: &str| home.join(name).display().to_string();
    // What is hidden is missing or denied; a file is created in a directory that is one or the other.
    let errors = format!(
        "Error: Cannot find module '{}'\n[Errno 13] Permission denied: '{}'\nENOENT: no such file or directory, mkdir '{}'\n\
         ENOENT: no such file or directory, open '{}'\n",
        at("app/node_modules/x/i.js"),
        at("notes/a.md"),
        at("out/new"),
        at("missing"),
    );
    let files = "sandbox = \"files\"";
    let fails = Server::run_by("fails", "sh").arg("-c").arg("printf %s \"$0\" >&2; exit 3").arg(&errors).line(files);
    let refuses = Server::named("refuses").flags("--tool refuse").line(files);
    let daemon =
        Setup::with(fails).server(refuses).server(Server::named("open").flags("--tool refuse")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for server in ["refuses", "open"] {
        for text in [errors.as_str(), "no luck", errors.as_str()] {
            let answer = agent.call(&format!("{server}__refuse"), &json!({"text": text}));
            assert_eq!(result(&answer)["isError"], true);
        }
    }
    daemon.wait_row("fails", "has failed", |row| row["reason"].is_string() && row["stderr"].is_array());
    let row = daemon.row("refuses");
    assert_eq!((&row["state"], &row["refused"]["calls"]), (&json!("ready"), &json!(2)), "{row}");
    assert!(daemon.row("open")["refused"].is_null(), "its files are not restricted");
    let note = "refuses: 2 calls failed at files that its sandbox may keep from it: `mcpd doctor refuses`";
    let status = daemon.client(&["status"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains(note), "{status}");
    let ran = doctor(&daemon);
    let table = format!(
        "`sandbox = {{ level = \"files\", read = [\"{}\", \"{}\"], write = [\"{}\"] }}`",
        at("app/node_modules"),
        at("notes"),
        at("out")
    );
    for name in ["fails", "refuses"] {
        let lacks = |one: &Finding| one.get("about") == name && one.get("found").starts_with("may lack ");
        let found: Vec<_> = findings(&ran).into_iter().filter(lacks).collect();
        assert!(found.len() == 1 && found[0].get("advice").contains(&table), "{name}: {table}: {found:?}\n{ran}");
    }
    let granted = |server: Server| server.line(table.trim_matches('`'));
    let script = format!("cat {} && touch {}", at("notes/a.md"), at("out/new"));
    let works = granted(Server::run_by("fails", "sh").arg("-c").arg(script));
    Setup::with(works).server(granted(Server::named("refuses").flags("--tool refuse"))).write(&place);
    daemon.client(&["reload"]);
    until("the proposal was right", || home.join("out/new").exists().then_some(()));
    assert!(daemon.row("refuses")["refused"].is_null(), "another sandbox may not refuse it");
}
