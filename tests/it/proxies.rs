//! Servers at URLs are reached through the proxies of the environment, and directly where `NO_PROXY` says so.

use std::net::IpAddr;
use std::rc::Rc;

use serde_json::json;

use crate::support::http::{Behavior, Front, HttpServer, Response, Tls, Tunnel, authority};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, quoted, until};

#[track_caller]
pub(crate) fn expect_served(daemon: &Daemon) {
    assert_eq!(arguments(&Agent::ready(daemon).call("far__echo", &json!({"a": 1}))), &json!({"a": 1}));
}

fn front(place: &Rc<Place>, name: &str) -> Front {
    Front::start(place, name, "--bare --tool echo", Behavior::default())
}

/// Case I14.
#[test]
fn plain_http_server_is_requested_from_the_proxy() {
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
        let address = daemon.row("far").to_string() + &daemon.log();
        assert!(!address.contains("canary"), "{address}");
    }
}

/// Case I14.
#[test]
fn tls_server_is_reached_through_a_proxy_that_sees_only_its_name() {
    let place = Place::new();
    let front = front(&place, "far");
    let tls = Tls::before(front.http().address());
    let url = tls.url("localhost", "/mcp");
    let server = || Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("authority"))));
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port");
    for (name, scheme, targets) in [
        ("HTTPS_PROXY", "http://", format!("connect localhost:{port}")),
        ("https_proxy", "http://user:pw@", format!("connect localhost:{port} Basic dXNlcjpwdw==")),
        ("ALL_PROXY", "http://", format!("connect localhost:{port}")),
        ("ALL_PROXY", "socks5h://", format!("socks localhost {port}")),
    ] {
        let tunnel = Tunnel::start();
        let daemon = Setup::with(server()).variable(name, &format!("{scheme}{}", tunnel.address())).start();
        expect_served(&daemon);
        let all = tunnel.targets();
        assert!(!all.is_empty() && all.iter().all(|one| *one == targets), "{name} {scheme}: {all:?}");
    }
    assert!(front.http().requests().iter().all(|request| request.header("proxy-authorization").is_none()));
}

/// Case I14.
#[test]
fn socks_proxy_receives_a_name_or_an_address_by_its_scheme() {
    let place = Place::new();
    let front = front(&place, "far");
    let address = |one: &str| one.split(' ').nth(1).expect("a host").parse::<IpAddr>();
    let url = front.url().replace("127.0.0.1", "localhost");
    for (scheme, is_address) in [("socks5h://", false), ("socks5://", true)] {
        let tunnel = Tunnel::start();
        let proxy = format!("{scheme}{}", tunnel.address());
        let daemon = Setup::with(Server::at("far", &url)).variable("ALL_PROXY", &proxy).start();
        expect_served(&daemon);
        let all = tunnel.targets();
        assert!(!all.is_empty() && all.iter().all(|one| address(one).is_ok() == is_address), "{scheme}: {all:?}");
    }
}

/// Case I14.
#[test]
fn proxy_with_tls_is_itself_verified() {
    let place = Place::new();
    let front = front(&place, "far");
    let server = Tls::before(front.http().address());
    let tunnel = Tunnel::start();
    let proxy = Tls::before(tunnel.address());
    let url = server.url("localhost", "/mcp");
    let server = Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("authority"))));
    let daemon = Setup::with(server).variable("HTTPS_PROXY", &proxy.url("localhost", "")).start();
    expect_served(&daemon);
    assert!(tunnel.targets().iter().all(|one| one.starts_with("connect localhost:")), "{:?}", tunnel.targets());
    let before = tunnel.targets().len();
    let server = Server::at("far", &url).line(format!("ca_file = {}", quoted(authority("another"))));
    let daemon = Setup::with(server).variable("HTTPS_PROXY", &proxy.url("localhost", "")).start();
    assert!(daemon.row("far")["last_error"].to_string().contains("UnknownIssuer"), "{}", daemon.row("far"));
    assert_eq!(tunnel.targets().len(), before);
}

/// Case I14.
#[test]
fn exceptions_and_loopback_bypass_the_proxy() {
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

/// What the row of a server says that is down behind a proxy.
#[track_caller]
fn reason_behind(variable: &str, proxy: &str, url: &str) -> String {
    let daemon = Setup::with(Server::at("far", url)).variable(variable, proxy).start();
    daemon.wait_row("far", "says why", |row| row["reason"].is_string())["reason"].to_string()
}

/// Case I14.
#[test]
fn proxy_that_cannot_be_reached_is_named_with_its_variable() {
    // Nobody listens at the discard port.
    for (variable, scheme, url) in [
        ("HTTP_PROXY", "http://", "http://far.invalid/mcp"),
        ("http_proxy", "http://", "http://far.invalid/mcp"),
        ("HTTPS_PROXY", "http://", "https://far.invalid/mcp"),
        ("HTTPS_PROXY", "https://", "https://far.invalid/mcp"),
        ("ALL_PROXY", "", "https://far.invalid/mcp"),
        ("ALL_PROXY", "socks5h://", "http://far.invalid/mcp"),
        ("all_proxy", "socks4a://", "https://far.invalid/mcp"),
    ] {
        let reason = reason_behind(variable, &format!("{scheme}user:canary@127.0.0.1:9"), url);
        let expected = format!("the proxy 127.0.0.1:9 (`{variable}`) cannot be reached: Connection refused");
        assert!(reason.contains(&expected) && !reason.contains("canary"), "{variable} {scheme}: {reason}");
    }
    let reason = reason_behind("HTTPS_PROXY", "http://proxy.invalid:3128", "https://far.invalid/mcp");
    assert!(reason.contains("the proxy proxy.invalid:3128 (`HTTPS_PROXY`) cannot be reached: "), "{reason}");
}

/// Case I14.
#[test]
fn proxy_that_refuses_is_named_with_its_status() {
    for status in [407, 502, 503] {
        let proxy = HttpServer::start(move |_| Response::status(status));
        let address = proxy.address();
        let reason = |variable: &str, url: &str| reason_behind(variable, &format!("http://{address}"), url);
        let tunnelled = reason("HTTPS_PROXY", "https://far.invalid/mcp");
        let expected = format!("the proxy {address} (`HTTPS_PROXY`) answers CONNECT with HTTP {status}");
        assert!(tunnelled.contains(&expected), "{tunnelled}");
        let plain = reason("HTTP_PROXY", "http://far.invalid/mcp");
        assert!(plain.contains(&format!("HTTP {status}")), "{plain}");
        assert!(plain.contains(&format!("the proxy {address} (`HTTP_PROXY`)")), "{plain}");
    }
}

/// Case I14.
#[test]
fn call_behind_a_proxy_that_has_died_names_the_proxy() {
    let place = Place::new();
    let front = front(&place, "far");
    let address = front.http().address();
    let server = Server::at("far", "http://far.invalid/mcp");
    let daemon = Setup::with(server).variable("HTTP_PROXY", &format!("http://{address}")).start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("far__echo", &json!({})));
    drop(front);
    let expected = format!("the proxy {address} (`HTTP_PROXY`) cannot be reached");
    until("the proxy is missed", || {
        let error = agent.call("far__echo", &json!({}))["error"].clone();
        let is_named = error["message"].as_str().is_some_and(|message| message.contains(&expected));
        (is_named && error["data"]["outcome"] == "not_sent").then_some(())
    });
    daemon.wait_row("far", "names the proxy", |row| row["reason"].to_string().contains(&expected));
}
