//! The page of `mcpd dashboard`: who gets it, what it shows, and when its process ends. tests/interop/checks/dashboard.py looks at it in a
//! browser.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::login::fetch_as_nobody;
use crate::support::http_agent::{HttpAgent, HttpReply};
use crate::support::{Agent, Daemon, MCPD, Place, Server, Setup, run, signal, until};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
    frame-ancestors 'none'; form-action 'none'";

/// `ask PORT PATH` in bash prints what the page answers. It starts no program, which could be seen.
const ASK: &str = "ask() { exec 3<>/dev/tcp/127.0.0.1/$1; \
    printf 'GET %s HTTP/1.1\\r\\nHost: 127.0.0.1:%s\\r\\nConnection: close\\r\\n\\r\\n' \"$2\" $1 >&3; \
    while IFS= read -r -u 3 line || [[ $line ]]; do printf '%s\\n' \"$line\"; done; }; ";
/// After [`ASK`], a server that asks for what `target` in its directory names, and writes the answer there.
const ASK_LATER: &str = "until [[ -s $0/target ]]; do sleep 0.01; done; read -r port path < $0/target; \
    ask $port $path > $0/answer.new; mv $0/answer.new $0/answer; sleep 1000; :";

/// The page of a daemon. Dropping it ends its process.
struct Page {
    place: Rc<Place>,
    address: SocketAddr,
    /// The address with the key.
    secret: String,
}

impl Page {
    fn of(daemon: &Daemon) -> Self {
        Self::opened_with(daemon, &[])
    }

    fn opened_with(daemon: &Daemon, variables: &[(&str, &str)]) -> Self {
        let place = Rc::clone(daemon.place());
        let mut command = place.command(MCPD);
        command.args(["dashboard", "--no-open", "--runtime-dir"]).arg(place.runtime_dir());
        let ran = run(command.envs(variables.iter().copied())).expect_code(0);
        let secret = ran.stdout.trim_end().to_owned();
        let address = secret.strip_prefix("http://").and_then(|rest| rest.split_once("/?key=")).expect("an address").0;
        Self { address: address.parse().expect("an address"), secret, place }
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.address)
    }

    fn get(&self, target: &str, headers: &str) -> HttpReply {
        HttpAgent::connect_tcp(self.address).request(&format!("GET {target}"), headers)
    }

    /// The path to which the bare address leads, and the headers of a browser that has opened it.
    fn opened(&self) -> (String, String) {
        let reply = self.get("/", &self.host());
        assert_eq!(reply.status, 303, "{reply:?}");
        let (cookie, _) = reply.header("set-cookie").and_then(|cookie| cookie.split_once(';')).expect("a cookie");
        let headers = format!("{}Cookie: other=1; {cookie}\r\nSec-Fetch-Site: same-origin\r\n", self.host());
        (reply.header("location").expect("a path").to_owned(), headers)
    }

    fn json(&self, target: &str) -> Value {
        let (root, opened) = self.opened();
        let reply = self.get(&format!("{root}{target}"), &opened);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{reply:?}");
        reply.json()
    }

    fn events(&self) -> Events {
        let mut agent = HttpAgent::connect_tcp(self.address);
        let (root, opened) = self.opened();
        let reply = agent.request(&format!("GET {root}api/events"), &opened);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")), "{reply:?}");
        Events(agent)
    }

    /// Whether its process has ended.
    fn has_ended(&self) -> bool {
        !self.place.processes(None).iter().any(|process| process.command.contains("dashboard --serve"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.place.client(&["dashboard", "--stop"]);
    }
}

struct Events(HttpAgent);

impl Events {
    /// The data of the next event with this.
    #[track_caller]
    fn wait<T>(&mut self, mut find: impl FnMut(&Value) -> Option<T>) -> T {
        loop {
            let event = self.0.event().expect("the stream goes on");
            if let Some(found) = find(&event.data) {
                return found;
            }
        }
    }

    #[track_caller]
    fn wait_state(&mut self, server: &str, state: &str) -> Value {
        self.wait(|data| {
            let report = &data["servers"][server]["report"];
            (report["state"] == state).then(|| data["servers"][server].clone())
        })
    }
}

#[test]
fn bare_address_leads_only_this_user_to_a_random_path_with_a_cookie_for_it() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    let reply = page.get("/", &page.host());
    assert_eq!(reply.status, 303);
    let (cookie, root) = (reply.header("set-cookie").expect("a cookie"), reply.header("location").expect("a path"));
    assert!(cookie.ends_with(&format!("; HttpOnly; SameSite=Strict; Path={root}")), "{cookie}");
    assert!(root.len() > 30 && !cookie[..cookie.find(';').expect("attributes")].contains(root.trim_matches('/')));
    let index = page.get(root, &page.host());
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(index.header("set-cookie"), None);
    let refused = page.get(&format!("{root}api/status"), &page.host());
    for reply in [&reply, &index, &refused] {
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name}");
        }
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let file = daemon.place().runtime_dir().join("dashboard");
    assert_eq!(fs::metadata(&file).map(|found| found.permissions().mode() & 0o777).ok(), Some(0o600));
    if rustix::process::getuid().is_root() {
        for address in [format!("http://{}/", page.address), page.secret.clone()] {
            let read = fetch_as_nobody(&address);
            assert!(read.starts_with("HTTP/1.1 403 ") && !read.to_lowercase().contains("set-cookie"), "{read}");
        }
    }
}

