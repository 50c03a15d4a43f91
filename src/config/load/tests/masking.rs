//! No secret of a file is printed, whatever client has it and wherever it stands.

use std::path::Path;

use crate::config::diagnostic::SourceFile;
use crate::config::load::parse_loosely;
use crate::config::masked;

/// Files with secrets, which all begin with `s3cr3t-`.
const FILES: [(&str, &str); 10] = [
    (
        "/.codex/config.toml",
        "# OPENAI_API_KEY = \"s3cr3t-a\"\nmodel = \"shown\" # token: s3cr3t-b\n[mcp_servers.token]\ncommand = \"shown\"\n\
         bearer_token = \"s3cr3t-c\"\nargs = [\"--api-key\", \"s3cr3t-d\", \"--token=s3cr3t-e\"]\nenv = { API_KEY = \"s3cr3t-f\" }\n\
         http_headers = { X-Auth = \"s3cr3t-g\" }\n[model_providers.x]\napi_key = \"s3cr3t-h\"\nexperimental_bearer_token = '''s3cr3t-i'''\n",
    ),
    (
        "/goose/config.yaml",
        "ANTHROPIC_TOKEN: s3cr3t-a\n# OPENAI_API_KEY: s3cr3t-b\nextensions:\n  secret:\n    cmd: shown\n    args:\n      - --api-key\n      - s3cr3t-c\n    \
         envs:\n      API_KEY: s3cr3t-d\n      PASSWORD: !own s3cr3t-e\n  far:\n    uri: https://x.example.org/?token=s3cr3t-f\n    headers:\n      \
         X-Auth: s3cr3t-g\n",
    ),
    (
        "/opencode/opencode.jsonc",
        "{\"provider\": {\"x\": {\"options\": {\"apiKey\": \"s3cr3t-a\"}}}, // \"apiKey\": \"s3cr3t-b\"\n/* token:\n password=s3cr3t-c */\"mcp\": {\"token\": \
         {\"command\": [\"shown\", \"--token\", \"s3cr3t-d\"], \"environment\": {\"API_KEY\": \"s3cr3t-e\"}}}}",
    ),
    ("/.claude.json", r#"{"oauthAccount": {"accessToken": "s3cr3t-a", "name": "shown"}, "mcpServers": {}}"#),
    (
        "/.claude.json",
        r#"{"credentials": {"first": "s3cr3t-a", "more": ["s3cr3t-b"]}, "mcpServers": {"secret": {"command": "shown"}}}"#,
    ),
    ("/zed/settings.json", r#"{"a": "shown", "openai_api_key": "s3cr3t-a", "context_servers": {}}"#),
    (
        "/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"url": "https://me:s3cr3t-a@shown.example.org"}, "b": {"command": "shown", "env": {"A_TOKEN": "s3cr3t-b"}}}}"#,
    ),
    ("/.codeium/windsurf/mcp_config.json", "{mcpServers: {a: {command: 'shown', env: {'API_KEY': 's3cr3t-a'}}}}"),
    ("/other.json", r#"{"mcpServers": {"a": {"cmd": "shown", "apiKey": "s3cr3t-a", "mcp": {"token": "s3cr3t-b"}}}}"#),
    ("/mcpd/config.toml", "[servers.token]\ncommand = \"shown\"\ntoken = \"s3cr3t-a\"\nenv.API_KEY = \"s3cr3t-b\"\n"),
];

#[test]
fn secrets_of_all_clients_are_masked_by_the_names_of_their_keys() {
    for (path, text) in FILES {
        let shown = masked(Path::new(path), text).unwrap_or_else(|| panic!("{path} does not parse"));
        assert!(!shown.contains("s3cr3t") && shown.contains("shown"), "{path}: {shown}");
        assert_eq!(shown.lines().count(), text.lines().count(), "{path}: {shown}");
    }
}

#[test]
fn quoted_lines_mask_the_same_secrets() {
    for (path, text) in FILES {
        let file = SourceFile::parsed(Path::new(path), text, &parse_loosely(Path::new(path), text).1);
        let shown: String = (0..text.len())
            .filter(|at| !file.hidden.iter().any(|span| span.contains(at)))
            .fold(String::new(), |shown, at| shown + text.get(at..=at).unwrap_or_default());
        assert!(!shown.contains("s3cr3t") && shown.contains("shown"), "{path}: {shown}");
    }
}

#[test]
fn text_that_does_not_parse_is_not_shown() {
    for (path, text) in [
        ("/.cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"env\": {\"API_KEY\": \"s3cr3t-a\"}}}"),
        ("/.cursor/mcp.json", "{\"env\": {\"API_KEY\": \"s3cr3t-a\", \"API_KEY\": \"s3cr3t-b\"}}"),
        ("/goose/config.yaml", "TOKEN: s3cr3t-a\nTOKEN: s3cr3t-b\n"),
        ("/goose/config.yaml", "TOKEN: \"s3cr3t-a\n"),
        ("/.codex/config.toml", "[mcp_servers.a.env\nAPI_KEY = \"s3cr3t-a\"\n"),
    ] {
        assert_eq!(masked(Path::new(path), text), None, "{text}");
    }
    assert_eq!(masked(Path::new("/.cursor/mcp.json"), "").as_deref(), Some(""));
}

#[test]
fn names_and_references_are_shown() {
    let text = r#"{"mcpServers": {"token": {"command": "x", "env": {"TOKEN": "${TOKEN}", "LEVEL": "info"}, "env_vars": ["API_KEY"]}}}"#;
    assert_eq!(masked(Path::new("/.claude.json"), text).as_deref(), Some(text));
}
