//! The key `sandbox`.

use super::*;
use crate::config::{NamespaceUse, Network, Sandbox, SandboxLevel, show};

fn sandbox_of(text: &str) -> Sandbox {
    let loaded = load_text("/c.toml", text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    loaded.config.servers[0].settings.sandbox.clone()
}

#[test]
fn sandbox_is_a_level_or_a_table() {
    let server = |sandbox: &str| format!("[servers.a]\ncommand = 'x'\n{sandbox}");
    let files = Sandbox::of_level(SandboxLevel::Files);
    for (text, expected) in [
        (server(""), Sandbox::of_level(SandboxLevel::Scope)),
        (server("sandbox = 'none'"), Sandbox::of_level(SandboxLevel::None)),
        (server("sandbox = 'files'"), files.clone()),
        (format!("[defaults]\nsandbox = 'files'\n{}", server("")), files.clone()),
        (
            format!("[defaults]\nsandbox = 'files'\n{}", server("sandbox = 'scope'")),
            Sandbox::of_level(SandboxLevel::Scope),
        ),
        (
            server(
                "sandbox = { level = 'files', read = ['~/a'], write = ['/srv/${NAME}'], unix = true, network = 'none' }",
            ),
            Sandbox {
                read: vec!["/home/u/a".into()],
                write: vec!["/srv/value".into()],
                unix: Some(true),
                network: Network::Ports(Vec::new()),
                ..files.clone()
            },
        ),
        (
            server("sandbox = { level = 'scope', network = [443, 80] }"),
            Sandbox { network: Network::Ports(vec![443, 80]), ..Sandbox::default() },
        ),
        (server("sandbox = { level = 'scope', network = true }"), Sandbox::default()),
        (
            server("sandbox = { level = 'files', namespaces = 'require', nested_namespaces = true }"),
            Sandbox { namespaces: NamespaceUse::Require, nested_namespaces: true, ..files.clone() },
        ),
    ] {
        assert_eq!(sandbox_of(&text), expected, "{text}");
    }
}

#[test]
fn mistakes_in_a_sandbox_are_reported_at_their_place() {
    for (sandbox, expected) in [
        ("'file'", "3:11 `file` is not a value of `sandbox` | did you mean `files`?"),
        ("3", "3:11 `sandbox` must be a level or a table | write `sandbox = \"scope\"`"),
        ("{ read = ['/a'] }", "3:11 `sandbox` has no `level` | …"),
        ("{ level = 'scope', read = ['/a'] }", "3:30 `read` has an effect only at level `files` | …"),
        ("{ level = 'scope', namespaces = 'require' }", "3:30 `namespaces` has an effect only at level `files` | …"),
        ("{ level = 'files', namespaces = 'always' }", "3:43 `always` is not a value of `namespaces` | …"),
        ("{ level = 'none', unix = false }", "3:21 level `none` restricts nothing | …"),
        ("{ level = 'files', red = ['/a'] }", "3:30 unknown key `red` in `sandbox` | did you mean `read`?"),
        ("{ level = 'files', write = ['a'] }", "3:39 each item of `write` must be an absolute path | …"),
        ("{ level = 'files', write = ['~/'] }", "3:39 `/home/u/` would open `/home/u` to the server | …"),
        ("{ level = 'files', read = ['/home'] }", "3:38 `/home` would open `/home/u…` to the server | …"),
        ("{ level = 'files', read = ['~/.config'] }", "3:38 …would open `/home/u/.config/mcpd` to the server | …"),
        ("{ level = 'files', read = ['~/.local/state/mcpd/x'] }", "3:38 …would open `/home/u/.local/state/mcpd` to …"),
        ("{ level = 'files', network = [0] }", "3:40 `network` must be true, \"none\" or a list of TCP ports | …"),
    ] {
        check(&format!("[servers.a]\ncommand = 'x'\nsandbox = {sandbox}"), &[expected]);
    }
    check(
        "[servers.a]\ncommand = 'x'\ncwd = '${HOME}'\n[defaults]\nsandbox = 'files'",
        &["3:7 `cwd` would open `/home/u…` to the server | choose a directory below it…"],
    );
}

#[test]
fn effective_sandbox_is_shown_as_toml() {
    for sandbox in [
        "\"none\"",
        "\"files\"",
        "{ level = \"files\", read = [\"/a\"], write = [\"/b\"], unix = true, network = \"none\" }",
        "{ level = \"files\", namespaces = \"require\", nested_namespaces = true }",
        "{ level = \"scope\", unix = false, network = [443] }",
    ] {
        let text = format!("[servers.a]\ncommand = 'x'\nsandbox = {sandbox}");
        let shown = show(&load_text("/c.toml", &text).expect("it is valid"));
        assert!(shown.contains(&format!("sandbox = {sandbox} ")), "{sandbox} in\n{shown}");
    }
}
