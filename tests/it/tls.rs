//! TLS verification of servers at `https://` URLs.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;

use crate::proxies::expect_served;
use crate::support::http::{Behavior, Front, Tls, authority};
use crate::support::{Agent, Daemon, Place, Server, Setup, quoted};

fn ca_file(name: &str) -> String {
    format!("ca_file = {}", quoted(authority(name)))
}

/// A server behind TLS, as a configuration has it, in the place of `Server::at`.
fn reached(tls: &Tls, host: &str, lines: &str) -> Server {
    Server::at("far", &tls.url(host, "/mcp")).line(lines)
}

/// It is down for this reason, and has not been told a word.
#[track_caller]
fn expect_distrusted(daemon: &Daemon, front: &Front, reason: &str) {
    let row = daemon.row("far");
    assert!(row["last_error"].to_string().contains(reason), "{row}");
    assert_eq!(front.http().requests().len(), 0);
    assert_eq!(Agent::ready(daemon).tools(), ["near__echo"]);
}

fn near() -> Setup {
    Setup::with(Server::named("near").flags("--bare --tool echo"))
}

/// Case I13.
#[test]
fn server_of_a_private_authority_is_reached_with_its_ca_file() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::before(front.http().address());
    for host in ["localhost", "127.0.0.1"] {
        expect_served(&near().server(reached(&tls, host, &ca_file("authority"))).start_in(&Place::new()));
    }
    assert!(front.http().requests().iter().all(|request| request.header("user-agent").unwrap().starts_with("mcpd/")));
}

/// Case I13.
#[test]
fn server_of_an_unknown_authority_receives_nothing() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::before(front.http().address());
    let elsewhere = Tls::at([127, 0, 0, 2], front.http().address());
    for (tls, host, lines, reason) in [
        (&tls, "localhost", String::new(), "UnknownIssuer"),
        (&tls, "localhost", ca_file("another"), "UnknownIssuer"),
        (&elsewhere, "127.0.0.2", ca_file("authority"), "not valid for name"),
        (&tls, "localhost", "ca_file = '/none/ca.pem'".to_owned(), "cannot read its `ca_file` /none/ca.pem"),
    ] {
        // Others than the system's, so that the test is the same wherever it runs.
        let setup = near().variable("SSL_CERT_FILE", authority("another").to_str().expect("text"));
        let daemon = setup.server(reached(tls, host, &lines)).start_in(&Place::new());
        expect_distrusted(&daemon, &front, reason);
    }
}

/// Case I13.
#[test]
fn authorities_of_the_system_are_trusted_with_and_without_a_ca_file() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::before(front.http().address());
    for lines in [String::new(), ca_file("another")] {
        let setup = near().variable("SSL_CERT_FILE", authority("authority").to_str().expect("text"));
        expect_served(&setup.server(reached(&tls, "localhost", &lines)).start_in(&Place::new()));
    }
}

/// Case I13.
#[test]
fn system_without_authorities_trusts_a_ca_file_alone() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::before(front.http().address());
    let none = place.write("none.pem", "");
    let start = |lines: &str| {
        let setup = near().variable("SSL_CERT_FILE", none.to_str().expect("text"));
        setup.server(reached(&tls, "localhost", lines)).start_in(&Place::new())
    };
    expect_distrusted(&start(""), &front, "no certificates of authorities on this system");
    expect_served(&start(&ca_file("authority")));
}

/// Case I13.
#[test]
fn self_signed_certificate_in_the_ca_file_is_accepted_as_the_servers() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::presenting("self-signed", "self-signed", front.http().address());
    for host in ["localhost", "127.0.0.1"] {
        expect_served(&near().server(reached(&tls, host, &ca_file("self-signed"))).start_in(&Place::new()));
    }
}

/// Case I13.
#[test]
fn self_signed_certificate_must_be_in_the_ca_file_and_valid_for_the_name_and_the_date() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    for (presented, key, in_file, reason) in [
        ("self-signed", "self-signed", "authority", "CaUsedAsEndEntity"),
        ("self-signed-other-key", "self-signed-other-key", "self-signed", "CaUsedAsEndEntity"),
        ("self-signed", "self-signed-other-key", "self-signed", "BadSignature"),
        ("self-signed-wrong-name", "self-signed", "self-signed-wrong-name", "not valid for name"),
        ("self-signed-expired", "self-signed", "self-signed-expired", "certificate expired"),
        ("self-signed-early", "self-signed", "self-signed-early", "certificate not valid yet"),
    ] {
        let tls = Tls::presenting(presented, key, front.http().address());
        let setup = near().server(reached(&tls, "localhost", &ca_file(in_file)));
        expect_distrusted(&setup.start_in(&Place::new()), &front, reason);
    }
}

#[test]
fn answer_without_tls_is_reported_with_the_scheme() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/mcp", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // As servers of plain HTTP do.
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            let _ = client.shutdown(Shutdown::Write).and_then(|()| io::copy(&mut client, &mut io::sink()));
        }
    });
    let daemon = near().server(Server::at("far", &url)).start();
    let row = daemon.wait_row("far", "tells why it is down", |row| row["last_error"].is_string());
    assert!(row["last_error"].to_string().contains("it answers without TLS: write `http://` in its `url`"), "{row}");
    assert_eq!(row["code"], "not_tls", "{row}");
}

/// Servers that expect TLS close the connection, or send an alert.
#[test]
fn request_without_tls_to_a_port_for_tls_is_reported_with_the_scheme() {
    for answer in [&b""[..], b"\x15\x03\x03\x00\x02\x02\x32"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let _ = client.read(&mut request).and_then(|_| client.write_all(answer));
            }
        });
        let daemon = near().server(Server::at("far", &url)).start();
        let row = daemon.wait_row("far", "tells why it is down", |row| row["last_error"].is_string());
        let hint = "write `https://` in its `url` if it serves HTTPS";
        assert!(row["last_error"].to_string().contains(hint), "{row}");
        assert_eq!(row["code"], "not_plain", "{row}");
        assert!(daemon.log().contains(hint), "{}", daemon.log());
        let status = daemon.client(&["status"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(status.contains(hint), "{status}");
    }
}

#[test]
fn server_behind_tls_reached_without_it_is_reported_with_the_scheme() {
    let place = Place::new();
    let front = Front::start(&place, "far", "--bare --tool echo", Behavior::default());
    let tls = Tls::before(front.http().address());
    let url = tls.url("localhost", "/mcp").replace("https:", "http:");
    let daemon = near().server(Server::at("far", &url)).start_in(&Place::new());
    let row = daemon.wait_row("far", "tells why it is down", |row| row["last_error"].is_string());
    assert_eq!(row["code"], "not_plain", "{row}");
    assert_eq!(front.http().requests().len(), 0);
}
