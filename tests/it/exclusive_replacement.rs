//! With `replace = "stop_first"`, a new server process starts after every earlier process has ended.

use rustix::process::Signal;

use crate::reload::{replace, start, text};
use crate::server_replacement::{events, reload};
use crate::support::{Daemon, Server};

/// One that holds its lock for a while after it was told to end.
fn holder(sharing: &str) -> Server {
    Server::named("s")
        .flags("--leave-delay 2500")
        .line("replace = \"stop_first\"")
        .line(format!("sharing = {sharing:?}"))
}

fn expect_one_after_the_other(daemon: &Daemon) {
    assert_eq!(events(daemon, "s"), ["start", "eof", "left", "start"]);
}

#[test]
fn server_changed_twice_is_started_when_the_first_one_has_ended() {
    let mut daemon = start(&[holder("shared")]);
    replace(daemon.place(), text(&[holder("pool")], daemon.place()));
    daemon.signal(Signal::HUP);
    daemon.wait_journal("s", "# eof");
    assert_eq!(reload(&daemon, &[holder("shared")]).expect_code(0).stdout, "changed      s\n");
    expect_one_after_the_other(&daemon);
}

#[test]
fn server_that_was_removed_and_is_back_is_started_when_the_first_one_has_ended() {
    let daemon = start(&[holder("shared")]);
    assert_eq!(reload(&daemon, &[]).expect_code(0).stdout, "removed      s\n");
    assert_eq!(reload(&daemon, &[holder("shared")]).expect_code(0).stdout, "added        s\n");
    expect_one_after_the_other(&daemon);
}

#[test]
fn server_that_becomes_exclusive_waits_for_its_predecessor() {
    let beside = |number: &str| Server::named("s").flags("--leave-delay 2500").env("NUMBER", number);
    let daemon = start(&[beside("1")]);
    assert_eq!(reload(&daemon, &[beside("2")]).expect_code(0).stdout, "changed      s\n");
    assert_eq!(reload(&daemon, &[holder("shared")]).expect_code(0).stdout, "changed      s\n");
    let events = events(&daemon, "s");
    assert!(events.ends_with(&["left".to_owned(), "left".to_owned(), "start".to_owned()]), "{events:?}");
}
