//! Configuration layers: files, includes and variables, and the required ownership of files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::{Agent, Place, SCRIPTED, Server, Setup, quoted, skipped};

fn table(name: &str, tools: &str) -> String {
    let tools: String = tools.split(' ').map(|tool| format!(", \"--tool\", \"{tool}\"")).collect();
    format!("[servers.{name}]\ncommand = {}\nargs = [\"--bare\"{tools}]\n", quoted(SCRIPTED))
}

#[test]
fn config_file_and_config_directory_are_layers_below_the_environment() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg-config/mcpd/config.d")).expect("the test's own directory is writable");
    place
        .write("xdg-config/mcpd/config.toml", format!("[daemon]\nnaming = \"{{tool}}\"\n{}", table("a", "read write")));
    place.write(
        "xdg-config/mcpd/config.d/20-deny.toml",
        "[defaults]\ndeny = [\"other\"]\n[servers.a]\ndeny = [\"write\"]\n",
    );
    place.write("xdg-config/mcpd/config.d/10-more.toml", table("b", "list other"));
    place.write("xdg-config/mcpd/config.d/30-old.toml~", "no configuration at all");
    let setup = || Setup::new().without_config();
    let daemon = setup().start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["read", "list"]);
    drop(daemon);
    let daemon = setup().variable("MCPD_NAMING", "{server}__{tool}").start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["a__read", "b__list"]);
    drop(daemon);
    let daemon = setup().variable("MCPD_DEFAULTS__DENY", "write, list").start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["read"]);
}

#[test]
fn malformed_environment_variable_is_refused_by_name() {
    let place = Place::new();
    let file = place.write("config.toml", "");
    let mut command = place.command(crate::support::MCPD);
    command.args(["serve", "--config"]).arg(file).env("MCPD_MAX_MESSAGE", "much");
    let ran = crate::support::run(&mut command).expect_code(2);
    assert!(ran.stderr.contains("MCPD_MAX_MESSAGE") && ran.stderr.contains("`max_message` is no size"), "{ran}");
}

#[test]
fn files_in_either_format_are_layers() {
    let place = Place::new();
    let ours = place.write("ours.toml", table("ours", "t"));
    let theirs = place.write(
        "theirs.json",
        format!(
            r#"{{"mcpServers": {{"theirs": {{"command": {}, "args": ["--bare", "--tool", "t"]}}}}}}"#,
            quoted(SCRIPTED)
        ),
    );
    let narrowed = place.write("config.toml", "[servers.theirs]\nallow = []\n");
    let daemon = Setup::new().config(ours).config(theirs).config(narrowed).start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["ours__t"]);
}

#[test]
fn file_that_cannot_be_read_is_refused_at_once() {
    let place = Place::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("fifo"), rustix::fs::Mode::RUSR).expect("a FIFO");
    std::os::unix::fs::symlink(place.path("loop"), place.path("loop")).expect("a link");
    for (name, complaint) in
        [("fifo", "it is no regular file"), ("loop", "Too many levels of symbolic links"), ("none", "No such file")]
    {
        let ran = place.client(&["serve", "--config", place.path(name).to_str().expect("text")]).expect_code(2);
        assert!(ran.stderr.contains(name) && ran.stderr.contains(complaint), "{ran}");
    }
}

/// Case G6.
#[test]
fn file_that_others_could_have_written_is_refused() {
    let place = Place::new();
    let file = place.write("config.toml", table("a", "t"));
    let refused = |complaint: &str| {
        let ran = place.client(&["serve", "--config", file.to_str().expect("text")]).expect_code(2);
        assert!(ran.stderr.contains("config.toml") && ran.stderr.contains(complaint), "{ran}");
    };
    fs::set_permissions(&file, Permissions::from_mode(0o646)).expect("it is the test's own");
    refused("everybody may write to it (mode 0646)");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("it is the test's own");
    if chown(&file, Some(12345), None).is_err() {
        return skipped("only root can give a file away");
    }
    refused("it belongs to user 12345");
}

#[test]
fn no_server_is_started_with_an_empty_secret() {
    let place = Place::new();
    let empty = place.write("empty", "\n");
    let by_file = Server::named("file").env("TOKEN", &format!("${{file:{}}}", empty.display()));
    let by_variable = Server::named("variable").env("TOKEN", "${EMPTY_ONE}");
    let meant = Server::named("meant").env("TOKEN", "${EMPTY_ONE:-}").flags("--bare --tool t");
    let setup = Setup::with(by_file).server(by_variable).server(meant).variable("EMPTY_ONE", "");
    let daemon = setup.start_in(&place);
    for (name, reason) in [("file", "it is empty"), ("variable", "`EMPTY_ONE` is empty")] {
        let row = daemon.row(name);
        assert!(row["state"] == "failed" && row["reason"].to_string().contains(reason), "{row}");
        assert!(daemon.journal(name).is_empty(), "it was started");
    }
    assert_eq!(Agent::ready(&daemon).tools(), ["meant__t"]);
}
