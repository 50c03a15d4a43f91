//! Findings about the runtime directory and its sockets.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use super::{complaints, doctor, expect, expect_healthy, findings, follow};
use crate::support::{Daemon, MCPD, Place, Ran, Server, Setup, run, skipped};

fn server() -> Setup {
    Setup::with(Server::named("one").flags("--bare --tool x"))
}

fn set_mode(path: std::path::PathBuf, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the test's own");
}

/// With the configuration that a daemon was started with.
fn without_daemon(daemon: &Daemon, args: &[&str]) -> Ran {
    let config = daemon.place().path("config.toml");
    daemon.client(&[&["doctor", "--json", "--config", config.to_str().expect("text")], args].concat())
}

#[test]
fn directory_open_to_others_is_closed_by_the_printed_command() {
    let mut daemon = server().start();
    daemon.term();
    let place = daemon.place();
    set_mode(place.runtime_dir(), 0o755);
    let finding = expect(without_daemon(&daemon, &[]), "problem", "directory", "open to others (mode 0755)");
    follow(place, &finding).expect_code(0);
    let left = complaints(&without_daemon(&daemon, &[]));
    assert!(left.iter().all(|finding| finding.get("found") == "none runs"), "{left:#?}");
}

#[test]
fn file_in_place_of_the_directory_is_moved_by_the_printed_command() {
    let place = Place::new();
    place.write("run", "a file");
    let finding = expect(place.client(&["doctor", "--json"]), "problem", "directory", "is not a directory");
    follow(&place, &finding).expect_code(0);
    place.client(&["doctor", "--json"]).expect_code(0);
}

#[test]
fn socket_open_to_others_is_closed_by_the_printed_command() {
    let daemon = server().start();
    set_mode(daemon.agent_socket(), 0o666);
    let finding = expect(doctor(&daemon), "warning", "mcp.sock", "open to others (mode 0666)");
    follow(daemon.place(), &finding).expect_code(0);
    expect_healthy(doctor(&daemon));
}

#[test]
fn profile_socket_with_allowed_users_may_be_open_to_others() {
    let daemon = server().head("[profiles.shared]\nallow_uids = [12345]").start();
    expect_healthy(doctor(&daemon));
}

#[test]
fn file_in_place_of_a_socket_is_reported() {
    let mut daemon = server().start();
    daemon.term();
    fs::write(daemon.agent_socket(), "precious").expect("the test's own");
    let finding = expect(without_daemon(&daemon, &[]), "problem", "mcp.sock", "is a file, but not a socket");
    follow(daemon.place(), &finding).expect_code(0);
    fs::remove_file(daemon.place().path("run/mcp.sock.old")).expect("it was moved there");
}

#[test]
fn sockets_of_a_killed_daemon_are_reported_as_stale() {
    let mut daemon = server().start();
    daemon.kill9();
    let ran = without_daemon(&daemon, &["--no-start"]);
    let finding = expect(ran, "warning", "mcp.sock", "left by a daemon that was killed");
    assert!(finding.command().starts_with("mcpd serve --config "), "{finding:?}");
    expect(without_daemon(&daemon, &["--no-start"]), "warning", "daemon", "none runs");
}

#[test]
fn socket_that_waits_for_the_daemon_is_not_connected_to() {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    set_mode(place.runtime_dir(), 0o700);
    let socket = place.path("run/mcp.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a fresh path");
    set_mode(socket, 0o600);
    let ran = place.client(&["doctor", "--json"]).expect_code(0);
    let is_reported =
        |finding: &super::Finding| finding.get("found").contains("the first agent that connects starts the daemon");
    assert!(findings(&ran).iter().any(is_reported), "{ran}");
    listener.set_nonblocking(true).expect("one's own");
    assert!(listener.accept().is_err(), "that would have started a daemon");
}

#[test]
fn path_that_is_too_long_for_a_socket_is_measured() {
    let place = Place::new();
    let long = place.path(&"long/".repeat(30));
    let ran = place.mcpd(&["doctor", "--json", "--runtime-dir", long.to_str().expect("text")]);
    expect(ran, "problem", "admin.sock", "at most 107 are possible");
}

