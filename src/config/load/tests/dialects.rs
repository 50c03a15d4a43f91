//! What each client writes, in its own words.

mod references;
mod servers;

use super::*;
use crate::config::{AgentDirectory, Program, Remote, Sharing};
use crate::list_kind::ListKind;

/// The servers of a file at `path`, in the environment of a person who has `TOKEN`.
fn servers_of(path: &str, text: &str) -> Vec<ServerConfig> {
    load_text(path, text).unwrap_or_else(|error| panic!("{error}")).config.servers
}

fn only(path: &str, text: &str) -> ServerConfig {
    let mut servers = servers_of(path, text);
    assert_eq!(servers.len(), 1, "{path}");
    servers.remove(0)
}

fn launch(server: &ServerConfig) -> &Program {
    match &server.launch {
        Ok(Launch::Program(program)) => program,
        Ok(_) => panic!("{} is reached", server.name),
        Err(undefined) => panic!("{}: {undefined}", server.name),
    }
}

fn remote(server: &ServerConfig) -> &Remote {
    match &server.launch {
        Ok(Launch::Remote(remote)) => remote,
        Ok(_) => panic!("{} is run", server.name),
        Err(undefined) => panic!("{}: {undefined}", server.name),
    }
}

fn named(servers: &[ServerConfig]) -> Vec<&str> {
    servers.iter().map(|server| &*server.name).collect()
}

fn permits(server: &ServerConfig, tool: &str) -> bool {
    server.policy.permits(ListKind::Tools, tool, None)
}

fn warnings(path: &str, text: &str) -> Vec<String> {
    load_text(path, text).unwrap_or_else(|error| panic!("{error}")).warnings.iter().map(describe).collect()
}

