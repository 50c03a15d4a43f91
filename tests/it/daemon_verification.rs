//! Clients connect only to the daemon that owns the runtime directory.

use std::fs::{self, DirBuilder, Permissions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Place, Ran, Server, Setup, Shim, arguments, run, signal, skipped, until};

/// Clients of both kinds of sockets.
const CLIENTS: &[&[&str]] = &[&["status"], &["reload"], &["call", "a__echo", "{}"], &["tools"], &["connect"]];

/// A program that has put its sockets in the place of a daemon's.
struct Impostor(Vec<UnixListener>);

impl Impostor {
    fn at(place: &Place) -> Self {
        let listen = |name: &str| {
            let aside = place.path("aside.sock");
            let listener = UnixListener::bind(&aside).expect("a free path");
            fs::rename(aside, place.runtime_dir().join(name)).expect("the same file system");
            listener.set_nonblocking(true).expect("a socket");
            listener
        };
        Self(["mcp.sock", "admin.sock"].into_iter().map(listen).collect())
    }

    /// Fails if a client has sent anything.
    fn expect_nothing(&self) {
        for listener in &self.0 {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut received = Vec::new();
                stream.set_nonblocking(false).expect("a socket");
                stream.read_to_end(&mut received).expect("the client has closed it");
                assert_eq!(String::from_utf8_lossy(&received), "");
            }
        }
    }
}

#[track_caller]
fn expect_refusal(ran: &Ran, reasons: &[&str]) {
    assert!(ran.code == Some(1) && ran.stdout.is_empty(), "{ran}");
    assert!(reasons.iter().all(|reason| ran.stderr.contains(reason)), "{reasons:?}: {ran}");
}

/// Case D10.
#[test]
fn process_that_replaced_a_socket_receives_nothing_from_any_client() {
    let daemon = Server::named("a").start();
    // A stopped daemon cannot take its paths back.
    signal(daemon.pid(), Signal::STOP);
    let impostor = Impostor::at(daemon.place());
    let refusals: Vec<_> = CLIENTS.iter().map(|arguments| daemon.client(arguments)).collect();
    signal(daemon.pid(), Signal::CONT);
    let reason =
        format!("process {} has replaced the socket of the daemon, process {}", std::process::id(), daemon.pid());
    refusals.iter().for_each(|ran| expect_refusal(ran, &[&reason, "takes it back within 2s"]));
    impostor.expect_nothing();
    until("the daemon has its sockets again", || (daemon.client(&["status"]).code == Some(0)).then_some(()));
    until("agents reach it", || (daemon.client(&["call", "a__echo", "{}"]).code == Some(0)).then_some(()));
}

/// Case D10.
#[test]
fn listener_without_the_lock_is_no_daemon() {
    let place = Place::new();
    DirBuilder::new().mode(0o700).create(place.runtime_dir()).expect("a fresh directory");
    let impostor = Impostor::at(&place);
    for arguments in CLIENTS {
        let ran = place.client(arguments);
        expect_refusal(&ran, &[&format!("process {} listens there", std::process::id()), "mcpd start"]);
    }
    impostor.expect_nothing();
}

/// Case D10.
#[test]
fn agent_is_not_reconnected_to_an_impostor() {
    let mut first = Server::named("a").start();
    let place = Rc::clone(first.place());
    let mut agent = Shim::ready(&place);
    arguments(&agent.call("a__echo", &json!({})));
    first.kill9();
    drop(first);
    let impostor = Impostor::at(&place);
    agent.wait_log("mcp.sock is not trusted: process ");
    impostor.expect_nothing();
    fs::remove_file(place.runtime_dir().join("admin.sock")).expect("it is there");
    drop(impostor);
    let second = Setup::with(Server::named("a")).start_in(&place);
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(agent.log().matches("is not trusted").count(), 1, "{}", agent.log());
    drop(agent);
    drop(second);
}

/// Case D10.
#[test]
fn directory_that_others_can_enter_is_refused() {
    let daemon = Server::named("a").start();
    let directory = daemon.place().runtime_dir();
    for mode in [0o777, 0o750, 0o701] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).expect("the test's own");
        for arguments in CLIENTS {
            let reason = format!("is open to others (mode {mode:04o}): chmod 700 it");
            expect_refusal(&daemon.client(arguments), &[&reason]);
        }
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).expect("the test's own");
    daemon.client(&["status"]).expect_code(0);
}

/// Case D10.
#[test]
fn directory_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give a directory away");
    }
    let daemon = Server::named("a").start();
    let directory = daemon.place().runtime_dir();
    std::os::unix::fs::chown(&directory, Some(54321), None).expect("root may");
    for arguments in CLIENTS {
        expect_refusal(&daemon.client(arguments), &["belongs to user 54321"]);
    }
    std::os::unix::fs::chown(&directory, Some(0), None).expect("root may");
    daemon.client(&["status"]).expect_code(0);
}

/// Case D10.
#[test]
fn guest_names_the_user_whose_daemon_it_expects() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can act as another user");
    }
    let setup = Setup::with(Server::named("a")).head("[profiles.open]\nallow_uids = [54321]");
    let daemon = setup.start();
    let place = daemon.place();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).expect("the test's own");
    // Another name of the socket, as a bind mount is.
    let directory = place.path("guest");
    fs::create_dir(&directory).expect("a fresh directory");
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("the test's own");
    fs::hard_link(place.runtime_dir().join("open.sock"), directory.join("open.sock")).expect("the same file system");
    let copy = place.copy_of_mcpd();
    let as_guest = |options: &[&str]| {
        let mut command = place.command("setpriv");
        command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).arg(&copy).args(["call", "a__echo", "{}"]);
        run(command.args(["--profile", "open", "--runtime-dir"]).arg(&directory).args(options))
    };
    as_guest(&["--daemon-uid", "0"]).expect_code(0);
    expect_refusal(&as_guest(&[]), &["belongs to user 0"]);
    expect_refusal(&as_guest(&["--daemon-uid", "7"]), &["of user 0 listens there, not user 7", "`--daemon-uid 0`"]);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}
