//! Text of other clients' files is literal but for what each client itself fills in.

use super::*;

/// A file of each client, and whether it has `${NAME}`, `${env:NAME}` and `$NAME` filled in.
const CLIENTS: [(&str, [bool; 3]); 14] = [
    ("/p/.mcp.json", [true, false, false]),
    ("/home/u/.claude.json", [true, false, false]),
    ("/home/u/.config/Claude/claude_desktop_config.json", [false, false, false]),
    ("/home/u/.cursor/mcp.json", [false, true, false]),
    ("/p/.cursor/mcp.json", [false, true, false]),
    ("/p/.vscode/mcp.json", [false, true, false]),
    ("/home/u/.config/Code/User/mcp.json", [false, true, false]),
    ("/home/u/.codeium/windsurf/mcp_config.json", [false, true, false]),
    ("/home/u/.codeium/mcp_config.json", [false, true, false]),
    ("/p/.gemini/settings.json", [true, false, true]),
    ("/home/u/servers.json", [true, true, false]),
    ("/home/u/.codex/config.toml", [false, false, false]),
    ("/home/u/.config/zed/settings.json", [false, false, false]),
    ("/home/u/.config/opencode/opencode.json", [false, false, false]),
];

/// A server of the client with the file at `path`, that has `text` as its only argument.
fn file(path: &str, text: &str) -> String {
    let args = serde_json::json!([text]);
    match path {
        _ if path.ends_with(".toml") => format!("[mcp_servers.a]\ncommand = 'x'\nargs = {args}\n"),
        _ if path.contains("opencode") => {
            format!(r#"{{"mcp": {{"a": {{"type": "local", "command": ["x", {}]}}}}}}"#, &args[0])
        }
        _ if path.contains("zed") => format!(r#"{{"context_servers": {{"a": {{"command": "x", "args": {args}}}}}}}"#),
        _ => format!(r#"{{"mcpServers": {{"a": {{"command": "x", "args": {args}}}}}}}"#),
    }
}

#[test]
fn each_client_has_its_own_variables_filled_in_and_no_others() {
    for (path, filled) in CLIENTS {
        for (text, is_filled) in ["${TOKEN}", "${env:TOKEN}", "$TOKEN"].into_iter().zip(filled) {
            let server = only(path, &file(path, text));
            let expected = if is_filled { "hunter2" } else { text };
            assert_eq!(launch(&server).args, [expected], "{path}: {text}");
        }
        let default = only(path, &file(path, "${NONE:-d}"));
        assert_eq!(launch(&default).args, [if filled[0] { "d" } else { "${NONE:-d}" }], "{path}");
    }
}

#[test]
fn no_reference_of_mcpds_own_is_filled_in_for_another_client() {
    let pieces = ["${file:/etc/token}", "${file:~/token}", "${cred:db}", "${agent:cwd}"];
    for (path, _) in CLIENTS {
        for piece in pieces {
            for text in [piece.to_owned(), format!("a {piece} b"), format!("}}{piece}"), format!("5$ {piece}{piece}")] {
                let server = only(path, &file(path, &text));
                assert_eq!(launch(&server).args, [text.as_str()], "{path}");
                let warned = warnings(path, &file(path, &text)).join("\n");
                assert!(warned.contains(&format!("`{piece}` is plain text in this file")), "{path}: {warned}");
            }
        }
    }
}

#[test]
fn references_of_opencode_have_no_dollar() {
    let path = "/p/opencode.json";
    for (text, expected) in [
        ("{env:TOKEN}", Some("hunter2")),
        ("a={env:TOKEN},{env:NAME}", Some("a=hunter2,value")),
        ("${env:TOKEN}", Some("${env:TOKEN}")),
        ("{other:TOKEN} {env:", Some("{other:TOKEN} {env:")),
        ("{file:/etc/token}", None),
        ("{env:}", None),
        ("{env:A:-b}", None),
    ] {
        let server = only(path, &file(path, text));
        let filled = server.launch.as_ref().ok().and_then(Launch::program).map(|program| program.args.concat());
        assert_eq!(filled.as_deref(), expected, "{text}");
    }
}

#[test]
fn a_warning_of_plain_text_shows_no_default() {
    let warned = warnings("/p/.cursor/mcp.json", &file("/p/.cursor/mcp.json", "${TOKEN:-hunter2}")).join("\n");
    assert!(warned.contains("`${TOKEN:-…}` is plain text") && !warned.contains("hunter2"), "{warned}");
}

#[test]
fn names_of_variables_cannot_become_other_references() {
    for text in [
        "url = 'https://x'\nbearer_token_env_var = 'file:/etc/token'\n",
        "url = 'https://x'\nenv_http_headers = { A = 'file:/etc/token' }\n",
        "url = 'https://x'\nenv_http_headers = { A = 'B}${file:/etc/token' }\n",
        "url = 'https://x'\nbearer_token_env_var = ''\n",
    ] {
        let error = load_text("/c.toml", &format!("[mcp_servers.a]\n{text}")).expect_err(text).to_string();
        assert!(error.contains("does not name a variable"), "{error}");
    }
}