#[test]
fn servers_are_found_wherever_a_client_has_them() {
    for (path, text) in [
        ("/home/u/.config/Claude/claude_desktop_config.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#),
        ("/p/.mcp.json", r#"{"mcpServers": {"a": {"type": "stdio", "command": "x", "args": [], "env": {}}}}"#),
        ("/home/u/.claude.json", r#"{"numStartups": 3, "mcpServers": {"a": {"command": "x"}}}"#),
        ("/home/u/.claude.json", r#"{"projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}, "/q": {}}}"#),
        ("/p/.vscode/mcp.json", r#"{"inputs": [], "servers": {"a": {"type": "stdio", "command": "x"}}}"#),
        ("/p/settings.json", r#"{"editor.tabSize": 2, "mcp": {"servers": {"a": {"command": "x"}}}}"#),
        ("/p/settings.json", r#"{"mcp.servers": {"a": {"command": "x"}}}"#),
        (
            "/home/u/.config/zed/settings.json",
            r#"// Zed
            {"theme": "One", "context_servers": {"a": {"source": "custom", "command": "x", "args": [],}}}"#,
        ),
        ("/z.json", r#"{"context_servers": {"a": {"command": {"path": "x", "args": [], "env": {}}, "settings": {}}}}"#),
        ("/home/u/.gemini/settings.json", r#"{"mcpServers": {"a": {"command": "x", "trust": false}}}"#),
        ("/home/u/.codex/config.toml", "model = 'm'\n[profiles.p]\nmodel = 'n'\n[mcp_servers.a]\ncommand = 'x'\n"),
    ] {
        let server = only(path, text);
        assert_eq!((&*server.name, launch(&server).command.as_str()), ("a", "x"), "{path}: {text}");
        assert_eq!(server.settings.sharing, Sharing::Shared, "{path}: {text}");
    }
    assert_eq!(servers_of("/home/u/.claude.json", r#"{"projects": {"/p": {}}}"#).len(), 0);
    assert_eq!(servers_of("/p/mcp.json", r#"{"servers": {}}"#).len(), 0);
}

#[test]
fn both_forms_of_a_command_say_the_same() {
    let new = r#"{"context_servers": {"a": {"command": "x", "args": ["y"], "env": {"A": "b"}}}}"#;
    let old = r#"{"context_servers": {"a": {"command": {"path": "x", "args": ["y"], "env": {"A": "b"}}}}}"#;
    assert_eq!(launch(&only("/z.json", new)), launch(&only("/z.json", old)));
}

#[test]
fn references_of_other_clients_mean_what_they_mean_there() {
    let cases = [
        ("/c.json", "${env:TOKEN}", "hunter2"),
        ("/c.json", "${env:NONE:-d}", "d"),
        ("/c.json", "${TOKEN}", "hunter2"),
        ("/c.json", "${userHome}/x${pathSeparator}y${/}z", "/home/u/x/y/z"),
        ("/c.json", "$TOKEN costs 5$ or $${TOKEN}", "$TOKEN costs 5$ or ${TOKEN}"),
        ("/h/.gemini/settings.json", "$TOKEN-$NAME/${TOKEN} 5$ $1 $${TOKEN}", "hunter2-value/hunter2 5$ $1 ${TOKEN}"),
    ];
    for (path, text, expected) in cases {
        let server = only(path, &format!(r#"{{"mcpServers": {{"a": {{"command": "x", "args": ["{text}"]}}}}}}"#));
        assert_eq!(launch(&server).args, [expected], "{path}: {text}");
    }
    let codex = only("/c.toml", "[mcp_servers.a]\ncommand = 'x'\nargs = ['${TOKEN} $${A} ${x']\n");
    assert_eq!(launch(&codex).args, ["${TOKEN} $${A} ${x"]);
}

#[test]
fn a_url_is_one_under_every_name() {
    for (path, text) in [
        (
            "/c.json",
            r#"{"mcpServers": {"a": {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}"#,
        ),
        (
            "/w.json",
            r#"{"mcpServers": {"a": {"serverUrl": "https://x", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}}}"#,
        ),
        (
            "/g.json",
            r#"{"mcpServers": {"a": {"httpUrl": "https://x", "url": "https://sse", "headers": {"Authorization": "Bearer hunter2"}}}}"#,
        ),
        (
            "/z.json",
            r#"{"context_servers": {"a": {"url": "https://x", "headers": {"Authorization": "Bearer hunter2"}}}}"#,
        ),
        ("/c.toml", "[mcp_servers.a]\nurl = 'https://x'\nbearer_token_env_var = 'TOKEN'\n"),
        ("/c.toml", "[mcp_servers.a]\nurl = 'https://x'\nhttp_headers = { Authorization = 'Bearer hunter2' }\n"),
    ] {
        let server = only(path, text);
        let remote = remote(&server);
        assert_eq!((&*remote.url, &*remote.headers["Authorization"]), ("https://x", "Bearer hunter2"), "{text}");
    }
    let codex =
        "[mcp_servers.a]\nurl = 'https://x'\nhttp_headers = { A = '${TOKEN}' }\nenv_http_headers = { B = 'TOKEN' }\n";
    let server = only("/c.toml", codex);
    assert_eq!((&*remote(&server).headers["A"], &*remote(&server).headers["B"]), ("${TOKEN}", "hunter2"));
}

#[test]
fn a_server_of_a_workspace_has_an_instance_for_each() {
    for variable in ["workspaceFolder", "workspaceRoot", "cwd", "CLAUDE_PROJECT_DIR:-."] {
        let text = format!(r#"{{"servers": {{"a": {{"command": "x", "args": ["${{{variable}}}/src"]}}}}}}"#);
        let server = only("/p/.vscode/mcp.json", &text);
        assert_eq!(server.settings.sharing, Sharing::Workspace, "{variable}");
        assert_eq!(launch(&server.at(&AgentDirectory::Own("/w".into()))).args, ["/w/src"]);
    }
    let text = r#"{"servers": {"a": {"command": "x", "cwd": "${workspaceFolder}", "sharing": "session"}}}"#;
    assert_eq!(only("/p/.vscode/mcp.json", text).settings.sharing, Sharing::Session);
}

#[test]
fn what_only_another_program_knows_fails_the_server_that_needs_it() {
    for (text, reason) in [
        ("${input:api-key}", "`${input:api-key}` has no value: run `mcpd import`, which prompts for it"),
        (
            "${fileBasename}",
            "mcpd cannot expand `${fileBasename}`, which is for the program that this file belongs to: replace it by its value",
        ),
        ("${file}", "mcpd cannot expand `${file}`, which is for"),
        ("${workspaceFolder:api}", "mcpd cannot expand `${workspaceFolder:api}`, which is for"),
        ("${command:pick}", "mcpd cannot expand `${command:pick}`, which is for"),
        ("${config:a.b}", "mcpd cannot expand `${config:a.b}`, which is for"),
        ("${A:-${B}}", "mcpd cannot expand `${A:-…}`, which is for"),
        ("${open", "mcpd cannot expand `${…}`, which is for"),
    ] {
        let text =
            format!(r#"{{"servers": {{"a": {{"command": "x", "args": ["{text}"]}}, "b": {{"command": "x"}}}}}}"#);
        let servers = servers_of("/p/.vscode/mcp.json", &text);
        let failed = servers[0].launch.as_ref().expect_err("cannot be run").to_string();
        assert!(failed.starts_with(reason), "{failed}");
        assert!(servers[1].launch.is_ok());
    }
}

#[test]
fn lists_of_tools_hold_by_name() {
    for (path, text) in [
        (
            "/g.json",
            r#"{"mcpServers": {"a": {"command": "x", "includeTools": ["r", "w", "a*b"], "excludeTools": ["w"]}}}"#,
        ),
        ("/c.toml", "[mcp_servers.a]\ncommand = 'x'\nenabled_tools = ['r', 'w', 'a*b']\ndisabled_tools = ['w']\n"),
    ] {
        let server = only(path, text);
        let shown = ["r", "w", "a*b", "aXb", "other"].map(|tool| permits(&server, tool));
        assert_eq!(shown, [true, false, true, false, false], "{text}");
    }
    let text = r#"{"mcpServers": {"a": {"command": "x", "disabledTools": ["w[1]", "!x"], "deny": ["d*"]}}}"#;
    let server = only("/w.json", text);
    assert_eq!(["w[1]", "w1", "!x", "dd", "r"].map(|tool| permits(&server, tool)), [false, true, false, false, true]);
    let all = only("/p/.mcp.json", r#"{"mcpServers": {"a": {"command": "x", "tools": ["*"]}}}"#);
    assert!(permits(&all, "anything"));
}

#[test]
fn timeouts_have_the_unit_of_their_client() {
    let seconds = |server: ServerConfig| {
        let settings = server.settings;
        (settings.handshake_timeout.as_secs_f64(), settings.call_timeout.as_secs_f64())
    };
    let codex = "[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_sec = 2.5\ntool_timeout_sec = 120\n";
    assert_eq!(seconds(only("/c.toml", codex)), (2.5, 120.0));
    let older = "[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_ms = 20_000\n";
    assert_eq!(seconds(only("/c.toml", older)), (20.0, 300.0));
    let gemini = r#"{"mcpServers": {"a": {"command": "x", "timeout": 600000}}}"#;
    assert_eq!(seconds(only("/g.json", gemini)), (30.0, 600.0));
    let none = r#"{"mcpServers": {"a": {"command": "x", "timeout": 0}}}"#;
    assert_eq!(warnings("/g.json", none), ["1:50 `timeout` is ignored: it is no time | "]);
}

#[test]
fn variables_are_passed_on_and_made_texts() {
    let codex = "[mcp_servers.a]\ncommand = 'x'\nenv = { A = 'b' }\nenv_vars = ['HOME', { name = 'TOKEN', source = 'local' }, { name = 'R', source = 'remote' }]\n";
    let server = only("/c.toml", codex);
    assert_eq!(launch(&server).pass_env, ["HOME", "TOKEN"]);
    assert_eq!(launch(&server).env["A"], "b");
    let text = r#"{"servers": {"a": {"command": "x", "env": {"PORT": 3000, "DEBUG": true, "GONE": null, "F": 1.5}}}}"#;
    let server = only("/p/.vscode/mcp.json", text);
    let env: Vec<_> = launch(&server).env.iter().map(|(name, text)| format!("{name}={text}")).collect();
    assert_eq!(env, ["DEBUG=true", "F=1.5", "PORT=3000"]);
}

#[test]
fn paths_begin_where_the_project_is() {
    let run = |path: &str, rest: &str| {
        let server = only(path, &format!(r#"{{"mcpServers": {{"a": {{{rest}}}}}}}"#));
        let launch = launch(&server);
        (launch.command.clone(), launch.cwd.as_ref().map(|cwd| cwd.display().to_string()))
    };
    let at = |command: &str, cwd: &str| (command.to_owned(), Some(cwd.to_owned()));
    assert_eq!(run("/p/.mcp.json", r#""command": "./run.sh""#), at("/p/run.sh", "/p"));
    assert_eq!(run("/p/.cursor/mcp.json", r#""command": "bin/run""#), at("/p/bin/run", "/p"));
    assert_eq!(run("/p/.gemini/settings.json", r#""command": "x", "cwd": "./dir""#), at("x", "/p/dir"));
    assert_eq!(run("/p/.mcp.json", r#""command": "node", "args": ["a.js", "x/y"]"#), at("node", "/p"));
    assert_eq!(run("/p/.mcp.json", r#""command": "~/x", "cwd": "~/y""#), at("/home/u/x", "/home/u/y"));
    assert_eq!(run("/p/.mcp.json", r#""command": "x", "sharing": "session""#), ("x".to_owned(), None));
    assert_eq!(run("/home/u/.cursor/mcp.json", r#""command": "x""#), ("x".to_owned(), None));
    assert_eq!(run("/p/mine.json", r#""command": "x""#), ("x".to_owned(), None));
    assert_eq!(run("/p/mine.json", r#""command": "node", "args": ["./a.js"]"#), at("node", "/p"));
    let server = r#"{"mcpServers": {"a": {"command": "./x", "args": ["y"]}}}"#;
    let projects = format!(r#"{{"projects": {{"/q": {server}, "/r": {server}}}}}"#);
    let servers = servers_of("/home/u/.claude.json", &projects);
    assert_eq!(named(&servers), ["a", "a-2"]);
    for (server, directory) in servers.iter().zip(["/q", "/r"]) {
        assert_eq!(launch(server).command, format!("{directory}/x"));
        assert_eq!(launch(server).cwd.as_deref(), Some(Path::new(directory)));
    }
}
