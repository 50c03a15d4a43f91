//! The format of other clients.

use super::*;
use crate::list_kind::ListKind;

#[test]
fn the_format_of_other_clients_is_read() {
    let server = server(
        r#"{ // a comment
          "theme": "dark",
          "mcpServers": { "files": {
            "type": "stdio", "command": "npx", "args": ["-y", "x",], "env": {"A": "${NAME}"}, "cwd": "/tmp", "deny": ["w*"],
          }, }, }"#,
    );
    let launch = program(&server);
    assert_eq!((launch.command.as_str(), &launch.args[..]), ("npx", &["-y".to_owned(), "x".to_owned()][..]));
    assert_eq!(launch.env["A"], "value");
    assert!(!server.policy.permits(ListKind::Tools, "write", None));
}

#[test]
fn json_is_recognized_by_file_name_or_first_character() {
    for path in ["/c.json", "/c.JSONC", "/claude", "/c.toml"] {
        let loaded = load_text(path, "\n {\"mcpServers\": {\"a\": {\"command\": \"x\"}}}")
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.config.servers.len(), 1, "{path}");
    }
}

#[test]
fn what_other_clients_have_beyond_is_ignored_with_a_warning() {
    check_warnings(
        r#"{"mcpServers": {
          "a": {"command": "x", "autoApprove": ["y"], "arg": []},
          "b": {"type": "sse", "url": "http://x", "args": 5},
          "d": {"command": "x", "disabled": true, "args": 5},
          "e": {"command": "x", "disabled": false}}}"#,
        &[
            "2:33 unknown key `autoApprove` in `a` is ignored",
            "2:55 unknown key `arg` in `a` is ignored | did you mean `args`?",
            "3:51 `args` is for a server that mcpd runs, and this one has a `url` | it is ignored",
            "4:11 server `d` is skipped",
        ],
    );
}

#[test]
fn json_errors_have_a_place_and_advice() {
    check_json("", &["1:1 there is no JSON in this file | write `{ \"mcpServers\": {} }`"]);
    check_json("[]", &["1:1 the file must be an object | …mcpServers…"]);
    check_json("{\"server\": {}}", &["1:1 there is no `mcpServers` in this file | …`context_servers`…"]);
    check_json("{\"mcpServers\": []}", &["1:16 `mcpServers` must be an object | …"]);
    check_json("{\"mcpServers\": {\"a\": 5}}", &["1:22 `a` must be an object | …"]);
    check_json("{\"mcpServers\": {\"a\": {}}}", &["1:17 server `a` has no `command` | write `\"command\": \"npx\"`"]);
    check_json("{\"mcpServers\": {\"a\": {\"command\": null}}}", &["1:34 `command` must be a string | …"]);
    check_json(
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": \"y\"}}}",
        &["1:47 `args` must be a list of strings | write `\"args\": [\"y\"]`"],
    );
    check_json("{\n \"a\": 1\n \"b\": 2}", &["2:8 expected comma | put a `,`…"]);
    check_json("{\"a\": \"\\q\"}", &["1:8 invalid escape | write `\\\\`…"]);
    check_json("{\"a\":", &["1:6 expected value after colon… | …"]);
    check_json("{\"a\": 1,", &["1:1 unterminated object | close the object with `}`"]);
    check_json("{'a': 1}", &["1:2 single-quoted strings are not allowed | use double quotes…"]);
    check_json("{} {}", &["1:4 text cannot contain… | remove…"]);
}
