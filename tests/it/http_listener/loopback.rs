//! Loopback addresses: the token, origins of pages, and changes while the daemon runs.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http_agent::{GET, HttpAgent, POST, call, initialize, modern, modern_headers, request};
use crate::support::{Daemon, Place, Server, Setup, arguments, signal, until, wait_exit};

/// An address that nobody uses.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}

fn start(address: SocketAddr) -> Daemon {
    let profile = format!("[profiles.default]\nhttp = '{address}'\nhttp_origins = ['https://ui.example.com']");
    Setup::with(Server::named("s")).head(&profile).start()
}

/// The header with the token that a command prints.
fn token(daemon: &Daemon, args: &[&str]) -> String {
    let ran = daemon.client(args).expect_code(0);
    let token = ran.stdout.strip_suffix('\n').expect("a line");
    assert!(token.len() >= 43 && !token.contains(char::is_whitespace), "{token:?} {}", ran.stderr);
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn loopback_address_serves_only_agents_with_the_token() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let file = daemon.place().path("home/.local/state/mcpd/tokens/default");
    if let Ok(found) = fs::metadata(&file) {
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    let body = modern(1, "tools/call", &json!({"name": "s__echo", "arguments": {"x": 1}}));
    let mut http = HttpAgent::connect_tcp(address);
    let reply = http.post("/mcp", &format!("{}{token}", modern_headers(&body)), &body);
    assert_eq!(arguments(&reply.message()), &json!({"x": 1}));
    let reply = http.post("/mcp", &format!("{POST}{token}"), &initialize(2));
    let session = format!("Mcp-Session-Id: {}\r\n", reply.header("mcp-session-id").expect("a session"));
    let listeners: Vec<_> = super::agents(&daemon).iter().map(|agent| agent["listener"].clone()).collect();
    assert_eq!(listeners, ["loopback", "loopback"]);
    let at = daemon.status()["profiles"][0]["http"].clone();
    assert_eq!(at, address.to_string());
    let wrong = token.replace("Bearer ", "Bearer x");
    for (what, headers) in [
        ("no token", POST.to_owned()),
        ("wrong token", format!("{POST}{wrong}")),
        ("another scheme", format!("{POST}{}", token.replace("Bearer", "Basic"))),
        ("two tokens", format!("{POST}{token}{token}")),
        ("a session alone", format!("{POST}{session}")),
    ] {
        let mut http = HttpAgent::connect_tcp(address);
        let reply = http.post("/mcp", &headers, &request(3, "ping", &json!({})));
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{what}");
        assert!(http.try_reply().is_none(), "the connection is closed");
    }
    assert_eq!(HttpAgent::connect_tcp(address).request("GET /healthz", GET).status, 401);
    // The session belongs to its listener.
    let mut socket = HttpAgent::connect(&daemon);
    assert_eq!(socket.post("/mcp", &format!("{POST}{session}"), &request(4, "ping", &json!({}))).status, 404);
    assert_eq!(http.post("/mcp", &format!("{POST}{token}{session}"), &request(4, "ping", &json!({}))).status, 200);
}

#[test]
fn foreign_pages_are_refused_and_listed_ones_may_ask() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let ping = request(1, "ping", &json!({}));
    let mut http = HttpAgent::connect_tcp(address);
    for (headers, status) in [
        (POST.replace("localhost", "evil.example.com"), 403),
        (POST.replace("localhost", &format!("rebound.example.com:{}", address.port())), 403),
        (format!("{POST}Origin: http://evil.example.com\r\n"), 403),
        (format!("{POST}Origin: null\r\n"), 403),
        (format!("{POST}Origin: https://ui.example.com\r\n"), 400),
        (POST.replace("localhost", &address.to_string()), 400),
    ] {
        let reply = http.post("/mcp", &format!("{headers}{token}"), &ping);
        assert_eq!(reply.status, status, "{headers}");
        let is_listed = headers.contains("ui.example.com");
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, is_listed.then_some("https://ui.example.com"), "{headers}");
    }
    let asks = "Host: localhost\r\nAccess-Control-Request-Method: POST\r\nOrigin: ";
    let allowed = http.request("OPTIONS /mcp", &format!("{asks}https://ui.example.com\r\n"));
    assert_eq!((allowed.status, allowed.header("access-control-allow-methods")), (204, Some("GET, POST, DELETE")));
    assert_eq!(http.request("OPTIONS /mcp", &format!("{asks}https://evil.example.com\r\n")).status, 403);
}

