//! Programs that serve a URL: mcpd starts the command, and reaches it over HTTP once it listens.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;

use serde_json::{Value, json};

use crate::reload::{change, changing};
use crate::support::http::{HttpServer, Request, Response};
use crate::support::{Agent, Place, Server, Setup, arguments, until};

/// Where the program listens: an address or the path of a socket.
const AT: &str = "MCPD_TEST_SERVES_AT";
/// The file without which it does not listen yet.
const AFTER: &str = "MCPD_TEST_SERVES_AFTER";

/// The program: this test binary, which runs this test alone. Without the variable, it does nothing.
#[test]
fn program_of_the_other_tests_serves() {
    let Ok(place) = std::env::var(AT) else { return };
    println!("noise on stdout");
    eprintln!("noise on stderr");
    if let Some(file) = std::env::var_os(AFTER) {
        until("the file", || Path::new(&file).exists().then_some(()));
    }
    let _served = Served::start(&place);
    loop {
        thread::park();
    }
}

/// A server at an address or a socket of this process.
pub(crate) struct Served(HttpServer);

impl Served {
    pub(crate) fn start(place: &str) -> Self {
        if let Ok(address) = place.parse() {
            return Self(HttpServer::start_at(address, answer));
        }
        let (http, listener) = (HttpServer::start(answer), UnixListener::bind(place).expect("a free path"));
        // Others may connect, as through a directory that they can enter.
        fs::set_permissions(place, Permissions::from_mode(0o777)).expect("its own");
        Self::forward(listener, http.address());
        Self(http)
    }

    /// Serves at a listening socket.
    pub(crate) fn on(listener: UnixListener) -> Self {
        let http = HttpServer::start(answer);
        Self::forward(listener, http.address());
        Self(http)
    }

    pub(crate) fn http(&self) -> &HttpServer {
        &self.0
    }

