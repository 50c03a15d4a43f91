//! Which servers there are in a file of another client, what they are called, and what is warnings of the rest.

use super::*;

#[test]
fn any_name_becomes_one_of_ours() {
    let text = r#"{"mcpServers": {
        "a b": {"command": "1"}, "a-b": {"command": "2"}, "x__y": {"command": "3"}, "a.b": {"command": "4"},
        "файлы": {"command": "5"}, "": {"command": "6"}, "io.github/x": {"command": "7"}}}"#;
    let servers = servers_of("/c.json", text);
    assert_eq!(named(&servers), ["a-b-2", "a-b", "x_y", "a-b-3", "server", "server-2", "io-github-x"]);
    let warnings = warnings("/c.json", text);
    assert_eq!(warnings.len(), 6, "{warnings:#?}");
    assert!(warnings[0].starts_with("2:9 server `a b` is called `a-b-2` here | a name is"), "{warnings:#?}");
}

#[test]
fn definition_for_all_projects_includes_that_of_one() {
    let text = r#"{"mcpServers": {"a": {"command": "x"}}, "projects": {
        "/p": {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}},
        "/q": {"mcpServers": {"b": {"command": "y"}, "c": {"url": "https://x"}}},
        "/r": {"mcpServers": {"c": {"url": "https://x"}}}}}"#;
    let servers = servers_of("/home/u/.claude.json", text);
    assert_eq!(named(&servers), ["a", "b", "b-2", "c"]);
    assert_eq!(warnings("/home/u/.claude.json", text).len(), 1);
}

