//! Servers at `localhost`, which has two addresses.

use std::net::{SocketAddr, TcpListener};

use serde_json::json;

use super::{beside, expect_well};
use crate::support::http::{Behavior, Front};
use crate::support::{Agent, Place, Server};

/// A listener on a port that is free at the other address, too.
fn bind(ip: &str, port: u16) -> TcpListener {
    TcpListener::bind((ip, port)).expect("an address of this machine")
}

/// The addresses with this port that nothing has.
fn free_port() -> u16 {
    loop {
        let four = bind("127.0.0.1", 0);
        let port = four.local_addr().expect("it is bound").port();
        if TcpListener::bind(("::1", port)).is_ok() {
            return port;
        }
    }
}

/// Case I22.
#[test]
fn server_is_found_at_either_address_of_localhost() {
    for (ip, mute) in [
        ("127.0.0.1", None),
        ("::1", None),
        // Accepts connections, and sends nothing.
        ("127.0.0.1", Some("::1")),
        ("::1", Some("127.0.0.1")),
    ] {
        let (place, port) = (Place::new(), free_port());
        let address = SocketAddr::new(ip.parse().expect("an address"), port);
        let front = Front::start_at(address, &place, "a", "", Behavior::default());
        let _mute = mute.map(|ip| bind(ip, port));
        let daemon = beside(Server::at("a", &format!("http://localhost:{port}/mcp")), &place);
        let mut agent = Agent::ready(&daemon);
        expect_well(&mut agent);
        assert!(front.http().count(|request| request.rpc() == "tools/call") == 1, "{ip} beside {mute:?}");
        agent.disconnect();
    }
}

/// Case I22.
#[test]
fn reason_lists_both_addresses_of_localhost() {
    let (place, port) = (Place::new(), free_port());
    let daemon = beside(Server::at("a", &format!("http://localhost:{port}/mcp")), &place);
    let row = daemon.wait_row("a", "names both", |row| {
        let reason = row["reason"].as_str().unwrap_or_default();
        reason.contains(&format!("[::1]:{port}: ")) && reason.contains(&format!("127.0.0.1:{port}: "))
    });
    assert_eq!(row["code"], json!("connection_refused"));
}