#[test]
fn changed_origins_hold_for_open_connections() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let (mut http, mut socket) = (HttpAgent::connect_tcp(address), HttpAgent::connect(&daemon));
    let file = daemon.place().path("config.toml");
    for (listed, other) in [("ui", "new"), ("new", "ui")] {
        let text = fs::read_to_string(&file).expect("the configuration");
        let origin = |name: &str| format!("https://{name}.example.com");
        fs::write(&file, text.replace(&origin(other), &origin(listed))).expect("it is written");
        daemon.client(&["reload"]).expect_code(0);
        for (name, status) in [(listed, 200), (other, 403)] {
            let headers = format!("Host: localhost\r\n{token}Origin: {}\r\n", origin(name));
            for http in [&mut http, &mut socket] {
                let reply = http.request("GET /healthz", &headers);
                assert_eq!(reply.status, status, "{name} while {listed} is listed");
                let allowed = reply.header("access-control-allow-origin").map(str::to_owned);
                assert_eq!(allowed, (status == 200).then(|| origin(name)));
            }
        }
    }
}

#[test]
fn rotation_ends_what_uses_the_old_token() {
    let address = free();
    let daemon = start(address);
    let old = token(&daemon, &["token"]);
    assert_eq!(token(&daemon, &["token", "--profile", "default"]), old);
    let mut http = HttpAgent::connect_tcp(address);
    let reply = http.post("/mcp", &format!("{POST}{old}"), &initialize(1));
    let session = format!("Mcp-Session-Id: {}\r\n", reply.header("mcp-session-id").expect("a session"));
    let mut stream = HttpAgent::connect_tcp(address);
    assert_eq!(stream.request("GET /mcp", &format!("{GET}{old}{session}")).status, 200);
    let new = token(&daemon, &["token", "--rotate"]);
    assert_ne!(new, old);
    assert!(http.try_reply().is_none(), "the connection is closed");
    until("its session has ended", || super::agents(&daemon).is_empty().then_some(()));
    let ping = request(2, "ping", &json!({}));
    let mut again = HttpAgent::connect_tcp(address);
    assert_eq!(again.post("/mcp", &format!("{POST}{new}{session}"), &ping).status, 404);
    assert_eq!(again.post("/mcp", &format!("{POST}{old}{session}"), &ping).status, 401);
}

#[test]
fn reload_opens_moves_and_closes_the_address() {
    let daemon = Setup::with(Server::named("s")).start();
    let configure = |http: Option<SocketAddr>| {
        let file = daemon.place().path("config.toml");
        let text = fs::read_to_string(&file).expect("the configuration");
        let servers = text.split("[profiles.default]").next().expect("the beginning");
        let profile = http.map(|address| format!("[profiles.default]\nhttp = '{address}'\n")).unwrap_or_default();
        fs::write(&file, format!("{servers}{profile}")).expect("it is written");
        daemon.client(&["reload"])
    };
    let (first, second) = (free(), free());
    configure(Some(first)).expect_code(0);
    let token = token(&daemon, &["token"]);
    let headers = format!("Host: localhost\r\n{token}");
    let mut http = HttpAgent::connect_tcp(first);
    assert_eq!(http.request("GET /healthz", &headers).status, 200);
    configure(Some(second)).expect_code(0);
    assert!(http.try_reply().is_none(), "the connection is closed");
    assert_eq!(HttpAgent::connect_tcp(second).request("GET /healthz", &headers).status, 200);
    // An address that is in use refuses the whole configuration.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let refused = configure(Some(taken.local_addr().expect("an address"))).expect_code(2);
    assert!(refused.stderr.contains("cannot listen on 127.0.0.1:"), "{}", refused.stderr);
    assert_eq!(HttpAgent::connect_tcp(second).request("GET /healthz", &headers).status, 200);
    configure(None).expect_code(0);
    until("nobody listens", || std::net::TcpStream::connect(second).is_err().then_some(()));
}

