//! Server instructions reach every agent, each under its server's name.

use serde_json::{Value, json};

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
    assert!(all.len() < 35 << 10, "{} bytes", all.len());
    assert!(all.starts_with("- s0: éé") && all.contains("[cut by mcpd after 8192 of 12000 bytes]"), "{all:.50}");
    assert!(all.contains("\n\n# s3\n") && all.ends_with(": the limit is 32768 bytes]"), "{}", &all[all.len() - 99..]);
}

#[test]
fn session_instances_contribute_their_instructions_once() {
    let daemon = Setup::with(saying("own", "Mine.").line("sharing = \"session\"")).start();
    assert_eq!(instructions(&daemon), "# own\n\nMine.");
}

#[test]
fn idle_server_contributes_its_last_known_instructions() {
    let place = Place::new();
    let lazy = || saying("lazy", "Wake me.").line("start = \"lazy\"\nidle_timeout = \"300ms\"");
    let start = || Setup::with(lazy()).start_in(&place);
    start().wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    let daemon = start();
    assert_eq!(daemon.row("lazy")["state"], "idle");
    assert_eq!(instructions(&daemon), "# lazy\n\nWake me.");
}

#[test]
fn client_that_cuts_instructions_keeps_the_first_sentence_of_each_server() {
    let setup = |n: usize| saying(&format!("s{n}"), &format!("Use number {n}. {}", "More. ".repeat(500)));
    let daemon = (0..9).map(setup).fold(Setup::new(), Setup::server).start();
    let all = instructions(&daemon);
    let start = &all.as_str().expect("text")[..2048];
    for n in 0..9 {
        assert!(start.contains(&format!("- s{n}: Use number {n}.\n")), "{start}");
    }
}

#[test]
fn configured_instructions_replace_those_of_the_server() {
    let own = saying("own", "Of the server.");
    let setup = Setup::with(own).server(saying("none", "Never.").line("instructions = false"));
    let other = saying("other", "Never.").line("instructions = 'Ask first.'");
    let daemon = setup.server(other).server(Server::named("mute").line("instructions = 'Be quick.'")).start();
    assert_eq!(instructions(&daemon), "# own\n\nOf the server.\n\n# other\n\nAsk first.\n\n# mute\n\nBe quick.");
    let face = |server: &str| {
        let answer = Agent::connect(&daemon).initialize_with("2025-11-25", &json!({}), &json!({"mcpd/server": server}));
        result(&answer)["instructions"].clone()
    };
    assert_eq!((face("own"), face("none")), (json!("Of the server."), Value::Null));
    assert_eq!((face("other"), face("mute")), (json!("Ask first."), json!("Be quick.")));
}
