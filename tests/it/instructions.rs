//! Server instructions reach every agent, each under its server's name.

use serde_json::Value;

use crate::support::{Agent, Daemon, Place, Server, Setup, result};

fn saying(name: &str, text: &str) -> Server {
    Server::named(name).arg("--instructions").arg(text)
}

/// As one string; null if there are none.
fn instructions(daemon: &Daemon) -> Value {
    result(&Agent::connect(daemon).initialize("2025-11-25"))["instructions"].clone()
}

#[test]
fn instructions_of_all_servers_come_in_file_order_under_their_names() {
    let setup = Setup::with(saying("zoo", "Feed\n\"nobody\".")).server(Server::named("mute"));
    let daemon = setup.server(saying("blank", " \n")).server(saying("ant", "Carry é.")).start();
    assert_eq!(instructions(&daemon), "# zoo\n\nFeed\n\"nobody\".\n\n# ant\n\nCarry é.");
    daemon.client(&["disable", "zoo"]).expect_code(0);
    assert_eq!(instructions(&daemon), "# ant\n\nCarry é.");
}

#[test]
fn instructions_of_a_server_hidden_by_policy_are_left_out() {
    let hidden = saying("hidden", "A secret.").line(r#"deny = ["*"]"#);
    let daemon = Setup::with(hidden).server(saying("other", "x").line("expose = []")).start();
    assert_eq!(instructions(&daemon), Value::Null, "there is no such field");
}

#[test]
fn long_instructions_are_cut_with_a_note() {
    let long = "é".repeat(6000);
    let setup = (0..9).fold(Setup::new(), |setup, n| setup.server(saying(&format!("s{n}"), &long)));
    let daemon = setup.start();
    let all = instructions(&daemon);
    let all = all.as_str().expect("text");
    assert!(all.len() < 34 << 10, "{} bytes", all.len());
    assert!(all.starts_with("# s0\n\néé") && all.contains("[cut by mcpd after 8192 of 12000 bytes]"), "{all:.50}");
    assert!(all.contains("\n\n# s3\n") && all.ends_with("more have instructions]"), "{}", &all[all.len() - 99..]);
}

#[test]
fn session_instances_contribute_their_instructions_once() {
    let daemon = Setup::with(saying("own", "Mine.").line("sharing = \"session\"")).start();
    assert_eq!(instructions(&daemon), "# own\n\nMine.");
}

#[test]
fn idle_server_contributes_its_last_known_instructions() {
    let place = Place::new();
    let start =
        || Setup::with(saying("lazy", "Wake me.").line("start = \"lazy\"\nidle_timeout = \"300ms\"")).start_in(&place);
    start().wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    let daemon = start();
    assert_eq!(daemon.row("lazy")["state"], "idle");
    assert_eq!(instructions(&daemon), "# lazy\n\nWake me.");
}