#[test]
fn everything_else_needs_the_cookie() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    let ((root, opened), host) = (page.opened(), page.host());
    for target in ["page.js", "page.css", "api/status", "api/tools", "api/changes", "api/lines?server=a"] {
        let target = format!("{root}{target}");
        assert_eq!(page.get(&target, &opened).status, 200, "{target}");
        for headers in [host.clone(), format!("{host}Cookie: mcpd=guessed\r\n"), format!("{host}Cookie: mcpd\r\n")] {
            assert_eq!(page.get(&target, &headers).status, 403, "{target}: {headers}");
        }
    }
    assert_eq!(page.get(&format!("{root}api/events"), &host).status, 403);
    for unknown in ["nothing", "api/", "api/lines", "api/tools?profile=no", "..%2f", "web/page.js"] {
        assert_eq!(page.get(&format!("{root}{unknown}"), &opened).status, 404, "{unknown}");
    }
    for elsewhere in ["/page.js", "/api/status", "/guessed/api/status", root.trim_end_matches('/')] {
        assert_eq!(page.get(elsewhere, &opened).status, 404, "{elsewhere}");
    }
}

#[test]
fn other_hosts_pages_and_methods_are_refused() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    let ((root, opened), own) = (page.opened(), page.address);
    let status = &*format!("{root}api/status");
    let cookie = opened.split_once("\r\n").expect("a host first").1;
    for host in ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""] {
        for target in ["/", &root, status] {
            assert_eq!(page.get(target, &format!("Host: {host}\r\n{cookie}")).status, 403, "{host}");
        }
    }
    assert_eq!(page.get("/", "").status, 403, "no host");
    assert_eq!(page.get("/", &format!("Host: {own}\r\nHost: evil.example\r\n")).status, 403, "two hosts");
    assert_eq!(page.get("/", &format!("Host: localhost:{}\r\n", own.port())).status, 303);
    for origin in ["http://evil.example", "http://127.0.0.1:1", "null", "https://127.0.0.1"] {
        assert_eq!(page.get(status, &format!("{opened}Origin: {origin}\r\n")).status, 403, "{origin}");
    }
    assert_eq!(page.get(status, &format!("{opened}Origin: http://{own}\r\n")).status, 200);
    for site in ["cross-site", "same-site"] {
        let headers = opened.replace("same-origin", site);
        assert_eq!(page.get(status, &headers).status, 403, "{site}");
        for (target, expected) in [("/", 303), (&*root, 200)] {
            let to = |destination: &str| format!("{headers}Sec-Fetch-Dest: {destination}\r\n");
            assert_eq!(page.get(target, &to("document")).status, expected, "a link may lead to the page");
            for part in ["iframe", "script", "image", "empty"] {
                assert_eq!(page.get(target, &to(part)).status, 403, "{part}");
            }
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let mut agent = HttpAgent::connect_tcp(page.address);
        agent.write(format!("{method} {status} HTTP/1.1\r\n{opened}Content-Length: 0\r\n\r\n"));
        assert_eq!(agent.reply().status, 405, "{method}");
    }
}

#[test]
fn key_opens_the_page_and_a_wrong_key_does_not_help() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    let target = page.secret.strip_prefix(&format!("http://{}", page.address)).expect("the same address").to_owned();
    let with_key = page.get(&target, &page.host());
    assert!(with_key.status == 303 && with_key.header("set-cookie").is_some(), "{with_key:?}");
    // The same page for the next command.
    assert_eq!(Page::of(&daemon).secret, page.secret);
}

