//! Denied tools are neither listed nor callable in any spelling, and their server receives no call.

use serde_json::json;

use crate::support::{Agent, Daemon, Server, Setup, arguments, call_text, code, result};

const SECRET: &str = "write_file";

/// A server with a tool to read, one to write and one to move, of which only the first is exposed.
fn files() -> Server {
    let flags = "--bare --tool read_file --tool write_file --tool move_file --tool mutate_tools";
    Server::named("files").flags(flags).line(r#"deny = ["write_*", "move_file"]"#)
}

/// Fails if a scripted server was ever told to run the secret tool.
fn expect_never_called(daemon: &Daemon, server: &str) {
    let journal = daemon.journal(server);
    let received: Vec<_> = journal.iter().filter(|line| line.contains("tools/call") && line.contains(SECRET)).collect();
    assert!(received.is_empty(), "{received:?}");
}

/// Case H1.
#[test]
fn denied_tool_is_neither_listed_nor_callable_and_its_server_sees_nothing() {
    let daemon = Setup::with(files()).start();
    let mut agents: Vec<_> = (0..10).map(|_| Agent::ready(&daemon)).collect();
    for agent in &mut agents {
        assert_eq!(agent.tools(), ["files__read_file", "files__mutate_tools"]);
        assert_eq!(code(&agent.call("files__write_file", &json!({}))), -32602);
        assert_eq!(code(&agent.call("files__move_file", &json!({}))), -32602);
        arguments(&agent.call("files__read_file", &json!({})));
    }
    expect_never_called(&daemon, "files");
    let row = daemon.row("files");
    assert_eq!((&row["tools_exposed"], &row["tools_denied"]), (&json!(2), &json!(2)));
}

/// Case H1.
#[test]
fn denied_name_answers_byte_for_byte_like_an_unknown_one() {
    let daemon = Setup::with(files()).start();
    let mut agent = Agent::ready(&daemon);
    let mut answer_to = |name: &str| {
        let call = call_text(r#""x""#, "NAME", "{}");
        agent.send_raw(call.replace("NAME", name) + "\n");
        agent.next_line().expect("an answer")
    };
    let denied = answer_to("files__write_file");
    assert_eq!(denied, answer_to("files__fancy_tool").replace("fancy_tool", "write_file"));
    assert!(denied.contains("-32602") && denied.contains("Unknown tool: files__write_file"), "{denied}");
    assert!(!denied.contains("\"data\""), "nothing that tells of a server: {denied}");
}

/// Case H2.
#[test]
fn no_other_spelling_reaches_a_denied_tool() {
    let daemon = Setup::with(files()).start();
    let mut agent = Agent::ready(&daemon);
    let spellings = [
        "write_file",
        "Files__write_file",
        "files__Write_file",
        "files__WRITE_FILE",
        "files__write_file ",
        " files__write_file",
        "files__write_file.",
        "files__write_file\0",
        "files__write_file\n",
        "files/write_file",
        "files.write_file",
        "files_write_file",
        "files___write_file",
        "mcp__files__write_file",
        "mcp__mcpd__files__write_file",
        "files__files__write_file",
        "files__write_file\u{2024}",
        "files__write_file\u{200b}",
        "\u{feff}files__write_file",
        "files__write\u{ad}_file",
        "files__write\u{ff3f}file",
        "files__write_\u{fb01}le",
        "files__\u{1d430}rite_file",
        "files__writ\u{435}_file",
        "files__write_file\u{301}",
        "files\u{ff3f}\u{ff3f}write_file",
        "FILES__WRITE_FILE",
        "./files__write_file",
        "files__./write_file",
        "files__write_file/",
        "files__%77rite_file",
        "files__write_file\0.png",
        "files__write_fil",
        "files__write_filee",
        "files__write\u{200b}_file",
        "files__ｗrite_file",
        "files__wr\u{131}te_file",
        "files__write_f*",
        "*",
        "",
        "files__",
    ];
    for spelling in spellings {
        assert_eq!(code(&agent.call(spelling, &json!({}))), -32602, "{spelling:?}");
    }
    expect_never_called(&daemon, "files");
}

/// Case H2.
#[test]
fn ambiguous_json_does_not_reach_a_denied_tool() {
    let daemon = Setup::with(files()).start();
    let mut agent = Agent::ready(&daemon);
    let call = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call",{params}}}"#) + "\n";
    let tricks = [
        r#""params":{"name":"files__\u0077rite_file"}"#,
        r#""params":{"name":"files__read_file","name":"files__write_file"}"#,
        r#""params":{"name":"files__write_file","name":"files__read_file"}"#,
        r#""params":{"name":"files__read_file","name":"write_file"}"#,
        r#""params":{"name":"files__read_file","\u006eame":"write_file"}"#,
        r#""params":{"\u006eame":"write_file","name":"files__read_file"}"#,
        r#""params":{"name":"files__read_file"},"params":{"name":"write_file"}"#,
        r#""params":{"name":"write_file"},"params":{"name":"files__read_file"}"#,
        r#""params":{"name":"files__read_file"},"p\u0061rams":{"name":"write_file"}"#,
    ];
    for trick in tricks {
        agent.send_raw(call(trick));
        // Which of the two it is taken for does not matter, as long as it is answered once.
        agent.next();
    }
    agent.expect_quiet();
    expect_never_called(&daemon, "files");
}

#[test]
fn allow_narrows_first_and_deny_wins() {
    let server = Server::named("files").flags("--bare --tool read_a --tool read_b --tool list --tool read/deep");
    let daemon = Setup::with(server.line(r#"allow = ["read*"]"#).line(r#"deny = ["*_b", "*deep"]"#)).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["files__read_a"]);
    assert_eq!(code(&agent.call("files__list", &json!({}))), -32602);
    assert_eq!(code(&agent.call("files__read_b", &json!({}))), -32602);
}

/// Case H3.
#[test]
fn tool_that_appears_under_a_denied_name_is_denied_at_once_and_not_announced() {
    let daemon = Setup::with(files()).start();
    let mut agent = Agent::ready(&daemon);
    let mutation = json!({"add": ["write_more"], "remove": []});
    result(&agent.call("files__mutate_tools", &mutation));
    daemon.wait_row("files", "shows the new tool as denied", |row| row["tools_denied"] == 3);
    assert_eq!(code(&agent.call("files__write_more", &json!({}))), -32602);
    assert_eq!(agent.tools(), ["files__read_file", "files__mutate_tools"]);
    agent.expect_quiet();
}

/// Case H3.
#[test]
fn tool_that_its_server_renames_at_run_time_follows_the_policy_at_once() {
    let narrow = Server::named("narrow").flags("--bare --tool read_file --tool mutate_tools");
    let narrow = narrow.line(r#"allow = ["read_*", "mutate_tools"]"#);
    let daemon = Setup::with(files()).server(narrow).start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let mutation = json!({"add": ["write_file2", "Read_file", "read_more"], "remove": ["read_file"]});
    for (server, renamed) in [("files", "write_file2"), ("narrow", "Read_file")] {
        result(&agent.call(&format!("{server}__mutate_tools"), &mutation));
        // Sent on the same connection, before the new list can have come.
        assert_eq!(code(&agent.call(&format!("{server}__{renamed}"), &json!({}))), -32602);
        agent.expect_notification("notifications/tools/list_changed");
        let tools = agent.tools();
        let is_listed = |tool: &str| tools.contains(&format!("{server}__{tool}"));
        assert!(!is_listed(renamed) && !is_listed("read_file") && is_listed("read_more"), "{tools:?}");
        assert_eq!(code(&agent.call(&format!("{server}__{renamed}"), &json!({}))), -32602);
        let name = format!("\"name\":\"{renamed}\"");
        let received =
            daemon.journal(server).into_iter().find(|line| line.contains("tools/call") && line.contains(&name));
        assert_eq!(received, None);
    }
    agent.disconnect();
}

#[test]
fn denied_tool_still_occupies_its_bare_name() {
    let head = "[daemon]\nnaming = \"{tool}\"";
    let setup = Setup::with(Server::named("a").flags("--bare --tool write_file").line(r#"deny = ["*"]"#));
    let daemon = setup.server(Server::named("b").flags("--bare --tool write_file")).head(head).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["b__write_file"]);
    assert_eq!(code(&agent.call("write_file", &json!({}))), -32602);
    expect_never_called(&daemon, "a");
}

#[test]
fn policy_applies_to_the_command_line() {
    let daemon = Setup::with(files()).start();
    let tools = daemon.client(&["tools"]).expect_code(0);
    assert!(tools.stdout.contains("files__read_file") && !tools.stdout.contains(SECRET), "{tools}");
    let call = daemon.client(&["call", "files__write_file", "{}"]).expect_code(1);
    assert!(call.stderr.contains("agents do not see `files/write_file`: denied by"), "{call}");
    expect_never_called(&daemon, "files");
}
