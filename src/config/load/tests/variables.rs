//! What the environment says of `[daemon]`.

use super::*;
use crate::naming::Scheme;

const FILE: &str = "[daemon]\nmax_message = '2MiB'\nmax_starting = 2\n";

fn load_with(variables: &[(&str, &str)]) -> Result<LoadedConfig, ConfigError> {
    let mut sources = Table::from([("/c.toml", FILE), ("~", "/h")]);
    variables.iter().for_each(|(name, value)| sources.insert(name, value));
    load(&[PathBuf::from("/c.toml")], &sources)
}

#[test]
fn variables_are_above_all_files() {
    let loaded = load_with(&[
        ("MCPD_MAX_MESSAGE", "1MiB"),
        ("MCPD_LINE_TIMEOUT", "5s"),
        ("MCPD_CALL_HISTORY", "20"),
        ("MCPD_CALL_LOG", "~/calls"),
        ("MCPD_NAMING", "{tool}"),
        ("MCPD_CALL_LOG_MAX", "70000"),
        ("MCPD_MAX_NAME_LENGTH", ""),
    ]);
    let daemon = loaded.expect("fine").config.daemon;
    assert_eq!((daemon.max_message_bytes, daemon.max_starting), (1 << 20, 2));
    assert_eq!((daemon.line_timeout, daemon.calls.history), (Duration::from_secs(5), 20));
    assert_eq!(daemon.calls.file.as_deref(), Some(Path::new("/h/calls")));
    assert_eq!((daemon.naming.scheme, daemon.naming.max_length, daemon.calls.max_file), (Scheme::Bare, 53, 70_000));
}

#[test]
fn a_bad_variable_is_refused_by_its_name_as_a_bad_value_in_a_file_is() {
    for (name, value, message, help) in [
        ("MCPD_MAX_MESSAGE", "much", "`max_message` is no size: …", "write `MCPD_MAX_MESSAGE=16MiB`"),
        ("MCPD_MAX_MESSAGE", "12", "`max_message` must be from 64KiB to 1GiB", "write `MCPD_MAX_MESSAGE=16MiB`"),
        (
            "MCPD_MAX_STARTING",
            "x",
            "`max_starting` must be an absolute number from 1 to 1000",
            "write `MCPD_MAX_STARTING=4`",
        ),
        ("MCPD_MAX_STARTING", "1.5", "`max_starting` must be an absolute number…", "write `MCPD_MAX_STARTING=4`"),
        ("MCPD_LINE_TIMEOUT", "60", "`line_timeout` must be a duration with its unit", "write `MCPD_LINE_TIMEOUT=60s`"),
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
        ("MCPD_TEST_TAG", "x"),
        ("MCPD_INTEROP", "x"),
        ("MCPD_", "x"),
        ("MCPDX", "x"),
    ]);
    let warnings = loaded.expect("fine").warnings;
    let found: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(
        found[1],
        "warning: variable `MCPD_MAX_MESAGE` is unknown to mcpd\n--> MCPD_MAX_MESAGE\n = help: did you mean `MCPD_MAX_MESSAGE`?"
    );
}