    /// Connects each peer with the server at `address`.
    fn forward(listener: UnixListener, address: SocketAddr) {
        thread::spawn(move || {
            while let Ok((peer, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(address) else { return };
                let (from_peer, to_server) = (peer.try_clone().expect("a file"), server.try_clone().expect("a file"));
                thread::spawn(move || copy(from_peer, to_server, |to| to.shutdown(Shutdown::Write)));
                thread::spawn(move || copy(server, peer, UnixStreamEnd::shut));
            }
        });
    }
}

struct UnixStreamEnd;

impl UnixStreamEnd {
    fn shut(stream: &UnixStream) -> io::Result<()> {
        stream.shutdown(Shutdown::Write)
    }
}

fn copy<T: Write>(mut from: impl Read, mut to: T, end: impl FnOnce(&T) -> io::Result<()>) {
    let _ = io::copy(&mut from, &mut to);
    let _ = end(&to);
}

/// A server of 2025-11-25 without sessions. Its tools: `seen` (the headers and the process id) and `exit`.
fn answer(request: &Request) -> Response {
    if request.method != "POST" {
        return Response::status(405);
    }
    let message = request.json();
    let result = match message["method"].as_str().unwrap_or_default() {
        method if method.starts_with("notifications/") => return Response::status(202),
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "served", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("seen"), tool("exit")]})
        }
        "tools/call" if message["params"]["name"] == "exit" => end(),
        "tools/call" => {
            let seen = json!({
                "path": request.path, "host": request.header("host"), "key": request.header("x-key"), "pid": std::process::id(),
            });
            json!({"content": [{"type": "text", "text": seen.to_string()}]})
        }
        method => {
            let error = json!({"code": -32601, "message": format!("no method {method}")});
            return Response::json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    Response::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

#[expect(clippy::disallowed_methods, reason = "the program ends in the middle of a call, as after a crash")]
fn end() -> ! {
    std::process::exit(3)
}

/// What a call of `seen` returns.
#[track_caller]
pub(crate) fn seen(agent: &mut Agent) -> Value {
    let answer = agent.call("s__seen", &json!({}));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no result: {answer}"));
    serde_json::from_str(text).expect("JSON")
}

/// The program at this place as server `s`.
fn program(place: &str) -> Server {
    let url = match place.parse::<SocketAddr>() {
        Ok(address) => format!("http://{address}/mcp"),
        Err(_) => format!("unix:{place}#/mcp"),
    };
    let own = std::env::current_exe().expect("this program");
    let server = Server::run_by("s", own).env(AT, place).line(format!("url = \"{url}\""));
    server.flags("served_programs::program_of_the_other_tests_serves --exact --nocapture --test-threads 1")
}

/// An address that nothing has.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// A TCP port and a Unix socket.
fn places(place: &Rc<Place>) -> [String; 2] {
    [free_address().to_string(), socket(place).to_str().expect("text").to_owned()]
}

fn socket(place: &Rc<Place>) -> PathBuf {
    place.path("s.sock")
}

fn pid(row: &Value) -> u64 {
    row["pid"].as_u64().unwrap_or_default()
}

#[test]
fn program_is_started_and_reached_once_it_listens() {
    let place = Place::new();
    for at in places(&place) {
        let open = place.path("open");
        let server = program(&at).env(AFTER, open.to_str().expect("text")).line("headers = { X-Key = \"k\" }");
        let mut daemon = Setup::with(server).spawn_in(&place);
        // No proxy is asked for what is on this machine.
        let before = daemon.wait_row("s", "has a process", |row| pid(row) > 0);
        assert_eq!(before["state"], "starting", "{before}");
        fs::write(&open, "").expect("the test's own");
        let row = daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
        let origin = if at.starts_with('/') { format!("unix:{at}") } else { format!("http://{at}") };
        assert_eq!((&row["remote"]["origin"], pid(&row)), (&json!(origin), pid(&before)), "{row}");
        let mut agent = Agent::ready(&daemon);
        let host = if at.starts_with('/') { "localhost" } else { &at };
        assert_eq!(seen(&mut agent), json!({"path": "/mcp", "host": host, "key": "k", "pid": pid(&row)}));
        let logs = daemon.client(&["logs", "s"]).expect_code(0).stdout;
        assert!(logs.contains("noise on stdout") && logs.contains("noise on stderr"), "{logs}");
        agent.disconnect();
        daemon.family();
        assert!(daemon.term().success());
        fs::remove_file(open).expect("the test's own");
    }
}

#[test]
fn proxy_variables_do_not_apply_to_it() {
    let place = Place::new();
    let dead = format!("http://{}", free_address());
    for at in places(&place) {
        let setup = Setup::with(program(&at)).variable("HTTP_PROXY", &dead).variable("ALL_PROXY", &dead);
        let daemon = setup.start_in(&place);
        seen(&mut Agent::ready(&daemon));
    }
}

/// Case I26.
#[test]
fn exit_during_a_call_is_the_reason_of_its_error_and_restarts_the_program() {
    let place = Place::new();
    for at in places(&place) {
        let daemon = Setup::with(program(&at)).start_in(&place);
        let before = daemon.row("s");
        let mut agent = Agent::ready(&daemon);
        let error = agent.call("s__exit", &json!({}))["error"].clone();
        assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31001), &json!("unknown")), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("code 3")), "{error}");
        // The socket that the former process has left is no obstacle.
        let after = daemon.wait_row("s", "runs again", |row| row["state"] == "ready" && pid(row) != pid(&before));
        assert_eq!(seen(&mut agent)["pid"], pid(&after));
        let hidden = daemon.client(&["disable", "s", "--stop"]).expect_code(0);
        assert!(daemon.row("s")["pid"].is_null(), "{hidden}");
    }
}

/// Case I25.
#[test]
fn program_whose_address_is_in_use_is_not_started() {
    let place = Place::new();
    for at in places(&place) {
        let foreign = Served::start(&at);
        let daemon = Setup::with(program(&at).line("headers = { X-Key = \"k\" }")).start_in(&place);
        let row = daemon
            .wait_row("s", "names the obstacle", |row| row["code"] == "address_in_use" && row["reason"].is_string());
        let reason = row["reason"].as_str().expect("text");
        let own = std::process::id();
        assert!(reason.starts_with(&format!("was not started: process {own} (")) && reason.contains(&at), "{reason}");
        assert_eq!((row["pid"].is_null(), foreign.http().requests().len()), (true, 0), "{row}");
        let checked = daemon.client(&["doctor"]).stdout;
        assert!(checked.contains("stop that process"), "{checked}");
        // A listener on a path stays until its thread has accepted once more.
        if at.starts_with('/') {
            fs::remove_file(&at).expect("the test's own");
        }
        drop(foreign);
        daemon.wait_row("s", "is started in the end", |row| row["state"] == "ready");
        seen(&mut Agent::ready(&daemon));
    }
}

