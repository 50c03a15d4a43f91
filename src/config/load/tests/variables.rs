//! What the environment says of `[daemon]` and `[defaults]`.

use super::*;
use crate::config::show::show;
use crate::naming::Naming;

const FILE: &str = "[daemon]\nmax_message = '2MiB'\nwatch = true\n\
                    [defaults]\ncall_timeout = '1m'\nmax_instances = 3\npass_env = ['A']\ndeny = ['x']\n\
                    [servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\ncall_timeout = '9s'\n";

fn load_with(variables: &[(&str, &str)]) -> Result<LoadedConfig, ConfigError> {
    let mut sources = Table::from([("/c.toml", FILE), ("~", "/h")]);
    variables.iter().for_each(|(name, value)| sources.insert(name, value));
    load(&[PathBuf::from("/c.toml")], &sources)
}

#[test]
fn variables_are_above_all_files() {
    let loaded = load_with(&[
        ("MCPD_MAX_MESSAGE", "1MiB"),
        ("MCPD_FIRST_LIST_WAIT", "7s"),
        ("MCPD_CALL_LOG", "~/calls"),
        ("MCPD_NAMING", "{tool}"),
        ("MCPD_WATCH", ""),
    ]);
    let daemon = loaded.expect("fine").config.daemon;
    assert_eq!((daemon.max_message_bytes, daemon.watch), (1 << 20, true));
    assert_eq!((daemon.first_list_wait, daemon.naming), (Duration::from_secs(7), Naming::Bare));
    assert_eq!(daemon.call_log.as_deref(), Some(Path::new("/h/calls")));
}

#[test]
fn variables_of_defaults_are_typed_nested_and_lists_and_merge_over_a_file() {
    let loaded = load_with(&[
        ("MCPD_DEFAULTS__CALL_TIMEOUT", "2m"),
        ("MCPD_DEFAULTS__MAX_CONCURRENT", "7"),
        ("MCPD_DEFAULTS__INSTRUCTIONS", "FALSE"),
        ("MCPD_DEFAULTS__SANDBOX", "scope"),
        ("MCPD_DEFAULTS__MAX_MESSAGE", "4MiB"),
        ("MCPD_DEFAULTS__PASS_ENV", "B, C,"),
        ("MCPD_DEFAULTS__DENY", "y_*, w"),
        ("MCPD_DEFAULTS__IDLE_TIMEOUT", ""),
        ("MCPD_MAX_MESSAGE", "1MiB"),
        ("MCPD_watch", "false"),
    ]);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let daemon = &loaded.config.daemon;
    assert_eq!((daemon.max_message_bytes, daemon.watch), (1 << 20, false));
    let shown = show(&loaded);
    for line in [
        "call_timeout = \"2m\" # MCPD_DEFAULTS__CALL_TIMEOUT",
        "max_concurrent = 7 # MCPD_DEFAULTS__MAX_CONCURRENT",
        "instructions = false # MCPD_DEFAULTS__INSTRUCTIONS",
        "sandbox = \"scope\" # MCPD_DEFAULTS__SANDBOX",
        "max_message = \"4MiB\" # MCPD_DEFAULTS__MAX_MESSAGE",
        "max_message = \"1MiB\" # MCPD_MAX_MESSAGE",
        "max_instances = 3 # /c.toml:6",
        "\"A\", # /c.toml:7",
        "\"B\", # MCPD_DEFAULTS__PASS_ENV",
        "\"C\", # MCPD_DEFAULTS__PASS_ENV",
        "call_timeout = \"9s\" # /c.toml:13",
    ] {
        assert!(shown.lines().any(|shown| shown.trim() == line), "{line} is not in\n{shown}");
    }
}

