//! Clients that cannot use a socket report the reason. They report "not running" only if nothing listens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::thread;

use crate::support::{Place, Ran, run};

/// The commands of a user, each with the socket it asks on.
const COMMANDS: [(&[&str], &str); 3] =
    [(&["tools"], "mcp.sock"), (&["call", "a__echo", "{}"], "mcp.sock"), (&["status"], "admin.sock")];

/// A place in which somebody listens on both sockets.
fn listening() -> (Rc<Place>, [UnixListener; 2]) {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("the test's own directory is writable");
    let bind = |name| UnixListener::bind(place.runtime_dir().join(name)).expect("a fresh path");
    let listeners = [bind("mcp.sock"), bind("admin.sock")];
    (place, listeners)
}

#[track_caller]
fn expect_another_reason(ran: Ran) {
    let ran = ran.expect_code(1);
    assert!(!ran.stderr.contains("not running") && !ran.stderr.is_empty() && ran.stdout.is_empty(), "{ran}");
}

#[test]
fn daemon_that_closes_the_connection_at_once_is_not_reported_as_absent() {
    let (place, listeners) = listening();
    for listener in listeners {
        // One connection for each command that asks there.
        thread::spawn(move || listener.incoming().take(2).for_each(drop));
    }
    for (args, _) in COMMANDS {
        expect_another_reason(place.client(args));
    }
}

#[test]
fn inaccessible_socket_is_not_reported_as_absent() {
    let (place, _listeners) = listening();
    let set_mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).expect("one's own file");
    };
    ["", "run"].iter().for_each(|dir| set_mode(dir, 0o755));
    // A copy, because the build directory may be closed to others.
    place.copy_of_mcpd();
    for (args, socket) in COMMANDS {
        set_mode(&format!("run/{socket}"), 0o000);
        // No mode stops root.
        let nobody: &[&str] = if rustix::process::getuid().is_root() {
            &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        } else {
            &["env"]
        };
        let mut command = place.command(nobody[0]);
        command.args(&nobody[1..]).arg(place.path("mcpd")).args(args);
        expect_another_reason(run(command.arg("--runtime-dir").arg(place.runtime_dir())));
    }
}
