//! Which files are read, and how they add up.

use super::*;
use crate::naming::Naming;

#[test]
fn the_default_file_is_under_the_config_directory() {
    let check = |rows: &[(&str, &str)], expected: Option<&str>| {
        let get = |name| rows.iter().find(|(row, _)| *row == name).map_or("", |(_, value)| value);
        let sources = match (get("~"), get("XDG_CONFIG_HOME")) {
            ("", "") => Table::default(),
            ("", xdg) => Table::from([("XDG_CONFIG_HOME", xdg)]),
            (home, xdg) => Table::from([("~", home), ("XDG_CONFIG_HOME", xdg)]),
        };
        assert_eq!(default_path(&sources).as_deref(), expected.map(Path::new), "{rows:?}");
    };
    check(&[("~", "/h")], Some("/h/.config/mcpd/config.toml"));
    check(&[("~", "/h"), ("XDG_CONFIG_HOME", "/x")], Some("/x/mcpd/config.toml"));
    check(&[("~", "/h"), ("XDG_CONFIG_HOME", "x")], Some("/h/.config/mcpd/config.toml"));
    check(&[("XDG_CONFIG_HOME", "/x")], Some("/x/mcpd/config.toml"));
    check(&[], None);
}

#[test]
fn a_missing_default_file_is_an_empty_daemon_with_a_hint() {
    let loaded = load(&[], &Table::from([("~", "/h")])).expect("fine");
    assert!(loaded.config.servers.is_empty() && loaded.files.is_empty());
    let hint = loaded.hint.expect("a hint");
    assert!(hint.contains("/h/.config/mcpd/config.toml"), "{hint}");
    let example = hint.split_once("\n\n").expect("an example").1;
    assert_eq!(load_text("/c.toml", example).expect("fine").config.servers.len(), 1);
    assert!(load(&[], &Table::default()).expect("fine").hint.expect("a hint").contains("--config"));
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
    let error = load(&[PathBuf::from("/none")], &Table::default()).expect_err("missing");
    assert_eq!(error.to_string(), "error: cannot read /none: there is none");
    let directory = tempfile::tempdir().expect("a directory");
    let error = load(&[directory.path().to_owned()], &Process).expect_err("a directory");
    assert!(error.to_string().ends_with("it is no regular file"), "{error}");
    assert_eq!(error.unreadable().count(), 1);
}

#[test]
fn later_files_replace_scalars_and_add_servers() {
    let sources = Table::from([
        (
            "/1.toml",
            "[daemon]\nnaming = '{tool}'\nmax_message = '1MiB'\n[defaults]\ncall_timeout = '1s'\npass_env = ['A']\n[servers.a]\ncommand = 'x'",
        ),
        (
            "/2.toml",
            "[daemon]\nnaming = 'mcp__{server}__{tool}'\n[defaults]\ncall_timeout = '2s'\npass_env = ['B']\n[servers.b]\ncommand = 'x'",
        ),
        ("/3.json", r#"{"mcpServers": {"c": {"command": "x"}}}"#),
    ]);
    let files = ["/1.toml", "/2.toml", "/3.json"].map(PathBuf::from);
    let loaded = load(&files, &sources).expect("fine");
    assert_eq!(loaded.files, files);
    assert_eq!(loaded.config.daemon.naming, Naming::McpPrefixed);
    assert_eq!(loaded.config.daemon.max_message_bytes, 1 << 20);
    assert_eq!(loaded.config.servers.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    for server in &loaded.config.servers {
        assert_eq!(server.settings.call_timeout, Duration::from_secs(2));
        assert_eq!(program(server).pass_env, ["A", "B"]);
    }
}

#[test]
fn one_server_in_two_files_is_an_error_that_names_both() {
    let sources = Table::from([("/1.toml", OK), ("/2.toml", "\n[servers.a]\ncommand = 'y'\nx = 1\n")]);
    let error = load(&["/1.toml", "/none", "/2.toml"].map(PathBuf::from), &sources).expect_err("collision");
    let printed = error.to_string();
    assert_eq!(error.diagnostics().len(), 2, "{printed}");
    for part in [
        "cannot read /none",
        "/2.toml:4:1",
        "server `a` is configured twice",
        "/2.toml:2:10",
        "the first is at /1.toml:1:10",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
}