#[test]
fn process_of_a_server_gets_nothing() {
    let place = Place::new();
    let directory = place.path("shared");
    fs::create_dir(&directory).expect("the test's own directory");
    let curious = Server::run_by("curious", "/bin/bash").arg("-c").arg(format!("{ASK}{ASK_LATER}")).arg(&directory);
    let daemon = Setup::with(curious.line("sandbox = 'none'")).spawn_in(&place);
    daemon.wait_status("it serves", |_| true);
    let page = Page::of(&daemon);
    // Not even with the key, which a server at this level can read.
    let path = page.secret.split_once(&format!("{}", page.address)).expect("the address").1;
    place.replace("shared/target", format!("{} {path}\n", page.address.port()));
    let answer = until("the server has an answer", || fs::read_to_string(place.path("shared/answer")).ok());
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

/// The kernel hides what a process has open if its user may not read its program. Root sees it nevertheless.
#[test]
fn process_that_hides_needs_the_key_and_is_refused_while_a_server_hides() {
    let is_root = rustix::process::getuid().is_root();
    for level in ["none", "files"] {
        let place = Place::new();
        let hiding = place.write_program("hiding-shell", fs::read("/bin/bash").expect("bash is there"));
        fs::set_permissions(&hiding, fs::Permissions::from_mode(0o111)).expect("it is the test's own");
        fs::create_dir(place.path("shared")).expect("the test's own directory");
        let shared = place.path("shared").display().to_string();
        let hides = "until [[ -s $1/target ]]; do sleep 0.01; done; exec \"$0\" -c \"$2\" $1";
        let server = Server::run_by("hider", "/bin/bash").arg("-c").arg(hides).arg(&hiding);
        let server = server.arg(&shared).arg(format!("{ASK}{ASK_LATER}"));
        let server = server.line(match level {
            "none" => "sandbox = 'none'".to_owned(),
            _ => format!("sandbox = {{ level = 'files', read = ['{}'], write = ['{shared}'] }}", hiding.display()),
        });
        let daemon = Setup::with(server).spawn_in(&place);
        daemon.wait_status("it serves", |_| true);
        let page = Page::of(&daemon);
        let path = page.secret.split_once(&format!("{}", page.address)).expect("the address").1;
        let ask = |path: &str| {
            let mut command = place.command(&hiding);
            command.args(["-c", &format!("{ASK}ask {} '{path}'", page.address.port())]);
            run(&mut command).expect_code(0).stdout
        };
        let bare = ask("/");
        assert!(is_root || bare.starts_with("HTTP/1.1 403 ") && bare.contains("Open the address"), "{level}: {bare}");
        let with_key = ask(path);
        assert!(with_key.starts_with("HTTP/1.1 303 "), "{level}: {with_key}");
        place.replace("shared/target", format!("{} {path}\n", page.address.port()));
        let of_server = until("the server has an answer", || fs::read_to_string(place.path("shared/answer")).ok());
        assert!(of_server.starts_with("HTTP/1.1 403 "), "{level}: {of_server}");
        assert!(is_root || of_server.contains("hides from it"), "{level}: {of_server}");
        let meanwhile = ask(path);
        assert!(is_root || meanwhile.contains("hides from it"), "{level}: {meanwhile}");
        assert_eq!(page.get("/", &page.host()).status, 303, "a program that can be seen is still known");
    }
}

#[test]
fn crash_and_recovery_are_shown_as_they_happen() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let crashing = Server::named("a").arg("--init-until").arg(&gate);
    let daemon = Setup::with(crashing).server(Server::named("b")).start_in(&place);
    let page = Page::of(&daemon);
    let mut events = page.events();
    let all = events.wait(|data| data["order"].is_array().then(|| data.clone()));
    assert_eq!(all["order"], json!(["a", "b"]));
    assert_eq!(all["servers"]["a"]["report"]["state"], "ready");
    assert_eq!(all["daemon"]["pid"], daemon.pid());
    fs::remove_file(&gate).expect("it is there");
    signal(daemon.server_pid("a"), Signal::KILL);
    let down = events.wait(|data| {
        let failures = data["servers"]["a"]["advice"]["failures"].as_array()?;
        (!failures.is_empty()).then(|| data["servers"]["a"].clone())
    });
    let failure = down["advice"]["failures"][0].as_str().expect("text");
    assert!(failure.contains("signal 9") && down["advice"]["command"].is_string(), "{down}");
    place.write("gate", "");
    let up = events.wait_state("a", "ready");
    assert!(up["advice"]["failures"].as_array().is_none_or(Vec::is_empty), "{up}");
}

#[test]
fn calls_are_shown_as_they_end_and_counted_in_the_points() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__echo", &json!({"text": "before"}));
    let page = Page::of(&daemon);
    let mut events = page.events();
    let all = events.wait(|data| data["order"].is_array().then(|| data.clone()));
    let is_known =
        |calls: &Value| calls.as_array().is_some_and(|calls| calls.iter().any(|call| call["tool"] == "echo"));
    if !is_known(&all["calls"]) {
        events.wait(|data| is_known(&data["calls"]).then_some(()));
    }
    agent.call("a__echo", &json!({"text": "after"}));
    let (mut has_call, mut has_point) = (false, false);
    events.wait(|data| {
        has_call |= is_known(&data["calls"]);
        let last = data["points"].as_array().or_else(|| data["a"].as_array()).and_then(|points| points.last().cloned());
        has_point |= last.is_some_and(|point| point[1].as_u64() >= Some(1) && point[3].is_number());
        (has_call && has_point).then_some(())
    });
}

