//! Output for people never contains characters of peers that hide text or control a terminal.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Ran, Server, Setup, Terminal, quoted, until};

/// At least one character of each kind that hides or steers, and a line that pretends to be one of mcpd's own.
const HOSTILE: &str = "x\u{7}\u{8}\u{1b}[2J\u{7f}\u{85}\u{9b}31m\u{ad}\u{600}\u{61c}\u{115f}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\
    \u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{2066}\u{2067}\u{2068}\u{2069}\
    \u{3164}\u{feff}\u{fff9}\u{e0001}\u{e0041}\u{e007f}\r\nforged";

/// Unicode's format characters, as far as this test uses them, control characters, separators, and blank fillers.
fn hides_or_steers(c: char) -> bool {
    let is_other = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{115f}' | '\u{1160}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    is_other || c.is_control() && c != '\n' && c != '\t'
}

#[track_caller]
fn expect_clean(what: &str, text: &str) {
    let bad: Vec<_> = text.chars().filter(|c| hides_or_steers(*c)).collect();
    assert!(bad.is_empty(), "{what} has {bad:?}: {text:?}");
}

/// The same, and no line of it was begun by a peer.
#[track_caller]
fn expect_clean_lines(what: &str, text: &str) {
    expect_clean(what, text);
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{what} has a forged line: {text}");
}

#[track_caller]
fn expect_clean_run(what: &str, ran: &Ran) {
    expect_clean(what, &ran.stdout);
    expect_clean(what, &ran.stderr);
}

/// Arguments reach the server by way of TOML, which has no raw DEL.
fn argument() -> String {
    HOSTILE.replace('\u{7f}', "")
}

/// Tools with hostile text in everything but the names of the callable ones.
fn listing() -> Value {
    let schema = json!({
        "type": "object",
        "properties": { HOSTILE: { "type": HOSTILE, "description": HOSTILE }, "kind": { "enum": [HOSTILE], "default": HOSTILE } },
        "required": [HOSTILE],
    });
    let plain = |name: &str| json!({ "name": name, "title": HOSTILE, "description": HOSTILE, "inputSchema": { "type": "object" } });
    let named =
        |c: char| json!({ "name": format!("odd{c}"), "description": HOSTILE, "inputSchema": { "type": "object" } });
    let mut tools: Vec<Value> = ["echo", "raw", "fail", "stderr", "progress"].into_iter().map(plain).collect();
    tools.push(json!({ "name": "typed", "title": HOSTILE, "description": HOSTILE, "inputSchema": schema }));
    tools.extend(HOSTILE.chars().filter(|c| hides_or_steers(*c)).map(named));
    json!({ "tools": tools })
}

/// A server that refuses every request with a hostile error.
fn refusing(place: &Place) -> Server {
    let message = json!(HOSTILE).to_string().replace('\\', "\\\\");
    let script = format!(
        "s/.*\"id\":\\([0-9]*\\).*/{{\"jsonrpc\":\"2.0\",\"id\":\\1,\"error\":{{\"code\":-32000,\"message\":{message}}}}}/"
    );
    let script = place.write("refuse.sed", script);
    Server::run_by("refusing", "sed").arg("-u").arg("-f").arg(script)
}

fn start(options: &[&str]) -> Daemon {
    let place = Place::new();
    let tools = place.write("tools.json", listing().to_string());
    let words = place.write("words", format!("{HOSTILE}\n"));
    let talking = Server::named("s")
        .arg("--tool-list")
        .arg(tools)
        .arg("--server-name")
        .arg(argument())
        .line("log_arguments = true");
    let failing = Server::run_by("failing", "sh").arg("-c").arg("cat \"$0\" >&2; exit 3").arg(words);
    let setup = Setup::with(talking.arg("--instructions").arg(argument())).server(failing).server(refusing(&place));
    let setup = setup.head(&format!("[daemon]\ncall_log = {}", quoted(place.path("calls.jsonl"))));
    options.iter().fold(setup, |setup, option| setup.option(option)).start_in(&place)
}

/// An agent that introduces itself with hostile text, and calls with it.
fn hostile_agent(daemon: &Daemon) -> Agent {
    let mut agent = Agent::connect(daemon);
    let info = json!({ "name": HOSTILE, "version": HOSTILE });
    let meta = json!({ "mcpd/connect": HOSTILE });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info, "_meta": meta });
    agent.request("initialize", &params);
    agent.notify("notifications/initialized", &Value::Null);
    agent.call("s__echo", &json!({ "text": HOSTILE }));
    agent.call(HOSTILE, &json!({}));
    agent.call("s__fail", &json!({ "message": HOSTILE }));
    agent.call("s__stderr", &json!({ "text": HOSTILE }));
    agent.request(HOSTILE, &json!({}));
    agent
}

