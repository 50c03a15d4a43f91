//! `mcpd call`: argument forms, printed and saved results, interruption.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Daemon, Era, MCPD, Place, Ran, Server, Setup, Terminal, run, signal, wait_exit};

/// A server whose `echo` takes what its schema says, and which never hears of `secret`.
fn daemon() -> Daemon {
    let place = Place::new();
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" },
            "head": { "type": "integer" },
            "deep": { "type": "boolean" },
            "names": { "type": "array", "items": { "type": "string" } },
            "\u{1b}[2J": { "type": "string" },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let tool = |name: &str, schema: &Value| json!({ "name": name, "inputSchema": schema });
    let free = json!({ "type": "object" });
    let mut tools: Vec<_> = ["raw", "sleep", "refuse", "secret"].map(|name| tool(name, &free)).into();
    tools.insert(0, tool("echo", &schema));
    let file = place.write("listing", json!({ "tools": tools }).to_string());
    Setup::with(Server::named("a").arg("--tool-list").arg(file).line("deny = ['secret']")).start_in(&place)
}

/// What the server was told, if the call went well.
#[track_caller]
fn call_output(daemon: &Daemon, words: &[&str]) -> String {
    let ran = daemon.client(&[&["call", "a__echo"], words].concat()).expect_code(0);
    let line = daemon.wait_journal("a", "tools/call");
    assert!(line.contains("a__echo") || line.contains("\"echo\""), "{line}");
    let params: Value = serde_json::from_str(&ran.stdout).expect("what it was asked for");
    params["params"]["arguments"].to_string()
}