#[test]
fn a_bad_variable_is_refused_by_its_name_as_a_bad_value_in_a_file_is() {
    for (name, value, message, help) in [
        ("MCPD_MAX_MESSAGE", "much", "`max_message` is no size: …", "write `MCPD_MAX_MESSAGE=10176KiB`"),
        ("MCPD_MAX_MESSAGE", "12", "`max_message` must be from 64KiB to 1GiB", "write `MCPD_MAX_MESSAGE=10176KiB`"),
        ("MCPD_MAX_MESSAGE", "1.5", "`max_message` must be a size", "write `MCPD_MAX_MESSAGE=10176KiB`"),
        ("MCPD_WATCH", "x", "`watch` must be true or false", "write `MCPD_WATCH=true`"),
        (
            "MCPD_FIRST_LIST_WAIT",
            "60",
            "`first_list_wait` must be a duration with its unit",
            "write `MCPD_FIRST_LIST_WAIT=60s`",
        ),
        ("MCPD_NAMING", "x", "`x` is not a value of `naming`", "write one of …"),
        ("MCPD_CALL_LOG", "calls", "`call_log` must be an absolute path", "write `MCPD_CALL_LOG=~/mcpd-calls.jsonl`…"),
        (
            "MCPD_DEFAULTS__MAX_INSTANCES",
            "many",
            "`max_instances` must be an absolute number from 1 to 1000",
            "write `MCPD_DEFAULTS__MAX_INSTANCES=10`",
        ),
        (
            "MCPD_DEFAULTS__CALL_TIMEOUT",
            "60",
            "`call_timeout` must be a duration with its unit",
            "write `MCPD_DEFAULTS__CALL_TIMEOUT=60s`",
        ),
        (
            "MCPD_DEFAULTS__PASS_ENV",
            "7",
            "`pass_env` must be a list of strings",
            "write `MCPD_DEFAULTS__PASS_ENV=SSH_AUTH_SOCK`",
        ),
        ("MCPD_DEFAULTS__PASS_ENV", "A,B=C", "`B=C` cannot name a variable", "write the name alone…"),
        ("MCPD_DEFAULTS__DENY", "ok,[", "`[` is no pattern", "a pattern is text with…"),
        ("MCPD_DEFAULTS__DENY", "a_{b,c}", "`a_{b` is no pattern", "a pattern is text with…"),
    ] {
        let error = load_with(&[(name, value)]).expect_err(name);
        let printed = error.to_string();
        for part in message.split('…').chain(help.split('…')) {
            assert!(printed.contains(part), "{printed}");
        }
        assert!(printed.contains(&format!("\n--> {name}\n")), "{printed}");
    }
}

#[test]
fn a_variable_that_looks_like_one_of_ours_is_a_warning_and_others_are_let_be() {
    let loaded = load_with(&[
        ("MCPD_MAX_MESAGE", "x"),
        ("MCPD_MAXMESSAGE", "1MiB"),
        ("MCPD_LINE_TIMEOUT", "1h"),
        ("MCPD_TEST_TAG", "x"),
        ("MCPD_INTEROP", "x"),
        ("MCPD_", "x"),
        ("MCPD_DEFAULTS", "x"),
        ("MCPD_PORT__X", "x"),
        ("MCPD_DEFAULTS.DENY", "*"),
        ("MCPD_DEFAULTS__CALL_TIMOUT", "x"),
        ("MCPD_DEFAULTS__ENABLED", "false"),
        ("MCPD_DEFAULTS__SANDBOX__LEVEL", "none"),
        ("MCPDX", "x"),
    ]);
    let warnings = loaded.expect("fine").warnings;
    let found: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        ("MCPD_DEFAULTS__CALL_TIMOUT", "did you mean `MCPD_DEFAULTS__CALL_TIMEOUT`?"),
        ("MCPD_DEFAULTS__ENABLED", "write other keys in a file"),
        ("MCPD_DEFAULTS__SANDBOX__LEVEL", "did you mean `MCPD_DEFAULTS__SANDBOX`?"),
        ("MCPD_LINE_TIMEOUT", "remove it: it was removed in 0.2, and mcpd uses 1m"),
        ("MCPD_MAX_MESAGE", "did you mean `MCPD_MAX_MESSAGE`?"),
        ("MCPD_MAXMESSAGE", "did you mean `MCPD_MAX_MESSAGE`?"),
    ]
    .map(|(name, help)| format!("warning: variable `{name}` is unknown to mcpd\n--> {name}\n = help: {help}"));
    assert_eq!(found, expected);
}