/// Arguments of `s__raw` for this result.
fn raw(result: &Value) -> String {
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n");
    json!({ "text": text, "answer": false }).to_string()
}

fn call_raw(daemon: &Daemon, result: &Value, more: &[&str]) -> Ran {
    let arguments = raw(result);
    daemon.client(&[&["call", "s__raw", &arguments], more].concat())
}

#[test]
fn names_with_invisible_characters_are_not_listed() {
    let daemon = start(&[]);
    let mut agent = Agent::ready(&daemon);
    let expected = ["s__echo", "s__raw", "s__fail", "s__stderr", "s__progress", "s__typed"];
    assert_eq!(agent.tools(), expected);
    for c in HOSTILE.chars().filter(|c| hides_or_steers(*c)) {
        let error = agent.call(&format!("s__odd{c}"), &json!({}))["error"]["code"].clone();
        assert_eq!(error, -32602, "{c:?}");
    }
}

#[test]
fn every_command_escapes_control_and_invisible_characters_of_peers() {
    let daemon = start(&[]);
    let _agent = hostile_agent(&daemon);
    until("the server's last words are known", || {
        Some(daemon.client(&["status", "--json"]).stdout).filter(|shown| shown.matches("forged").count() > 3)
    });
    for args in [
        &["status"][..],
        &["status", "--check"],
        &["status", "--json"],
        &["tools"],
        &["tools", "--all"],
        &["tools", "--all", "--json"],
        &["tools", "--json"],
        &["tools", "s"],
        &["tools", "s__typed"],
        &["tools", "s__typed", "--json"],
        &["tools", "nothing-like-it"],
        &["calls"],
        &["calls", "--json"],
        &["logs", "--json"],
        &["top", "--once"],
        &["top", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["restart", "refusing"],
        &["reload"],
        &["reload", "--json"],
        &["check", "config.toml"],
        &["check", "config.toml", "--show"],
        &["call", "s__typed"],
        &["call", "s__typed", "kind=none"],
        &["call", "s__echo", "--json", &json!({ "text": HOSTILE }).to_string()],
        &["call", HOSTILE.trim_end()],
        &["tools", HOSTILE],
    ] {
        let ran = daemon.client(args);
        expect_clean_run(&format!("{args:?}"), &ran);
        assert!(!ran.stdout.is_empty() || !ran.stderr.is_empty(), "{args:?} prints nothing");
    }
    expect_clean("the file of calls", &fs::read_to_string(daemon.place().path("calls.jsonl")).expect("there is one"));
}

#[test]
fn escaped_name_still_shows_its_characters() {
    let daemon = start(&[]);
    let shown = daemon.client(&["tools", "--all"]).expect_code(0).stdout;
    for escape in ["odd\\u{202e} ", "odd\\u{200b} ", "odd\\u{e0041} ", "odd\\u{1b} "] {
        assert!(shown.contains(escape), "no {escape}: {shown}");
    }
}

#[test]
fn text_of_a_server_is_exact_in_a_pipe() {
    let daemon = start(&[]);
    let content = json!([
        { "type": "text", "text": HOSTILE },
        { "type": "resource_link", "uri": HOSTILE, "name": HOSTILE, "title": HOSTILE },
        { "type": "resource", "resource": { "uri": HOSTILE, "text": HOSTILE } },
        { "type": "image", "data": "aW1hZ2U=", "mimeType": HOSTILE },
        { "type": HOSTILE },
    ]);
    let result = json!({ "content": content });
    let ran = call_raw(&daemon, &result, &["--json"]).expect_code(0);
    expect_clean_run("--json", &ran);
    assert_eq!(ran.json(), result, "the same values");
    let text = json!([{ "type": "text", "text": HOSTILE }]);
    let embedded = json!([{ "type": "resource", "resource": { "uri": "x:y", "text": HOSTILE } }]);
    let structured = json!({ HOSTILE: HOSTILE });
    for (result, is_error, expected) in [
        (json!({ "content": text }), false, HOSTILE.to_owned()),
        (json!({ "content": embedded }), false, HOSTILE.to_owned()),
        (json!({ "content": text, "isError": true }), true, format!("mcpd: {HOSTILE}")),
        (json!({ "content": [], "structuredContent": structured }), false, structured.to_string()),
    ] {
        let ran = call_raw(&daemon, &result, &[]).expect_code(i32::from(is_error));
        assert_eq!(if is_error { ran.stderr } else { ran.stdout }, expected + "\n", "{result}");
    }
    let first = HOSTILE.lines().next().expect("its first line");
    let logs = until("the line is known", || {
        Some(daemon.client(&["logs", "failing"]).stdout).filter(|lines| lines.contains("forged"))
    });
    assert!(logs.contains(&format!("]: {first}\n")), "{logs:?}");
}

#[test]
fn terminal_gets_escapes_for_the_text_of_a_server() {
    let daemon = start(&[]);
    let text = json!([{ "type": "text", "text": HOSTILE }]);
    until("the line is known", || daemon.client(&["logs", "failing"]).stdout.contains("forged").then_some(()));
    let Some(terminal) = Terminal::open(daemon.place(), 600, 40) else { return };
    for (is_error, arguments) in [(false, "result.json"), (true, "error.json")] {
        let file = daemon.place().write(arguments, raw(&json!({ "content": text, "isError": is_error })));
        terminal.line(&format!("clear; m call s__raw - < {}; echo end", quoted(file)));
        let screen = terminal.wait("\nend");
        assert!(screen.contains("\\u{1b}[2J") && screen.contains("\\u{202e}"), "{screen}");
    }
    terminal.line("clear; m logs failing -n 2; echo end");
    let screen = terminal.wait("\nend");
    assert!(screen.contains("]: x\\u{7}") && screen.contains("\\u{202e}"), "{screen}");
}

#[test]
fn json_has_the_very_text_of_the_peer() {
    let daemon = start(&[]);
    let _agent = hostile_agent(&daemon);
    let status = daemon.client(&["status", "--json"]).json();
    let client = status["agents"][0]["client"].as_str().expect("a client").to_owned();
    assert!(
        HOSTILE.starts_with(client.split(' ').next().expect("a name")) && client.contains('\u{202e}'),
        "{client:?}"
    );
    let logs = until("the line is known", || {
        Some(daemon.client(&["logs", "s", "--json"]).stdout).filter(|lines| lines.contains("forged"))
    });
    let first: Value = serde_json::from_str(logs.lines().next().expect("a line")).expect("JSON");
    let written = HOSTILE.split('\n').next().expect("its first line").trim_end();
    assert_eq!(first["text"], written);
}

#[test]
fn log_of_the_daemon_is_clean_as_text_and_as_json() {
    for options in [&["--log=trace"][..], &["--log=trace", "--log-format=json"]] {
        let daemon = start(options);
        let _agent = hostile_agent(&daemon);
        let log = until("the calls and the lines are logged", || {
            Some(daemon.log()).filter(|log| log.matches("call ended").count() > 3 && log.contains("stderr: x"))
        });
        expect_clean_lines(&format!("{options:?}"), &log);
        if options.len() == 2 {
            let texts: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert!(texts.iter().any(|line| line.to_string().contains('\u{202e}')), "the same values");
        }
    }
}

/// Another client's file with hostile text wherever there can be any.
fn foreign() -> String {
    let escaped = |text: &str| json!(text).to_string();
    let words = escaped(HOSTILE);
    format!(
        "{{\"inputs\": [{{\"id\": \"key\", \"description\": {words}, \"options\": [{words}], \"default\": {words}}}],\n\
         \"servers\": {{{words}: {{\"command\": {words}, \"args\": [{words}, \"${{input:key}}\", \"raw \u{202e}\u{2066}\u{200b}\u{2028}\"],\n\
         \"env\": {{\"A\": {words}}}, \"cwd\": {words}, {words}: 1}},\n\"plain\": {{\"command\": 5, \"odd \u{202e}\u{200b}\": {words}}},\n\
         \"web\": {{\"url\": \"https://example.org/\u{202e}x\", \"headers\": {{\"X-A\": \"\u{202e}\"}}}}}}}}"
    )
}

#[test]
fn foreign_files_are_shown_with_escapes() {
    let place = Place::new();
    fs::create_dir(place.path(".vscode")).expect("a directory");
    place.write(".vscode/mcp.json", foreign());
    for args in [
        &["import", "--dry-run"][..],
        &["import", "--dry-run", "--json"],
        &["import", "--yes"],
        &["check", ".vscode/mcp.json"],
        &["check", ".vscode/mcp.json", "--json"],
        &["check"],
        &["check", "--show"],
        &["serve", "--config", ".vscode/mcp.json"],
        &["import", "--from", HOSTILE],
        &["check", HOSTILE],
    ] {
        let ran = place.mcpd(args);
        expect_clean_run(&format!("{args:?}"), &ran);
        assert!(ran.stdout.len() + ran.stderr.len() > 0, "{args:?} prints nothing");
    }
    let config = fs::read_to_string(place.path("xdg-config/mcpd/config.toml")).expect("it was imported");
    expect_clean("the configuration", &config);
}

#[test]
fn preview_of_an_import_spells_invisible_characters_out() {
    let place = Place::new();
    place.write(
        ".mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"\u{202e}\u{2066}\u{200b}\u{2028}\"]}}}",
    );
    let ran = place.mcpd(&["import", "--dry-run"]).expect_code(0);
    assert!(ran.stdout.contains("+args = [\"\\u202E\\u2066\\u200B\\u2028\"]"), "{ran}");
}