#[test]
fn ended_login_session_and_empty_environment_are_reported() {
    let place = Place::new();
    let ran_with = |set: &[(&str, &str)], unset: &[&str]| {
        let mut command = place.command(MCPD);
        command.args(["doctor", "--json"]).envs(set.iter().copied());
        unset.iter().for_each(|name| {
            command.env_remove(name);
        });
        run(&mut command)
    };
    let gone = place.path("gone");
    let gone = gone.to_str().expect("text");
    let session = "XDG_RUNTIME_DIR";
    expect(ran_with(&[(session, gone)], &[]), "warning", session, "gone does not exist");
    expect(ran_with(&[(session, "here")], &[]), "warning", session, "not an absolute path");
    expect(ran_with(&[("HOME", gone)], &[]), "warning", "HOME", "gone");
    expect(ran_with(&[], &["HOME"]), "warning", "HOME", "is not set");
    // Whether there is a login session depends on who runs the tests.
    expect(ran_with(&[], &["HOME", session, "XDG_CONFIG_HOME"]), "warning", "HOME", "is not set");
}

#[test]
fn daemon_that_another_session_has_started_is_found() {
    let place = Place::new();
    let below_home = place.path("home/.local/state/mcpd/run");
    let config = server().write(&place);
    let mut daemon = place.command(MCPD);
    daemon.args(["serve", "--config"]).arg(config).arg("--runtime-dir").arg(&below_home);
    let mut daemon = daemon.stderr(std::process::Stdio::null()).spawn().expect("mcpd starts");
    let below = below_home.to_str().expect("text");
    crate::support::until("it serves", || {
        (place.mcpd(&["status", "--runtime-dir", below]).code == Some(0)).then_some(())
    });
    let finding = expect(place.mcpd(&["doctor", "--json"]), "problem", "daemon", &format!("one runs in {below}"));
    follow(&place, &finding).expect_code(0);
    crate::support::signal(daemon.id(), rustix::process::Signal::TERM);
    crate::support::wait_exit(&mut daemon);
}

#[test]
fn paths_owned_by_another_user_are_reported_with_that_user() {
    if !rustix::process::getuid().is_root() {
        return skipped("only root can have files of another user");
    }
    let place = Place::new();
    let give_away = |name: &str| chown(place.path(name), Some(12345), None).expect("root may");
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    give_away("run");
    expect(place.client(&["doctor", "--json"]), "problem", "directory", "belongs to user 12345, and this is user 0");
    ["home", "xdg-run"].iter().for_each(|name| give_away(name));
    expect(place.mcpd(&["doctor", "--json"]), "warning", "HOME", "belongs to user 12345");
    expect(place.mcpd(&["doctor", "--json"]), "warning", "XDG_RUNTIME_DIR", "belongs to user 12345");
    place.write("theirs.toml", "");
    give_away("theirs.toml");
    let file = place.path("theirs.toml");
    let file = file.to_str().expect("text");
    let ran = place.mcpd(&["doctor", "--json", "--config", file]);
    expect(ran, "problem", file, "it belongs to user 12345");
}

#[test]
fn process_that_holds_the_lock_is_reported() {
    let mut daemon = server().start();
    let lock = |ran: &Ran| {
        let found = findings(ran).into_iter().find(|finding| finding.get("about") == "lock").expect("a lock");
        found.get("found").to_owned()
    };
    assert_eq!(lock(&doctor(&daemon)), format!("is held by process {}", daemon.pid()));
    daemon.kill9();
    assert_eq!(lock(&without_daemon(&daemon, &["--no-start"])), "is held by nobody");
}

#[test]
fn doctor_changes_nothing() {
    let place = Place::new();
    let config = place.write("config.toml", "[servers.one]\ncommand = 'cat'\n");
    let list = || {
        let mut ran = place.command("find");
        run(ran.args([".", "-newermt", "@0", "-printf", "%p %m %s %T@\n"])).stdout
    };
    let before = list();
    let config = config.to_str().expect("text");
    place.client(&["doctor", "--json", "--config", config]).expect_code(1);
    place.client(&["doctor", "--no-start", "--config", config]).expect_code(0);
    assert_eq!(list(), before);
}
