//! The example configuration says what the reader knows.

use super::*;

const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/mcpd.toml"));

#[test]
fn the_example_says_the_defaults() {
    let loaded = load_text("/mcpd.toml", EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.config.daemon, DaemonConfig::default());
    let with_server = load_text("/mcpd.toml", &format!("{EXAMPLE}\n{OK}")).expect("fine");
    let plain = server(OK);
    let server = &with_server.config.servers[0];
    assert_eq!(server.settings, plain.settings);
    assert!(program(server).pass_env.is_empty());
}

#[test]
fn the_example_shows_a_server_and_a_profile_that_load() {
    let shown = |first: &str| -> String {
        let lines = EXAMPLE.lines().skip_while(|line| !line.starts_with(first)).take_while(|line| *line != "#");
        lines.map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect()
    };
    let text = shown("# [servers.files]") + &shown("# [profiles.reviewer]");
    let config = load_text("/mcpd.toml", &text).unwrap_or_else(|error| panic!("{error}")).config;
    assert_eq!((config.servers.len(), config.profiles.len()), (1, 2));
}

/// The reader itself says which keys it knows.
#[test]
fn the_example_shows_every_key() {
    let error = load_text(
        "/c.toml",
        "[daemon]\nqqq=1\n[defaults]\nqqq=1\n[servers.a]\nqqq=1\n\
                tools.qqq=1\nprompts.qqq=1\nresources.qqq=1\n\
                [profiles.p]\nqqq=1\ntools.qqq=1\nprompts.qqq=1\nresources.qqq=1\n",
    )
    .expect_err("bad");
    let mut shown = 0;
    for help in error.diagnostics().iter().filter_map(|diagnostic| diagnostic.help.as_deref()) {
        for key in help.strip_prefix("write one of ").into_iter().flat_map(|keys| keys.split('`').skip(1).step_by(2)) {
            shown += 1;
            let places =
                [format!("\n{key} = "), format!("\n# {key} = "), format!("{{ {key} = "), format!(", {key} = ")];
            assert!(places.iter().any(|place| EXAMPLE.contains(place)), "{key}");
        }
    }
    assert_eq!(shown, 8 + 16 + 30 + 1 + 2 + 2 + 10 + 1 + 2 + 2);
}