#[test]
fn tools_come_with_what_hides_them_and_lines_with_their_server() {
    let daemon = Server::named("a").line("deny = ['die']").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__stderr", &json!({"text": "<b>a complaint</b>"}));
    let page = Page::of(&daemon);
    let tools = page.json("api/tools?profile=default");
    let tool = |name: &str| {
        tools["tools"].as_array().and_then(|all| all.iter().find(|tool| tool["tool"] == name)).expect(name)
    };
    assert_eq!(tool("die")["why_hidden"], "denied by `die` of [servers.a]");
    assert!(tool("echo")["why_hidden"].is_null() && tool("echo")["tokens"].as_u64() > Some(0));
    assert_eq!(tools["summary"]["profile"], "default");
    let lines = page.json("api/lines?server=a");
    assert_eq!(lines["lines"][0]["text"], "<b>a complaint</b>");
    assert_eq!(page.json("api/changes")["changes"], json!([]));
    assert_eq!(page.json("api/status")["pid"], daemon.pid());
}

#[test]
fn stop_ends_the_page_and_a_killed_page_is_replaced() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    let mut events = page.events();
    events.wait(|data| data["order"].is_array().then_some(()));
    let ran = daemon.client(&["dashboard", "--stop"]).expect_code(0);
    assert_eq!(ran.stdout, "the page is closed\n");
    until("the process ends", || page.has_ended().then_some(()));
    assert!(!daemon.runtime_files().contains(&"dashboard".to_owned()));
    let ran = daemon.client(&["dashboard", "--stop"]).expect_code(1);
    assert_eq!(ran.stderr, "mcpd: no page is served; `mcpd dashboard` serves one\n");
    // A killed one is no obstacle.
    let killed = Page::of(&daemon);
    let pid = fs::read_to_string(daemon.place().runtime_dir().join("dashboard")).expect("text");
    let pid =
        serde_json::from_str::<Value>(&pid).expect("JSON")["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    signal(pid.expect("a process"), Signal::KILL);
    until("the process ends", || killed.has_ended().then_some(()));
    assert_ne!(Page::of(&daemon).secret, killed.secret);
}

#[test]
fn page_ends_once_its_file_is_gone() {
    let daemon = Server::named("a").start();
    let page = Page::of(&daemon);
    fs::remove_file(daemon.place().runtime_dir().join("dashboard")).expect("it is there");
    until("the process ends", || page.has_ended().then_some(()));
}

#[test]
fn page_that_nobody_looks_at_ends() {
    let daemon = Server::named("a").start();
    let page = Page::opened_with(&daemon, &[("MCPD_TEST_DASHBOARD_IDLE_MS", "300")]);
    until("the process ends", || page.has_ended().then_some(()));
}

#[test]
fn page_ends_with_the_daemon_and_survives_its_restart() {
    let mut daemon = Server::named("a").start();
    let page = Page::opened_with(&daemon, &[("MCPD_TEST_DASHBOARD_OUTAGE_MS", "60000")]);
    let mut events = page.events();
    events.wait(|data| data["order"].is_array().then_some(()));
    daemon.kill9();
    // A request that was under way is reset at first.
    events.wait(|data| data["outage"].as_str()?.starts_with("not running: no daemon at ").then_some(()));
    let mut second = Setup::with(Server::named("a")).start_in(daemon.place());
    let pid = events.wait(|data| data["daemon"]["pid"].as_u64());
    assert_eq!(pid, u64::from(second.pid()));
    drop(page);

    let page = Page::opened_with(&second, &[("MCPD_TEST_DASHBOARD_OUTAGE_MS", "300")]);
    second.kill9();
    until("the process ends", || page.has_ended().then_some(()));
}

#[test]
fn browser_opens_the_bare_address() {
    let daemon = Server::named("a").start();
    let script = daemon.place().write_program("browser", "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"${0%/*}/opened\"\n");
    let mut command = daemon.place().command(MCPD);
    command.arg("dashboard").env("BROWSER", script).arg("--runtime-dir").arg(daemon.place().runtime_dir());
    let ran = run(&mut command).expect_code(0);
    let page = Page::of(&daemon);
    let opened = until("the browser is started", || {
        let text = fs::read_to_string(daemon.place().path("opened")).ok()?;
        text.ends_with('\n').then_some(text)
    });
    assert_eq!((&*opened, &*ran.stdout), (&*format!("http://{}/\n", page.address), &*opened));
}
