//! What a later layer says of a server that an earlier one configures.

use super::*;
use crate::list_kind::ListKind;

const BASE: &str =
    "[servers.a]\ncommand = 'x'\nallow = ['r*', 'w*']\ndeny = ['rm']\ncall_timeout = '10s'\nidle_timeout = '20s'";

fn layered(base: &str, overlay: &str) -> Result<LoadedConfig, ConfigError> {
    let sources = Table::from([("/1.toml", base), ("/2.toml", overlay)]);
    load(&["/1.toml", "/2.toml"].map(PathBuf::from), &sources)
}

fn narrowed(overlay: &str) -> ServerConfig {
    let loaded = layered(BASE, overlay).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.config.servers.len(), 1);
    loaded.config.servers.into_iter().next().expect("one")
}

#[test]
fn a_later_layer_only_narrows_what_is_exposed() {
    let server = narrowed(
        "[servers.a]\nallow = ['*d', 'list']\ndeny = ['wd']\nexpose = ['tools']\nresources.deny = ['*']\nprompts.allow = ['p']",
    );
    let permits = |kind, key| server.policy.permits(kind, key, None);
    for (tool, permitted) in
        [("read", true), ("wd", false), ("rm", false), ("list", false), ("write", false), ("rd", true)]
    {
        assert_eq!(permits(ListKind::Tools, tool), permitted, "{tool}");
    }
    assert!(!permits(ListKind::Prompts, "p") && !permits(ListKind::Resources, "file:///a"));
    assert!(!narrowed("servers.a.tools.read_only = true").policy.permits(ListKind::Tools, "read", None));
    assert!(!narrowed("[servers.a]\nallow = []").policy.permits(ListKind::Tools, "read", None));
}

#[test]
fn settings_of_the_later_layer_win_one_by_one() {
    let server = narrowed(
        "[defaults]\nidle_timeout = '1s'\nstart = 'lazy'\n[servers.a]\ncall_timeout = '30s'\nlog_arguments = true",
    );
    let settings = &server.settings;
    assert_eq!((settings.call_timeout.as_secs(), settings.idle_timeout.as_secs()), (30, 20));
    assert_eq!(settings.start, crate::config::Start::Lazy);
    assert!(server.settings.log_arguments);
    assert!(!narrowed("servers.a.log_arguments = false").settings.log_arguments);
}

#[test]
fn what_the_defaults_deny_every_server_denies_beside_its_own() {
    let sources = Table::from([
        ("/1.toml", "defaults.deny = ['x']\n[servers.a]\ncommand = 'x'\ndeny = ['y']"),
        ("/2.json", r#"{"mcpServers": {"b": {"command": "x"}}}"#),
        ("/3.toml", "defaults.deny = ['z']"),
    ]);
    let loaded = load(&["/1.toml", "/2.json", "/3.toml"].map(PathBuf::from), &sources).expect("fine");
    let permitted = |server: usize| {
        let policy = &loaded.config.servers[server].policy;
        ["x", "y", "z", "w"].map(|tool| policy.permits(ListKind::Tools, tool, None))
    };
    assert_eq!((permitted(0), permitted(1)), ([false, false, false, true], [false, true, false, true]));
    check("defaults.deny = 'x'", &["1:17 `deny` must be a list of strings | …"]);
    check("defaults.deny = ['[']", &["1:18 `[` is no pattern: …"]);
}

#[test]
fn anything_else_is_an_error_that_names_both_places() {
    let error =
        layered(BASE, "[servers.a]\nargs = []\nenv = { A = 'b' }\ncwd = '/'\nroots = []\npass_env = []\nheaders = {}")
            .expect_err("misplaced");
    let found: Vec<_> = error.diagnostics().iter().map(describe).collect();
    assert_eq!(found.len(), 6, "{found:#?}");
    for (found, (line, key)) in
        found.iter().zip([(2, "args"), (3, "env"), (6, "pass_env"), (4, "cwd"), (5, "roots"), (7, "headers")])
    {
        let expected =
            format!("{line}:1 `{key}` of server `a` is set outside the table that defines the server | set it there");
        assert!(found.starts_with(&expected), "{found}");
    }
    assert!(error.to_string().contains("it is configured at /1.toml:1:10"), "{error}");
}

#[test]
fn a_server_that_no_lower_layer_configures_needs_a_command() {
    for (base, overlay) in [("", "[servers.a]\ndeny = ['x']"), ("[servers.a]\ndeny = ['x']", OK)] {
        let error = layered(base, overlay).expect_err("it is not configured").to_string();
        assert!(error.contains("server `a` has no `command`") && error.contains("no layer below this file"), "{error}");
    }
}
