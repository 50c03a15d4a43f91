//! Servers at a Unix socket.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread;

use rustix::process::getuid;
use rustix::thread::set_thread_res_uid;
use serde_json::json;

use crate::served_programs::{Served, seen};
use crate::support::{Agent, Place, Server, Setup};

#[test]
fn server_is_reached_at_a_socket_and_a_path() {
    let place = Place::new();
    let path = place.path("a b.sock").to_str().expect("text").replace(' ', "%20");
    let served = Served::start(&path.replace("%20", " "));
    for (url, expected) in
        [(format!("unix:{path}#/mcp"), "/mcp"), (format!("unix://{path}#/a/b"), "/a/b"), (format!("unix:{path}"), "/")]
    {
        let server = Server::at("s", &url).line("headers = { X-Key = \"k\" }");
        // Requests to a socket pass through no proxy.
        let daemon = Setup::with(server).variable("HTTP_PROXY", "http://127.0.0.1:9").start_in(&place);
        let found = seen(&mut Agent::ready(&daemon));
        let own = std::process::id();
        assert_eq!(found, json!({"path": expected, "host": "localhost", "key": "k", "pid": own}), "{url}");
        let row = daemon.row("s");
        let origin = format!("unix:{}", path.replace("%20", " "));
        assert_eq!(row["remote"], json!({"origin": origin, "transport": "streamable http"}), "{row}");
        let checked = daemon.client(&["doctor", "s"]).expect_code(0).stdout;
        assert!(checked.contains(&origin), "{checked}");
    }
    assert!(served.http().count(|request| request.rpc() == "tools/call") == 3);
}

#[test]
fn missing_socket_is_named_until_something_listens_there() {
    let place = Place::new();
    let path = place.path("s.sock");
    let shown = path.to_str().expect("text");
    let daemon = Setup::with(Server::at("s", &format!("unix:{shown}#/mcp"))).start_in(&place);
    let row = daemon.wait_row("s", "says so", |row| row["code"] == "connection_refused" && row["reason"].is_string());
    assert_eq!(row["reason"], json!(format!("cannot be reached: nothing listens at unix:{shown}")));
    let checked = daemon.client(&["doctor", "s"]).stdout;
    assert!(checked.contains("correct the path of the socket"), "{checked}");
    let _served = Served::start(shown);
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    seen(&mut Agent::ready(&daemon));
}

/// Only root can listen as another user.
///
/// Case I25.
#[test]
fn headers_are_not_sent_to_the_socket_of_another_user() {
    const OTHER: u32 = 54_321;
    if !getuid().is_root() {
        return;
    }
    for (headers, is_reached) in [("headers = { X-Key = \"k\" }", false), ("", true)] {
        let place = Place::new();
        // The kernel reports the user of the thread that listens.
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("its own");
        let path = directory.path().join("s.sock");
        let listener = thread::spawn({
            let path = path.clone();
            move || {
                let uid = rustix::process::Uid::from_raw(OTHER);
                set_thread_res_uid(uid, uid, uid).expect("root may");
                UnixListener::bind(path).expect("anyone may")
            }
        });
        let served = Served::on(listener.join().expect("it does not panic"));
        let server = Server::at("s", &format!("unix:{}#/mcp", path.display())).line(headers);
        let daemon = Setup::with(server).start_in(&place);
        if is_reached {
            seen(&mut Agent::ready(&daemon));
            continue;
        }
        let row =
            daemon.wait_row("s", "is refused", |row| row["code"] == "foreign_listener" && row["reason"].is_string());
        let reason = row["reason"].as_str().expect("text");
        assert!(reason.contains(&format!("belongs to the user with id {OTHER}")), "{reason}");
        assert_eq!(served.http().requests().len(), 0);
    }
}

#[test]
fn socket_is_added_and_imported_like_any_url() {
    let place = Place::new();
    let config = place.path("xdg-config/mcpd/config.toml");
    place.mcpd(&["add", "one", "unix:/run/one.sock#/mcp"]).expect_code(0);
    let wrong = place.mcpd(&["add", "two", "unix:two.sock#/mcp"]).expect_code(2);
    assert!(wrong.stderr.contains("has no absolute path"), "{wrong}");
    let text = r#"{"servers": {"three": {"type": "http", "url": "unix:///run/three.sock#/mcp"}}}"#;
    let file = place.write("mcp.json", text);
    place.mcpd(&["import", file.to_str().expect("text"), "--yes"]).expect_code(0);
    let written = fs::read_to_string(config).expect("it was written");
    assert!(written.contains("url = \"unix:/run/one.sock#/mcp\""), "{written}");
    assert!(written.contains("url = \"unix:///run/three.sock#/mcp\""), "{written}");
}
