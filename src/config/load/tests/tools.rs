//! Overrides of single tools, from text to what calls contain.

use bytes::Bytes;

use super::*;
use crate::config::show;
use crate::jsonrpc::message::RequestLine;

fn tool(rest: &str) -> String {
    format!("{OK}[servers.a.tool.search]\n{rest}\n")
}

/// The raw arguments that the server gets if the agent sends none.
fn sent(server: &ServerConfig, tool: &str) -> String {
    let line = Bytes::from_static(br#"{"id":1,"params":{"name":"x"}}"#);
    let request = RequestLine { id: line.slice(6..7), line, rename: None, progress_token: None };
    let of_tool = server.tool_overrides.get(tool).expect("an override");
    let line = of_tool.apply(&request).expect("permitted").line;
    let text = std::str::from_utf8(&line).expect("text");
    let arguments = text.strip_prefix(r#"{"id":1,"params":{"name":"x","arguments":"#).expect(text);
    arguments.strip_suffix("}}").expect(text).to_owned()
}

#[test]
fn fixed_arguments_have_every_type_that_toml_has() {
    let values = "arguments = { text = 'ü\"', yes = true, hex = 0x1F, float = 1_000.50, plus = +2.5, exp = 6e-3, list = [1, ['a']], \
                  object = { 'a b' = {} }, empty = [] }";
    let expected = r#"{"text":"ü\"","yes":true,"hex":31,"float":1000.50,"plus":2.5,"exp":6e-3,"list":[1,["a"]],"object":{"a b":{}},"empty":[]}"#;
    assert_eq!(sent(&server(&tool(values)), "search"), expected);
    let json = r#"{"mcpServers":{"a":{"command":"x", // comment
        "tool":{"search":{"arguments":{"n":1.10,"big":123456789012345678901234567890,"reference":"${NAME}","list":[{"a":1}]}}}}}}"#;
    let expected = r#"{"n":1.10,"big":123456789012345678901234567890,"reference":"${NAME}","list":[{"a":1}]}"#;
    assert_eq!(sent(&server(json), "search"), expected);
}

#[test]
fn overrides_of_several_files_are_merged_by_key() {
    let first = tool("name = 'find'\narguments = { a = 1 }\nhide_arguments = ['b']");
    let second =
        "[servers.a.tool.search]\nname = 'seek'\narguments = { c = 2 }\n[servers.a.tool.other]\ndescription = 'x'\n";
    let sources = Table::from([("/1.toml", &*first), ("/2.toml", second)]);
    let loaded = load(&["/1.toml", "/2.toml"].map(PathBuf::from), &sources).expect("it holds");
    let server = &loaded.config.servers[0];
    assert_eq!((server.tool_overrides.shown_name("search"), sent(server, "search")), ("seek", r#"{"c":2}"#.to_owned()));
    let text = show(&loaded);
    for line in [
        "[servers.a.tool.search]",
        "name = \"seek\" # /2.toml:2",
        "arguments = { c = 2 } # /2.toml:3",
        "hide_arguments = [\"b\"] # /1.toml:6",
        "[servers.a.tool.other]",
        "description = \"x\" # /2.toml:5",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    let again = load_text("/c.toml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(again.config.servers[0].tool_overrides, server.tool_overrides);
}

#[test]
fn likely_secrets_in_arguments_are_not_printed() {
    let secret = tool("arguments = { api_key = 'hunter2', repo = 'a/b' }");
    let shown = show(&load_text("/c.toml", &secret).expect("it holds"));
    assert!(shown.contains("arguments = { api_key = \"…\", repo = \"a/b\" }") && !shown.contains("hunter2"), "{shown}");
    let error =
        load_text("/c.toml", &tool("arguments = { api_key = 'hunter2', when = 1979-05-27 }")).expect_err("a date");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(!format!("{:?}", server(&secret)).contains("hunter2"));
}

#[test]
fn mistakes_are_reported_with_their_places() {
    let two = |first: &str, second: &str| format!("{OK}[servers.a.tool]\nb = {{ {first} }}\nc = {{ {second} }}\n");
    for (text, expected) in [
        (
            tool(""),
            "3:17 `[servers.a.tool.search]` is empty | write what agents should see, such as `name = \"find\"`…",
        ),
        (tool("nmae = 'x'"), "4:1 unknown key `nmae` in `[servers.a.tool.search]` | did you mean `name`?"),
        (tool("hide = ['x']"), "4:1 unknown key `hide` in… | …"),
        (tool("name = 'a b'"), "4:8 `a b` cannot name a tool | a name has 1 to 128 characters: …"),
        (tool("name = ''"), "4:8 `` cannot name a tool | …"),
        (tool("name = 7"), "4:8 `name` must be a string | …"),
        (tool("description = ['x']"), "4:15 `description` must be a string | …"),
        (tool("arguments = ['x']"), "4:13 `arguments` must be a table | write `arguments = { repo = \"owner/name\" }`"),
        (tool("arguments = { a = nan }"), "4:19 an argument cannot be a number that is not finite | …"),
        (tool("arguments = { a = [1979-05-27] }"), "4:20 an argument cannot be a date or time | …"),
        (tool("hide_arguments = 'x'"), "4:18 `hide_arguments` must be a list of strings | …['x']…"),
        (
            tool("arguments = { a = 1 }\nhide_arguments = ['b', 'a']"),
            "5:24 `a` has a value in `arguments` | remove one of the two…",
        ),
        (format!("{OK}tool = 7\n"), "3:8 `tool` must be a table | write `[servers.a.tool.TOOL]` for each tool"),
        (format!("{OK}tool = {{ b = 7 }}\n"), "3:14 `b` must be a table | …"),
        (format!("{OK}[servers.a.tool.'']\nname = 'x'\n"), "3:17 the name of a tool is empty | …"),
        (
            two("name = 'x'", "name = 'x'"),
            "5:14 tools `b` and `c` have the same name | give each tool of a server a name of its own",
        ),
        (two("name = 'c'", "description = 'x'"), "4:14 `c` is the name of another tool | …"),
        (two("name = 'c'", "name = 'c'"), "4:14 `c` is the name of another tool | …"),
        (format!("{OK}[defaults]\ntool = {{}}\n"), "4:1 unknown key `tool` in `[defaults]` | …"),
    ] {
        check(&text, &[expected]);
    }
    for text in [two("name = 'c'", "name = 'b'"), two("name = 'b'", "name = 'c'"), format!("{OK}tool = {{}}\n")] {
        check(&text, &[]);
    }
    let json = r#"{"mcpServers":{"a":{"command":"x","tool":{"b":{"arguments":{"x":null}}}}}}"#;
    check_json(json, &["1:65 an argument cannot be null | …"]);
}
