//! The daemon keeps serving with a full disk, a blocked log or a file size limit.

use std::fs;

use serde_json::json;

use crate::support::{Agent, Daemon, Place, SCRIPTED, Server, Setup, arguments, code, quoted, until};

/// Serves calls and a crash, all of which is logged.
fn serves(daemon: &Daemon) {
    let mut agent = Agent::ready(daemon);
    for _ in 0..3 {
        arguments(&agent.call("a__echo", &json!({})));
        assert_eq!(code(&agent.call("a__die", &json!({}))), -31001);
    }
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case F5.
#[test]
fn full_disk_of_the_log_does_not_stop_the_daemon() {
    serves(&Setup::with(Server::named("a")).after_shell("exec 2>/dev/full >/dev/full").start());
}

/// Case F5.
#[test]
fn unread_log_blocks_nothing() {
    // A pipe that is its own reader, full to the brim.
    let script = "mkfifo $TMPDIR/log; exec 2<>$TMPDIR/log; head -c 65536 /dev/zero >&2";
    serves(&Setup::with(Server::named("a")).after_shell(script).start());
}

/// Case F5.
#[test]
fn file_size_limit_affects_only_entries_of_the_call_log() {
    let place = Place::new();
    let head = format!("[daemon]\ncall_log = {}", quoted(place.path("calls.jsonl")));
    // In blocks of 512 bytes, or of 1 KiB.
    let daemon = Setup::with(Server::named("a")).head(&head).after_shell("ulimit -f 64").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    until("the file has reached the limit", || {
        // The server's own journal is not to reach it.
        (0..50).for_each(|_| assert_eq!(code(&agent.call("no_such_tool", &json!({}))), -32602));
        daemon.log().contains("calls are not written").then_some(())
    });
    serves(&daemon);
}

#[test]
fn default_config_file_is_served() {
    let place = Place::new();
    let dir = place.path("xdg-config/mcpd");
    fs::create_dir(&dir).expect("a fresh directory");
    let table = format!("[servers.mine]\ncommand = {}\nargs = [\"--bare\", \"--tool\", \"t\"]\n", quoted(SCRIPTED));
    fs::write(dir.join("config.toml"), table).expect("the test's own directory is writable");
    let daemon = Setup::new().without_config().start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["mine__t"]);
}