#[test]
fn what_does_not_run_there_does_not_run_here() {
    let json = |server: &str| {
        format!(r#"{{"mcp": {{"excluded": ["off"], "allowed": ["off", "a"]}}, "mcpServers": {{{server}}}}}"#)
    };
    for server in [
        r#""a": {"command": "x", "disabled": true}"#,
        r#""a": {"command": "x", "enabled": false}"#,
        r#""off": {"command": "x"}"#,
        r#""other": {"command": "x"}"#,
    ] {
        assert!(servers_of("/g.json", &json(server)).is_empty(), "{server}");
        assert_eq!(warnings("/g.json", &json(server)).len(), 1, "{server}");
    }
    let mcpd = json(r#""a": {"command": "/usr/bin/mcpd", "args": ["connect", "--profile", "p"]}"#);
    assert!(servers_of("/g.json", &mcpd).is_empty() && warnings("/g.json", &mcpd).is_empty());
    assert_eq!(servers_of("/g.json", &json(r#""a": {"command": "x"}"#)).len(), 1);
    let codex = "[mcp_servers.a]\ncommand = 'x'\nenabled = false\n";
    assert!(servers_of("/c.toml", codex).is_empty());
    let zed = r#"{"context_servers": {"a": {"source": "extension", "settings": {}}, "b": {"settings": {}}}}"#;
    assert!(servers_of("/z.json", zed).is_empty());
    assert_eq!(warnings("/z.json", zed).len(), 2);
}

#[test]
fn ignored_keys_cause_warnings() {
    let text = r#"{"servers": {"a": {"command": "x",
        "envFile": ".env", "sandboxEnabled": true, "type": "ws", "autoApprove": ["y"], "disabled": false}}}"#;
    let warnings = warnings("/p/.vscode/mcp.json", text);
    let begin = [
        "2:9 `envFile` is ignored | write",
        "2:28 `sandboxEnabled` is ignored",
        "2:60 `type` is ignored",
        "2:66 unknown key `autoApprove`",
    ];
    assert_eq!(warnings.len(), begin.len(), "{warnings:#?}");
    for (warning, begin) in warnings.iter().zip(begin) {
        assert!(warning.starts_with(begin), "{warning}");
    }
}

#[test]
fn errors_use_the_terms_of_the_file() {
    check_file(
        "/c.toml",
        "[mcp_servers.a]\nargs = 5\n",
        &["1:14 server `a` has no `command` | write `command = \"npx\"`", "2:8 `args` must be a list…"],
    );
    check_file("/c.toml", "[mcp_servers]\na = 5\n", &["2:5 `a` must be a table…"]);
    check_file("/h/.codex/config.toml", "model = 'm'\n", &["1:1 there is no `mcp_servers` in this file…"]);
    check_file("/c.toml", "[servers.a]\ncommand = 'x'\n[mcp_servers.b]\n", &["3:2 unknown key `mcp_servers`…"]);
    check_json("{\"servers\": {\"a\": {\"command\": 5}}}", &["1:31 `command` must be a string | …"]);
    check_json(
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"includeTools\": 5}}}",
        &["1:55 `includeTools` must be a list…"],
    );
}

#[test]
fn extension_of_goose_is_a_server_unless_it_is_built_in() {
    let path = "/home/u/.config/goose/config.yaml";
    let text = "\
# mine
GOOSE_MODEL: x
extensions:
  developer: {enabled: true, type: builtin, name: developer, bundled: true}
  a:
    enabled: true
    type: stdio
    name: A
    description: 'About: a'
    cmd: x
    args: [-y, \"${TOKEN}\"]
    envs: {ROWS: 12, B: '$TOKEN'}
    env_keys: [TOKEN]
    timeout: 90
    available_tools: []
  b:
    enabled: true
    type: streamable_http
    uri: https://x/${TOKEN}
    headers: {Authorization: Bearer $TOKEN, X: \"${NONE:-d}\"}
    envs: {}
    env_keys: []
  c: {enabled: false, type: stdio, cmd: x, args: []}
";
    let servers = servers_of(path, text);
    assert_eq!(named(&servers), ["a", "b"]);
    let program = launch(&servers[0]);
    assert_eq!((program.command.as_str(), &program.args[..]), ("x", &["-y".to_owned(), "${TOKEN}".to_owned()][..]));
    let env: Vec<_> = ["ROWS", "B", "TOKEN"].map(|name| program.env[name].to_string()).into();
    assert_eq!(env, ["12", "$TOKEN", "hunter2"]);
    assert_eq!(servers[0].settings.call_timeout.as_secs(), 90);
    assert!(permits(&servers[0], "anything"));
    let remote = remote(&servers[1]);
    assert_eq!((&*remote.url, &*remote.headers["Authorization"]), ("https://x/hunter2", "Bearer hunter2"));
    assert_eq!(&*remote.headers["X"], "${NONE:-d}");
    let expected =
        ["`${TOKEN}` is plain text in this file", "`${NONE:-…}` is plain text in this file", "server `c` is skipped"];
    let warnings = warnings(path, text);
    assert!(
        warnings.len() == 3 && warnings.iter().zip(expected).all(|(warning, part)| warning.contains(part)),
        "{warnings:#?}"
    );
}

#[test]
fn server_of_cline_has_its_transport_in_a_table() {
    let path = "/home/u/.cline/data/settings/cline_mcp_settings.json";
    let text = r#"{"mcpServers": {
        "a": {"transport": {"type": "stdio", "command": "x", "args": ["y"], "env": {"A": "${env:TOKEN}"}}, "timeout": 90},
        "b": {"transport": {"type": "streamableHttp", "url": "https://x", "headers": {"A": "b"}}, "oauth": {"tokens": {}}},
        "c": {"transport": {"type": "stdio", "command": "/usr/bin/mcpd", "args": ["connect"]}},
        "d": {"type": "sse", "url": "https://y"}
    }}"#;
    let servers = servers_of(path, text);
    assert_eq!(named(&servers), ["a", "b", "d"]);
    assert_eq!(
        (launch(&servers[0]).command.as_str(), launch(&servers[0]).env["A"].to_string()),
        ("x", "hunter2".to_owned())
    );
    assert_eq!(servers[0].settings.call_timeout.as_secs(), 90);
    assert_eq!((&*remote(&servers[1]).url, &*remote(&servers[1]).headers["A"]), ("https://x", "b"));
    assert_eq!(warnings(path, text), [""; 0]);
}

#[test]
fn server_of_copilot_has_all_tools_by_a_star() {
    let path = "/p/.github/mcp.json";
    let text = r#"{"mcpServers": {
        "a": {"type": "local", "command": "x", "args": ["$TOKEN"], "env": {"A": "${NONE:-d}"}, "tools": ["*"]},
        "b": {"type": "http", "url": "https://x", "tools": ["read"]}
    }}"#;
    let servers = servers_of(path, text);
    assert_eq!((&*launch(&servers[0]).args[0], launch(&servers[0]).env["A"].to_string()), ("hunter2", "d".to_owned()));
    assert!(permits(&servers[0], "write") && permits(&servers[1], "read") && !permits(&servers[1], "write"));
}

#[test]
fn errors_in_yaml_have_a_place_and_its_spelling() {
    let path = "/home/u/.config/goose/config.yaml";
    let error = |text: &str| load_text(path, text).expect_err("an error").to_string();
    let text = error("extensions:\n  a:\n    cmd: x\n    args: y\n");
    assert!(text.contains("config.yaml:4:11") && text.contains("write `args: [\"y\"]`"), "{text}");
    let text = error("extensions:\n  a: [1\n");
    assert!(text.contains("config.yaml:3:1") && text.contains("close the brackets"), "{text}");
    let text = error("GOOSE_MODEL: x\n");
    assert!(text.contains("there is no `extensions` in this file"), "{text}");
}