/// Case I25.
#[test]
fn headers_are_sent_to_processes_of_the_command_alone() {
    for (headers, is_reached) in [("headers = { X-Key = \"k\" }", false), ("", true)] {
        let place = Place::new();
        let url = free_address();
        // The program listens elsewhere.
        let server = program(&free_address().to_string()).line(headers);
        let toml = server.toml(&place);
        let wrong = toml.lines().map(|line| {
            if line.starts_with("url = ") { format!("url = \"http://{url}/mcp\"") } else { line.to_owned() }
        });
        let file = place.write("config.toml", wrong.collect::<Vec<_>>().join("\n"));
        let daemon = Setup::new().config(file).spawn_in(&place);
        daemon.wait_row("s", "has a process", |row| pid(row) > 0);
        let foreign = Served::start(&url.to_string());
        if is_reached {
            daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
            assert_eq!(seen(&mut Agent::ready(&daemon))["pid"], std::process::id());
            continue;
        }
        // The next attempt finds the address in use.
        until("it is refused", || daemon.log().contains("and its `command` has not started that").then_some(()));
        assert_eq!(foreign.http().requests().len(), 0);
    }
}

/// Case I26.
#[test]
fn program_that_does_not_listen_in_time_is_restarted() {
    let place = Place::new();
    let server = program(&free_address().to_string()).env(AFTER, "/nowhere").line("handshake_timeout = \"300ms\"");
    let daemon = Setup::with(server).start_in(&place);
    let row = daemon.wait_row("s", "says so", |row| row["code"] == "not_listening" && row["reason"].is_string());
    let reason = row["reason"].as_str().expect("text");
    assert!(reason.starts_with("does not listen at http://127.0.0.1:"), "{reason}");
    daemon.wait_row("s", "is tried again", |row| row["restarts_last_hour"].as_u64() >= Some(1));
}

#[test]
fn reload_changes_how_a_server_is_reached() {
    let stdio = || Server::named("s").arg("--tool").arg("seen");
    let (mut daemon, place) = changing(&[stdio()]);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("s__echo", &json!({})));
    let remote = Served::start(&free_address().to_string());
    let own = free_address().to_string();
    let at_url = Server::at("s", &remote.http().url("/mcp"));
    for server in [program(&own), program(socket(&place).to_str().expect("text")), at_url, program(&own)] {
        let text = server.toml(&place);
        let is_program = text.contains("command = ");
        change(&mut daemon, text, "reloaded: ");
        let row = daemon.wait_row("s", "is ready", |row| row["state"] == "ready" && (pid(row) > 0) == is_program);
        agent.discard_notifications("notifications/tools/list_changed");
        let expected = if is_program { pid(&row) } else { u64::from(std::process::id()) };
        assert_eq!(seen(&mut agent)["pid"], expected, "{row}");
    }
    change(&mut daemon, stdio().toml(&place), "reloaded: ");
    until("it is a program again", || {
        let answer = agent.call("s__echo", &json!({}));
        agent.discard_notifications("notifications/tools/list_changed");
        answer["result"].is_object().then_some(())
    });
}

#[test]
fn program_without_a_network_serves_a_socket() {
    let place = Place::new();
    let directory = place.path("granted");
    fs::create_dir(&directory).expect("the test's own");
    let at = directory.join("s.sock");
    let own = std::env::current_exe().expect("this program");
    let sandbox = format!(
        "sandbox = {{ level = \"files\", unix = true, network = \"none\", write = [{directory:?}], read = [{own:?}] }}"
    );
    let daemon = Setup::with(program(at.to_str().expect("text")).line(sandbox)).start_in(&place);
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    assert_eq!(seen(&mut Agent::ready(&daemon))["path"], "/mcp");
}
