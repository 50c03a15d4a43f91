//! Quotas of profiles and of the guests that they admit: their owner is served in any case.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::json;

use crate::support::{Agent, Server, Setup, arguments, as_user, skipped};

/// Of a user that no profile lets in.
const STRANGER: u32 = 54_322;
/// Lines of the log beside a flood.
const MAX_LOG_LINES: usize = 100;

/// Case C16.
#[test]
fn flood_of_refused_connections_writes_few_lines_with_their_number() {
    const CONNECTIONS: usize = 5000;
    const BATCH: usize = 200;
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can connect as somebody else");
    }
    let mut daemon = Setup::with(Server::named("a")).head("[profiles.open]\nallow_uids = [7]").start();
    let socket = daemon.place().runtime_dir().join("open.sock");
    let mut agent = Agent::ready(&daemon);
    for number in 0..5 {
        let flood =
            |socket: &std::path::Path| (0..CONNECTIONS / 5).try_for_each(|_| UnixStream::connect(socket).map(drop));
        as_user(STRANGER, &socket, flood).expect("the mode lets it");
        arguments(&agent.call("a__echo", &json!({ "n": number })));
    }
    drop(agent);
    assert!(daemon.term().success());
    let log = daemon.log();
    assert!(log.lines().count() < MAX_LOG_LINES, "{log}");
    let summary = log.lines().find_map(|line| line.split_once("(user 54322): … ")?.1.split(' ').next());
    assert_eq!(summary, Some(&*(CONNECTIONS - 1).to_string()), "{log}");
}