#[test]
fn call_converts_arguments_to_the_types_of_the_schema() {
    let daemon = daemon();
    let notes = daemon.place().write("notes", "two\nlines");
    let from_file = format!("path=@{}", notes.display());
    for (words, expected) in [
        (&["path=a b", "head=3", "deep=true"][..], json!({ "path": "a b", "head": 3, "deep": true })),
        (&["path=3", "names=x", "names=y"], json!({ "path": "3", "names": ["x", "y"] })),
        (&["path:=\"x\"", "names:=[]"], json!({ "path": "x", "names": [] })),
        (&[&*from_file], json!({ "path": "two\nlines" })),
        (&["path=@@x"], json!({ "path": "@x" })),
        (&[r#"{"path": "x", "head": 1}"#], json!({ "path": "x", "head": 1 })),
    ] {
        assert_eq!(call_output(&daemon, words), expected.to_string(), "{words:?}");
    }
    let script = r#"echo '{"path": "stdin"}' | "$0" call a__echo - --runtime-dir "$1""#;
    let mut command = daemon.place().command("sh");
    let ran = run(command.args(["-c", script, MCPD]).arg(daemon.place().runtime_dir())).expect_code(0);
    assert!(ran.stdout.contains(r#""arguments":{"path": "stdin"}"#), "byte for byte: {ran}");
}

#[test]
fn tool_of_another_server_is_not_suggested() {
    let denying = Server::named("git").flags("--bare --tool push --tool log").line("deny = ['push']");
    let daemon = Setup::with(denying).server(Server::named("gits").flags("--bare --tool push --tool pull")).start();
    for name in ["git__push", "git/push"] {
        for command in ["call", "tools"] {
            let ran = daemon.client(&[command, name]);
            assert_eq!(ran.stderr, "mcpd: agents do not see `git/push`: denied by `push` of [servers.git]\n", "{name}");
        }
    }
    for (name, meant) in [("git__lgo", "git__log"), ("git/lgo", "git/log"), ("gitz__pull", "gits__pull")] {
        let ran = daemon.client(&["call", name]).expect_code(1);
        assert!(ran.stderr.contains(&format!(": did you mean `{meant}`?")), "{name}: {ran}");
    }
}

#[test]
fn tool_of_a_server_that_has_never_listed_is_not_called_unknown() {
    let daemon = Setup::with(Server::named("a")).server(Server::run_by("gone", "/no/such/file")).start();
    for name in ["gone__read", "gone/read"] {
        let call = daemon.client(&["call", name]).expect_code(1);
        let expected = format!("mcpd: {name}: the call was not sent: gone has not listed its tools, its state is ");
        assert!(call.stderr.starts_with(&expected), "{call}");
    }
    let unknown = daemon.client(&["call", "nobody__read"]).expect_code(1);
    assert!(unknown.stderr.starts_with("mcpd: Unknown tool: nobody__read"), "{unknown}");
    assert!(
        unknown.stderr.ends_with("`mcpd tools --all` also lists the tools that are hidden from agents\n"),
        "{unknown}"
    );
}

#[test]
fn call_rejects_unsupported_arguments_before_sending_anything() {
    let daemon = daemon();
    for (words, expected) in [
        (&[][..], "missing `path` (string)"),
        (&["nothing-like-it=x"], "its arguments are path, \\u{1b}[2J, deep"),
        (&["pth=x"], "unknown argument `pth`: did you mean `path`?"),
        (&["path=x", "head=many"], "`head` must be of type integer, not `many`"),
        (&["path=@gone"], "gone: No such file"),
        (&[r#"{"path": "x", "more": 1}"#], "unknown argument `more`"),
        (&["path=x", "--timeout", "0s"], "it must be longer than 0"),
        (&["path=x", "--timeout", "30"], "it has no unit; write a number with a unit, such as `500ms`, `30s` or `5m`"),
    ] {
        let ran = daemon.client(&[&["call", "a__echo"], words].concat()).expect_code(2);
        assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{words:?}: {ran}");
    }
    let misspelt = daemon.client(&["call", "a__ecko", "path=x"]).expect_code(1);
    assert!(misspelt.stderr.starts_with("mcpd: Unknown tool: a__ecko: did you mean `a__echo`?\n"), "{misspelt}");
    let denied = daemon.client(&["call", "a__secret"]).expect_code(1);
    assert!(denied.stderr.starts_with("mcpd: agents do not see `a/secret`: denied by `sec"), "{denied}");
    let server = daemon.client(&["call", "a"]).expect_code(2);
    assert!(server.stderr.contains("`a` is a server: write its tool as `a/TOOL`"), "{server}");
    for args in [&["call", "a", "echo", "path=x"][..], &["call", "a", "echo"]] {
        let words = daemon.client(args).expect_code(2);
        assert!(words.stderr.contains("a/echo`"), "{words}");
    }
    assert!(!daemon.journal("a").iter().any(|line| line.contains("tools/call")));
}

/// A call that is answered with this result.
fn call_raw(daemon: &Daemon, result: &Value, more: &[&str]) -> Ran {
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n");
    let arguments = json!({ "text": text, "answer": false }).to_string();
    daemon.client(&[&["call", "a__raw", &arguments], more].concat())
}

#[test]
fn call_saves_images_audio_and_blobs_in_the_given_directory() {
    let daemon = daemon();
    let image = json!({ "type": "image", "data": "aW1hZ2U=", "mimeType": "image/png" });
    let blob = json!({ "type": "resource", "resource": { "uri": "x://1", "blob": "YmxvYg==", "mimeType": "application/pdf" } });
    let both = json!({ "content": [{ "type": "text", "text": "two of them" }, image, blob] });
    let shown = call_raw(&daemon, &both, &[]).expect_code(0);
    assert_eq!(shown.stdout, "two of them\n");
    let expected = "mcpd: not shown: image/png, 5 bytes; `-o FILE` saves it\nmcpd: not shown: application/pdf, 4 bytes; `-o FILE` saves it\n";
    assert_eq!(shown.stderr, expected);

    let place = daemon.place();
    let (file, directory) = (place.path("one.png"), format!("{}/", place.path("all").display()));
    let saved = call_raw(&daemon, &json!({ "content": [image] }), &["-o", file.to_str().expect("text")]).expect_code(0);
    assert_eq!((&*saved.stdout, fs::read_to_string(&file).expect("saved")), ("", "image".to_owned()), "{saved}");
    for _ in 0..2 {
        call_raw(&daemon, &both, &["-o", &directory]).expect_code(0);
    }
    for (name, content) in
        [("a__raw-1.png", "image"), ("a__raw-2.png", "image"), ("a__raw-1.pdf", "blob"), ("a__raw-2.pdf", "blob")]
    {
        assert_eq!(fs::read_to_string(place.path("all").join(name)).expect(name), content);
    }
    for name in ["one-2.png", "one-3.png"] {
        call_raw(&daemon, &both, &["-o", file.to_str().expect("text")]).expect_code(0);
        assert_eq!(fs::read_to_string(place.path(name)).expect(name), "blob", "nothing is lost");
        fs::write(place.path(name), "a person's own").expect("the test's own directory is writable");
    }
    assert_eq!(fs::read_to_string(place.path("one-2.png")).expect("it is there"), "a person's own");
    let nowhere = call_raw(&daemon, &both, &["-o", "/proc/none/x"]).expect_code(1);
    assert!(nowhere.stderr.contains("/proc/none/x: "), "{nowhere}");
}

#[test]
fn call_prints_readable_content_to_stdout_and_tool_errors_to_stderr() {
    let daemon = daemon();
    let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a", "title": "An A\u{1b}[2J" });
    let embedded = json!({ "type": "resource", "resource": { "uri": "x://1", "text": "inside" } });
    let both = call_raw(&daemon, &json!({ "content": [link, embedded] }), &[]).expect_code(0);
    assert_eq!(both.stdout, "file:///a (An A\\u{1b}[2J)\ninside\n");
    let structured = call_raw(&daemon, &json!({ "content": [], "structuredContent": { "n": 1 } }), &[]).expect_code(0);
    assert_eq!(structured.stdout, "{\"n\":1}\n");
    let refused = daemon.client(&["call", "a__refuse"]).expect_code(1);
    assert_eq!((&*refused.stdout, &*refused.stderr), ("", "mcpd: no\n"));
    let raw = json!({ "content": [], "x-more": 1.0 });
    assert_eq!(call_raw(&daemon, &raw, &["--json"]).expect_code(0).stdout, format!("{raw}\n"));
}

#[test]
fn interrupted_call_is_cancelled_at_the_server() {
    let daemon = daemon();
    let late = daemon.client(&["call", "a__sleep", "ms:=60000", "--timeout", "300ms"]).expect_code(1);
    assert!(late.stderr.contains("no response within 300ms: the call is cancelled"), "{late}");
    daemon.wait_journal("a", "timeout of the caller");
    for (given, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = daemon.place().command(MCPD);
        command.args(["call", "a__sleep", &format!("ms:=60{code}"), "--runtime-dir"]).arg(daemon.place().runtime_dir());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is there");
        daemon.wait_journal("a", &format!("60{code}"));
        signal(child.id(), given);
        assert_eq!(wait_exit(&mut child).code(), Some(code));
    }
    daemon.wait_journal("a", "cancelled by the user");
    daemon.wait_row("a", "has no call left", |row| row["in_flight"] == 0);
}

#[test]
fn progress_is_shown_on_a_terminal_and_erased_at_the_end() {
    let daemon = Server::named("a").start();
    let Some(terminal) = Terminal::open(daemon.place(), 80, 24) else { return };
    terminal.line("m call a__progress n:=3 every:=700 message:='\"reading\"' | wc -l");
    terminal.wait("a__progress: 33 % · reading");
    let screen = terminal.wait_for("the call ends", |screen| screen.trim_end().ends_with("1\n$"));
    assert!(!screen.contains("reading ·"), "{screen}");
}

#[test]
fn server_without_a_handshake_is_called_like_any_other() {
    let daemon = Setup::with(Era::Modern.server("a")).start();
    let called = daemon.client(&["call", "a__echo", "a:=1", "--json"]).expect_code(0).json();
    assert_eq!(called["structuredContent"]["params"]["arguments"], json!({ "a": 1 }));
    assert!(
        called["resultType"].is_null() && daemon.client(&["tools", "a"]).expect_code(0).stdout.contains("a__echo"),
        "{called}"
    );
    let failed = daemon.client(&["call", "a__fail", "code:=-5", "message:=\"broken\""]).expect_code(1);
    assert_eq!(failed.stderr, "mcpd: broken\n");
    let form = json!({ "method": "elicitation/create", "params": { "message": "who?", "requestedSchema": {} } });
    let rounds = format!("rounds:={}", json!([{ "inputs": { "who": form }, "unchecked": true }]));
    let refused = daemon.client(&["call", "a__need_input", &rounds]).expect_code(1);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("server `a` wanted to know more"), "{refused}");
    assert!(refused.stderr.contains("elicitation"), "{refused}");
}

#[test]
fn tool_that_runs_as_a_task_only_is_waited_for() {
    let place = Place::new();
    let tool =
        json!({ "name": "echo", "inputSchema": { "type": "object" }, "execution": { "taskSupport": "required" } });
    let file = place.write("listing", json!({ "tools": [tool] }).to_string());
    let daemon = Setup::with(Server::named("a").flags("--tasks").arg("--tool-list").arg(file)).start_in(&place);
    let ran = daemon.client(&["call", "a__echo", "ms:=300", "x=1"]).expect_code(0);
    let called: Value = serde_json::from_str(&ran.stdout).expect("its result");
    assert_eq!(called["params"]["arguments"], json!({ "ms": 300, "x": "1" }), "{ran}");
    daemon.wait_journal("a", "tasks/result");
}
