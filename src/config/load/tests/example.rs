//! The example configuration says what the reader knows.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

pub(super) const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/mcpd.toml"));

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

/// The server and the profile that are shown in comments.
pub(super) fn shown() -> String {
    let shown = |first: &str| -> String {
        let lines = EXAMPLE.lines().skip_while(|line| !line.starts_with(first)).take_while(|line| *line != "#");
        lines.map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect()
    };
    shown("# [servers.files]") + &shown("# [profiles.reviewer]")
}

#[test]
fn the_example_shows_a_server_and_a_profile_that_load() {
    let config = load_text("/mcpd.toml", &shown()).unwrap_or_else(|error| panic!("{error}")).config;
    assert_eq!((config.servers.len(), config.profiles.len()), (1, 2));
}

#[test]
fn the_example_shows_every_key() {
    for key in known_keys().values().flatten() {
        let places = [format!("\n{key} = "), format!("\n# {key} = "), format!("{{ {key} = "), format!(", {key} = ")];
        let is_table = EXAMPLE.contains(&format!("\n[{key}]")) || EXAMPLE.contains(&format!("\n# [{key}."));
        assert!(is_table || places.iter().any(|place| EXAMPLE.contains(place)), "{key}");
    }
}

/// The keys of each table, by its name as a complaint has it: the reader itself says which keys it knows.
pub(super) fn known_keys() -> BTreeMap<String, BTreeSet<String>> {
    let error = load_text(
        "/c.toml",
        "qqq=1\n[daemon]\nqqq=1\n[defaults]\nqqq=1\n[servers.a]\nqqq=1\n\
                tools.qqq=1\ntool.t.qqq=1\nprompts.qqq=1\nresources.qqq=1\nskills.qqq=1\noauth.qqq=1\n\
                [profiles.p]\nqqq=1\ntools.qqq=1\nprompts.qqq=1\nresources.qqq=1\n",
    )
    .expect_err("bad");
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let table = |diagnostic: &Diagnostic| {
        let name = diagnostic.message.strip_prefix("unknown key `qqq` in ")?;
        let keys = diagnostic.help.as_deref()?.strip_prefix("write one of ")?;
        Some((name.trim_matches('`').to_owned(), quoted(keys)))
    };
    let tables: BTreeMap<_, _> = error.diagnostics().iter().filter_map(table).collect();
    assert_eq!(tables.len(), error.diagnostics().iter().filter(|found| found.message.contains("qqq")).count());
    tables
}
