//! Servers at a URL are reached by the proxies of the daemon's environment, and past them only where that says so.

use std::net::IpAddr;
use std::rc::Rc;

use serde_json::json;

use crate::support::http::{Front, Manner, Tls, Tunnel, authority};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, quoted};

#[track_caller]
fn expect_served(daemon: &Daemon) {
    assert_eq!(arguments(&Agent::ready(daemon).call("far__echo", &json!({"a": 1}))), &json!({"a": 1}));
}

fn front(place: &Rc<Place>, name: &str) -> Front {
    Front::start(place, name, "--bare --tool echo", Manner::default())
}

/// Case I14.
#[test]
fn a_server_without_tls_is_asked_for_at_the_proxy() {
    let place = Place::new();
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        // It stands for the proxy, and answers for the server, whose name nobody but a proxy knows.
        let front = front(&place, "far");
        let proxy = format!("http://user:canary@{}", front.http().address());
        let server = Server::at("far", "http://far.invalid/mcp").line("headers = { X-Key = 'k' }");
        let daemon = Setup::with(server).variable(name, &proxy).start();
        expect_served(&daemon);
        for request in front.http().requests() {
            assert_eq!(request.header("host"), Some("far.invalid"), "{name}: {}", request.head());
            assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpjYW5hcnk="), "{}", request.head());
            assert_eq!(request.header("x-key"), Some("k"));
        }
        let told = daemon.row("far").to_string() + &daemon.log();
        assert!(!told.contains("canary"), "{told}");
    }
}

/// Case I14.
#[test]
fn a_server_with_tls_is_reached_through_the_proxy_which_sees_nothing_of_it() {
    let place = Place::new();
    let front = front(&place, "far");
    let tls = Tls::before(front.http().address());
    let url = tls.url("localhost", "/mcp");
    let server = || Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("authority"))));
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port");
    for (name, scheme, asked) in [
        ("HTTPS_PROXY", "http://", format!("connect localhost:{port}")),
        ("https_proxy", "http://user:pw@", format!("connect localhost:{port} Basic dXNlcjpwdw==")),
        ("ALL_PROXY", "http://", format!("connect localhost:{port}")),
        ("ALL_PROXY", "socks5h://", format!("socks localhost {port}")),
    ] {
        let tunnel = Tunnel::start();
        let daemon = Setup::with(server()).variable(name, &format!("{scheme}{}", tunnel.address())).start();
        expect_served(&daemon);
        let all = tunnel.asked();
        assert!(!all.is_empty() && all.iter().all(|one| *one == asked), "{name} {scheme}: {all:?}");
    }
    assert!(front.http().requests().iter().all(|request| request.header("proxy-authorization").is_none()));
}

/// Case I14.
#[test]
fn a_socks_proxy_is_told_a_name_or_an_address_as_its_scheme_says() {
    let place = Place::new();
    let front = front(&place, "far");
    let told = |one: &str| one.split(' ').nth(1).expect("a host").parse::<IpAddr>();
    let url = front.url().replace("127.0.0.1", "localhost");
    for (scheme, is_address) in [("socks5h://", false), ("socks5://", true)] {
        let tunnel = Tunnel::start();
        let proxy = format!("{scheme}{}", tunnel.address());
        let daemon = Setup::with(Server::at("far", &url)).variable("ALL_PROXY", &proxy).start();
        expect_served(&daemon);
        let all = tunnel.asked();
        assert!(!all.is_empty() && all.iter().all(|one| told(one).is_ok() == is_address), "{scheme}: {all:?}");
    }
}

/// Case I14.
#[test]
fn a_proxy_with_tls_is_itself_verified() {
    let place = Place::new();
    let front = front(&place, "far");
    let server = Tls::before(front.http().address());
    let tunnel = Tunnel::start();
    let proxy = Tls::before(tunnel.address());
    let url = server.url("localhost", "/mcp");
    let server = Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("authority"))));
    let daemon = Setup::with(server).variable("HTTPS_PROXY", &proxy.url("localhost", "")).start();
    expect_served(&daemon);
    assert!(tunnel.asked().iter().all(|one| one.starts_with("connect localhost:")), "{:?}", tunnel.asked());
    let before = tunnel.asked().len();
    let server = Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("another"))));
    let daemon = Setup::with(server).variable("HTTPS_PROXY", &proxy.url("localhost", "")).start();
    assert!(daemon.row("far")["last_error"].to_string().contains("UnknownIssuer"), "{}", daemon.row("far"));
    assert_eq!(tunnel.asked().len(), before);
}

/// Case I14.
#[test]
fn what_is_excepted_is_reached_past_the_proxy_and_this_machine_is_not_by_itself() {
    let place = Place::new();
    let front = front(&place, "far");
    let url = front.url();
    for (no_proxy, is_direct) in
        [("", false), ("example.org", false), ("127.0.0.1", true), ("10.0.0.0/8, 127.0.0.0/8", true), ("*", true)]
    {
        let proxy = self::front(&place, "proxy");
        let variables =
            [("HTTP_PROXY", format!("http://{}", proxy.http().address())), ("NO_PROXY", no_proxy.to_owned())];
        let setup = variables
            .iter()
            .fold(Setup::with(Server::at("far", &url)), |setup, (name, value)| setup.variable(name, value));
        let before = front.http().requests().len();
        expect_served(&setup.start());
        assert_eq!(front.http().requests().len() > before, is_direct, "{no_proxy}");
        assert_eq!(proxy.http().requests().is_empty(), is_direct, "{no_proxy}");
    }
}
