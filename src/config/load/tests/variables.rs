//! What the environment says of `[daemon]`.

use super::*;
use crate::naming::Naming;

const FILE: &str = "[daemon]\nmax_message = '2MiB'\nwatch = true\n";

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
        ("MCPDX", "x"),
    ]);
    let warnings = loaded.expect("fine").warnings;
    let found: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("help: remove it: it was removed in 0.2, and mcpd uses 1m"), "{}", found[0]);
    assert_eq!(
        found[2],
        "warning: variable `MCPD_MAX_MESAGE` is unknown to mcpd\n--> MCPD_MAX_MESAGE\n = help: did you mean `MCPD_MAX_MESSAGE`?"
    );
}