#[test]
fn agents_at_an_address_that_is_closed_receive_their_answers() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let mut http = HttpAgent::connect_tcp(address);
    let reply = http.post("/mcp", &format!("{POST}{token}"), &initialize(1));
    let id = reply.header("mcp-session-id").expect("a session");
    let session = format!("{token}Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let mut stream = HttpAgent::connect_tcp(address);
    assert_eq!(stream.request("GET /mcp", &format!("{GET}{session}")).status, 200);
    http.start_post("/mcp", &format!("{POST}{session}"), &call(2, "s__sleep", &json!({"ms": 500})).to_string());
    until("the call runs", || daemon.journal("s").iter().any(|line| line.contains("\"sleep\"")).then_some(()));
    let file = daemon.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, text.replace(&format!("http = '{address}'"), "")).expect("it is written");
    daemon.client(&["reload"]).expect_code(0);
    // The result, or an error if the machine is slow.
    assert_eq!(http.reply().message()["id"], 2);
    assert_eq!(stream.messages(), [Value::Null; 0]);
    assert!(http.try_reply().is_none() && stream.try_reply().is_none(), "both connections are closed");
    until("the session has ended", || super::agents(&daemon).is_empty().then_some(()));
}

#[test]
fn entries_of_clients_have_the_url_and_the_token() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let token = token.trim().rsplit(' ').next().expect("the last word");
    let entry = daemon.client(&["connect", "--print", "claude-code", "--http"]).expect_code(0).stdout;
    assert!(
        entry.contains(&format!("\"http://{address}/mcp\"")) && entry.contains(&format!("Bearer {token}")),
        "{entry}"
    );
    let entry = daemon.client(&["connect", "--print", "cursor", "--http", "--server", "s"]).expect_code(0).stdout;
    assert!(entry.contains(&format!("\"http://{address}/servers/s\"")), "{entry}");
    let entry = daemon.client(&["connect", "--print", "vscode", "--http"]).expect_code(0).stdout;
    let socket = daemon.agent_socket();
    assert!(entry.contains(&format!("\"unix://{}#/mcp\"", socket.display())) && !entry.contains(token), "{entry}");
    daemon.client(&["connect", "--print", "claude-desktop", "--http"]).expect_code(2);
}

#[test]
fn connections_without_the_token_do_not_keep_out_others() {
    let address = free();
    let profile = format!("[profiles.default]\nhttp = '{address}'");
    let daemon = Setup::with(Server::named("s")).line_timeout(500).head(&profile).start();
    let token = token(&daemon, &["token"]);
    let strangers: Vec<_> = (0..200).map(|_| HttpAgent::connect_tcp(address)).collect();
    let mut http = HttpAgent::connect_tcp(address);
    let body = call(1, "s__echo", &json!({}));
    assert_eq!(http.post("/mcp", &format!("{POST}{token}"), &body).status, 400, "it needs a session");
    drop(strangers);
}

#[test]
fn socket_of_the_service_manager_is_used_for_its_address() {
    let place = Place::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::named("s").toml(&place);
    let file = place.write("activated.toml", format!("[profiles.default]\nhttp = '{address}'\n{server}"));
    let activated = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=mcp.http";
    let mut command = Setup::new().config(file.clone()).after_shell(activated).command(&place);
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = command.spawn().expect("mcpd starts");
    let token = place.client(&["token"]).expect_code(0).stdout;
    let headers =
        format!("Host: localhost\r\nAuthorization: Bearer {token}").replace('\n', "\r\n").replace("\r\r", "\r");
    assert_eq!(HttpAgent::connect_tcp(address).request("GET /healthz", &headers).status, 200);
    // A reload that removes the address leaves the socket to the next one.
    let text = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, text.replace(&format!("http = '{address}'"), "")).expect("it is written");
    place.client(&["reload"]).expect_code(0);
    let mut waiting = HttpAgent::connect_tcp(address);
    fs::write(&file, text).expect("it is written");
    place.client(&["reload"]).expect_code(0);
    assert_eq!(waiting.request("GET /healthz", &headers).status, 200);
    drop(waiting);
    signal(daemon.id(), Signal::TERM);
    assert!(wait_exit(&mut daemon).success());
}

#[test]
fn connections_of_one_process_are_one_modern_agent() {
    let address = free();
    let daemon = start(address);
    let token = token(&daemon, &["token"]);
    let body = modern(1, "tools/call", &json!({"name": "s__echo", "arguments": {"x": 1}}));
    let mut connections = [(); 2].map(|()| HttpAgent::connect_tcp(address));
    for http in &mut connections {
        let reply = http.post("/mcp", &format!("{}{token}", modern_headers(&body)), &body);
        assert_eq!(arguments(&reply.message()), &json!({"x": 1}));
    }
    assert_eq!(super::agents(&daemon).len(), 1);
}
