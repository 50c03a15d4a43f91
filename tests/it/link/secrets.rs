//! What clients' files hold is a secret of theirs: no output has it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::mcpd;
use crate::support::{Place, client_files};

/// The file's text with a secret in each kind of place.
fn with_secrets(word: &str, text: &str) -> String {
    let variables = r#"{ "API_KEY": "s3cr3t-env" }"#;
    match word {
        "codex" => text
            .replace("[mcp_servers.notes]", "# api_key = \"s3cr3t-comment\"\n[mcp_servers.notes]")
            .replace("[\"demo-server\"]", "[\"demo-server\", \"--api-key\", \"s3cr3t-arg\", \"--token=s3cr3t-arg\"]\nbearer_token = \"s3cr3t-bearer\"")
            + "[model_providers.x]\napi_key = \"s3cr3t-key\"\nexperimental_bearer_token = \"s3cr3t-token\"\n[mcp_servers.notes.env]\nAPI_KEY = \"s3cr3t-env\"\n\
               [mcp_servers.far]\nurl = \"https://127.0.0.1:9/?api_key=s3cr3t-url\"\nhttp_headers = { X-Auth = \"s3cr3t-header\" }\n",
        "goose" => text.replace("extensions:", "# OPENAI_API_KEY: s3cr3t-comment\nANTHROPIC_TOKEN: s3cr3t-top\nextensions:")
            + "      - --api-key\n      - s3cr3t-arg\n    odd: 1\n    envs:\n      API_KEY: s3cr3t-env\n  far:\n    type: streamable_http\n    uri: https://127.0.0.1:9/?api_key=s3cr3t-url\n    \
               headers:\n      X-Auth: s3cr3t-header\n",
        _ => {
            let key = if word == "opencode" { "environment" } else { "env" };
            let quote = if text.contains("'demo-server'") { '\'' } else { '"' };
            let list = format!("{quote}demo-server{quote}]");
            let secrets = format!(r#""demo-server", "--api-key", "s3cr3t-arg", "--token=s3cr3t-arg"], "apiKey": "s3cr3t-key", "{key}": {variables}"#);
            let text = text.replace(&list, &secrets);
            let far = r#""far": { "url": "https://me:s3cr3t-url@127.0.0.1:9/", "headers": { "X-Auth": "s3cr3t-header" } }, "#;
            let top = r#""oauthAccount": { "accessToken": "s3cr3t-access" }, "openai_api_key": "s3cr3t-top", "#;
            let inserted = |text: String, names: &[&str], new: &str| {
                let at = names.iter().find_map(|name| text.find(name)).expect("a table of servers");
                format!("{}{new}{}", &text[..at], &text[at..])
            };
            let text = inserted(text, &["\"notes\"", "notes"], far);
            inserted(text, &["\"mcpServers\"", "mcpServers", "\"servers\"", "\"mcp\"", "\"context_servers\""], top)
        }
    }
}

#[test]
fn no_command_prints_secrets_of_the_files_of_clients() {
    let place = Place::new();
    for file in client_files() {
        let path = file.put(&place);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("it is the test's own");
        let text = with_secrets(file.word, &fs::read_to_string(&path).expect("text"));
        assert!(text.contains("s3cr3t-env") && text.contains("s3cr3t-header"), "{text}");
        fs::write(&path, text).expect("it is the test's own");
    }
    for (args, shown) in [
        (&["import", "--dry-run"][..], "unknown key"),
        (&["import", "--dry-run", "--json"], "unknown key"),
        (&["setup", "--dry-run"], "\"…\""),
        (&["setup", "--dry-run", "--json"], ""),
        (&["link", "--dry-run"], "\"…\""),
        (&["link", "--take-over", "--dry-run"], "\"…\""),
        (&["link", "--yes"], "\"…\""),
        (&["unlink", "--dry-run"], "\"…\""),
        (&["unlink", "--yes"], "\"…\""),
        (&["link", "--yes", "--json"], "written"),
        (&["unlink", "--yes", "--json"], "written"),
    ] {
        let ran = mcpd(&place, args);
        let output = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!output.contains("s3cr3t-") && output.contains(shown), "{args:?}: {ran}");
    }
}
