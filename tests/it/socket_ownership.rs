//! One daemon owns a runtime directory, and the remains of a dead daemon do not block the next.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, MCPD, Place, Server, Setup, arguments, run, signal, skipped, until, wait_exit};

fn setup() -> Setup {
    Setup::with(Server::named("a"))
}

#[test]
fn second_daemon_reports_the_first_and_leaves_it_alone() {
    let daemon = setup().start();
    let mut agent = Agent::ready(&daemon);
    let second = daemon.client(&["serve"]).expect_code(4);
    assert!(second.stderr.contains("already running"), "{second}");
    arguments(&agent.call("a__echo", &json!({})));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}

/// Case D4.
#[test]
fn sockets_of_a_killed_daemon_are_taken_over() {
    let mut first = setup().start();
    let place = Rc::clone(first.place());
    first.kill9();
    assert_eq!(
        first.runtime_files(),
        ["admin.sock", "directories.json", "lock", "mcp.sock"],
        "a killed daemon cannot tidy up"
    );
    drop(first);
    place.client(&["status"]).expect_code(3);
    let second = setup().start_in(&place);
    arguments(&Agent::ready(&second).call("a__echo", &json!({})));
}

/// Starts ten daemons at once in `place` and fails unless exactly one of them serves.
fn one_of_ten_serves(place: &Rc<Place>) {
    // Making a command writes the configuration, which no daemon may be reading by then.
    let mut commands: Vec<Command> = (0..10).map(|_| setup().command(place)).collect();
    let start = |command: &mut Command| -> Child {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mcpd starts")
    };
    let mut all: Vec<_> = commands.iter_mut().map(start).collect();
    until("nine have given up", || {
        all.retain_mut(|child| match child.try_wait().expect("one's own child") {
            Some(status) => {
                let mut text = String::new();
                let stderr = child.stderr.as_mut().expect("a piped stream");
                std::io::Read::read_to_string(stderr, &mut text).expect("text");
                assert!(status.code() == Some(4) && text.contains("already running"), "{status}: {text}");
                false
            }
            None => true,
        });
        (all.len() <= 1).then_some(())
    });
    let mut one = all.pop().expect("one serves");
    let pid = until("it answers", || {
        serde_json::from_str::<serde_json::Value>(&place.client(&["status", "--json"]).stdout).ok()?["pid"].as_u64()
    });
    assert_eq!(pid, u64::from(one.id()));
    signal(one.id(), Signal::TERM);
    assert!(wait_exit(&mut one).success());
}

/// Case D5.
#[test]
fn of_ten_daemons_started_at_once_exactly_one_serves() {
    one_of_ten_serves(&Place::new());
}

/// Case D5.
#[test]
fn of_ten_daemons_started_over_a_stale_socket_exactly_one_serves() {
    let mut killed = setup().start();
    let place = Rc::clone(killed.place());
    killed.kill9();
    drop(killed);
    one_of_ten_serves(&place);
}

#[test]
fn lock_file_stays_and_the_sockets_go() {
    let mut daemon = setup().start();
    let lock = fs::metadata(daemon.place().runtime_dir().join("lock")).expect("a lock file").ino();
    assert!(daemon.term().success());
    assert_eq!(daemon.runtime_files(), ["lock"]);
    let place = Rc::clone(daemon.place());
    drop(daemon);
    let second = setup().start_in(&place);
    assert_eq!(fs::metadata(second.place().runtime_dir().join("lock")).expect("a lock file").ino(), lock);
}

#[test]
fn file_that_is_no_socket_is_not_deleted() {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o700)).expect("one's own directory");
    place.write("run/mcp.sock", "precious");
    let ran = run(&mut setup().command(&place)).expect_code(1);
    assert!(ran.stderr.contains("mcp.sock"), "{ran}");
    assert_eq!(fs::read_to_string(place.path("run/mcp.sock")).expect("still there"), "precious");
}

/// Puts the socket of another program in the place of the agents'.
fn replace(daemon: &Daemon) -> UnixListener {
    let aside = daemon.place().path("aside.sock");
    let foreign = UnixListener::bind(&aside).expect("a free path");
    fs::rename(aside, daemon.agent_socket()).expect("the same file system");
    foreign
}

/// Case D6.
#[test]
fn deleted_socket_is_created_again_without_disconnecting_agents() {
    let daemon = setup().start();
    let mut agent = Agent::ready(&daemon);
    for name in ["mcp.sock", "admin.sock"] {
        let socket = daemon.place().runtime_dir().join(name);
        fs::remove_file(&socket).expect("it is there");
        until("it is there again", || fs::symlink_metadata(&socket).ok());
        assert_eq!(fs::symlink_metadata(&socket).expect("a socket").permissions().mode() & 0o777, 0o600);
    }
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
    daemon.status();
    assert_eq!(daemon.log().matches("was deleted, and is there again").count(), 2, "{}", daemon.log());
}

/// Case D6.
#[test]
fn deleted_directory_is_recreated_and_still_has_one_daemon() {
    let daemon = setup().start();
    let mut agent = Agent::ready(&daemon);
    fs::remove_dir_all(daemon.place().runtime_dir()).expect("it is there");
    until("all is there again", || {
        (daemon.runtime_files() == ["admin.sock", "directories.json", "lock", "mcp.sock"]).then_some(())
    });
    let second = daemon.client(&["serve"]).expect_code(4);
    assert!(second.stderr.contains("already running"), "{second}");
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
}

/// Cases D5 and D6.
#[test]
fn second_daemon_that_starts_after_the_lock_was_deleted_is_refused() {
    let daemon = setup().start();
    let mut agent = Agent::ready(&daemon);
    let lock = daemon.place().runtime_dir().join("lock");
    for _ in 0..3 {
        // A daemon that is stopped cannot take the lock again meanwhile.
        signal(daemon.pid(), Signal::STOP);
        fs::remove_file(&lock).expect("it is there");
        let second = daemon.client(&["serve"]).expect_code(4);
        assert!(second.stderr.contains("already running"), "{second}");
        signal(daemon.pid(), Signal::CONT);
        until("the lock is there again", || fs::symlink_metadata(&lock).ok());
    }
    arguments(&agent.call("a__echo", &json!({})));
}

/// Cases D5 and D6.
#[test]
fn daemon_whose_directory_was_deleted_shuts_down_when_another_has_started_there() {
    let mut first = setup().start();
    let mut agent = Agent::ready(&first);
    let place = Rc::clone(first.place());
    let servers = || -> Vec<_> {
        let all = place.processes(None);
        all.into_iter().filter(|process| process.command.contains("scripted-server")).collect()
    };
    signal(first.pid(), Signal::STOP);
    fs::remove_dir_all(place.runtime_dir()).expect("it is there");
    let second = setup().start_in(&place);
    assert_eq!(servers().len(), 2);
    signal(first.pid(), Signal::CONT);
    until("there is one copy of the server", || (servers().len() == 1).then_some(()));
    let status = first.wait_exit();
    assert_eq!(status.code(), Some(4));
    let log = first.log();
    let found: Vec<_> = log.lines().filter(|line| line.contains("another daemon") || line.contains("WARN")).collect();
    assert!(matches!(found[..], [line] if line.starts_with("mcpd: another daemon holds the lock")), "{log}");
    agent.expect_end();
    assert_eq!(
        second.runtime_files(),
        ["admin.sock", "directories.json", "lock", "mcp.sock"],
        "the first has left them alone"
    );
    arguments(&Agent::ready(&second).call("a__echo", &json!({})));
    drop(second);
}

/// Case D6.
#[test]
fn replaced_socket_is_taken_back_without_disconnecting_agents() {
    let daemon = setup().start();
    let mut agent = Agent::ready(&daemon);
    let foreign = replace(&daemon);
    let taken = fs::symlink_metadata(daemon.agent_socket()).expect("a socket").ino();
    until("it is taken back", || {
        fs::symlink_metadata(daemon.agent_socket()).is_ok_and(|found| found.ino() != taken).then_some(())
    });
    drop(foreign);
    assert_eq!(fs::symlink_metadata(daemon.agent_socket()).expect("a socket").permissions().mode() & 0o777, 0o600);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
    until("it is reported", || daemon.log().contains("was replaced by another program").then_some(()));
}

/// Case D6.
#[test]
fn file_in_the_place_of_a_socket_is_left_alone_until_it_is_gone() {
    let daemon = setup().start();
    let aside = daemon.place().write("aside", "precious");
    fs::rename(aside, daemon.agent_socket()).expect("the same file system");
    until("it is reported", || daemon.log().contains("was replaced by a file that is no socket").then_some(()));
    assert_eq!(fs::read_to_string(daemon.agent_socket()).expect("text"), "precious");
    fs::remove_file(daemon.agent_socket()).expect("it is there");
    until("it is there again", || fs::symlink_metadata(daemon.agent_socket()).ok());
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    assert_eq!(daemon.log().matches("that is no socket").count(), 1, "{}", daemon.log());
}

/// Case D6.
#[test]
fn socket_that_was_replaced_by_another_program_is_not_deleted() {
    let mut daemon = setup().start();
    // A stopped daemon cannot take it back before it ends.
    signal(daemon.pid(), Signal::STOP);
    let _foreign = replace(&daemon);
    signal(daemon.pid(), Signal::TERM);
    signal(daemon.pid(), Signal::CONT);
    assert!(daemon.wait_exit().success());
    let left = fs::symlink_metadata(daemon.agent_socket()).expect("the foreign socket stays");
    assert!(left.file_type().is_socket());
}

/// Case D8.
#[test]
fn socket_path_that_is_too_long_is_refused_with_the_reason() {
    let place = Place::new();
    let long = place.path(&"x".repeat(120));
    let ran = place.mcpd(&["serve", "--runtime-dir", long.to_str().expect("text")]);
    assert!(ran.code == Some(1) || ran.code == Some(2), "{ran}");
    assert!(ran.stderr.contains("107"), "{ran}");
}

/// Serves with the environment's own runtime directory and checks that clients find it in `expected`.
fn is_found_in(place: &Rc<Place>, expected: &str, prepare: impl Fn(&mut Command)) {
    let mut serve = place.command(MCPD);
    serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    prepare(&mut serve);
    let mut child = serve.spawn().expect("mcpd starts");
    let mut status = place.command(MCPD);
    prepare(status.args(["status", "--json"]));
    let report = until("it answers", || serde_json::from_str::<serde_json::Value>(&run(&mut status).stdout).ok());
    signal(child.id(), Signal::TERM);
    assert!(wait_exit(&mut child).success());
    assert_eq!(report["profiles"][0]["socket"], place.path(expected).join("mcp.sock").to_str().expect("text"));
}

#[test]
fn runtime_directory_follows_the_environment() {
    is_found_in(&Place::new(), "xdg-run/mcpd", |_| {});
}

/// `mcpd ARGUMENTS` without `XDG_RUNTIME_DIR`, where `prepare`, a shell's command, makes `$session`, that is `/run/user/UID`, or
/// does not. `$1` there is the harness's runtime directory.
fn in_session(place: &Rc<Place>, prepare: &str, arguments: &str) -> Command {
    let script = format!("mount -t tmpfs none /run; session=/run/user/$(id -u); {prepare}; exec \"$0\" {arguments}");
    let mut command = place.command("unshare");
    command.args(["--mount", "sh", "-ec", &script, MCPD]).arg(place.runtime_dir()).env_remove("XDG_RUNTIME_DIR");
    command
}

fn can_mount() -> bool {
    let can = run(Command::new("unshare").args(["--mount", "true"])).code == Some(0);
    if !can {
        skipped("no file system can be mounted");
    }
    can
}

const SESSION: &str = "mkdir -p -m 700 $session";

/// Case D9.
#[test]
fn default_runtime_directory_is_that_of_the_login_session_or_below_home() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let below_home = place.path("home/.local/state/mcpd/run");
    let foreign = format!("{SESSION}; chown 65534 $session");
    for (prepare, expected) in [(SESSION, None), (&foreign, Some(&below_home)), (":", Some(&below_home))] {
        let absent = run(&mut in_session(&place, prepare, "status")).expect_code(3);
        let session = format!("/run/user/{}/mcpd", rustix::process::geteuid().as_raw());
        let expected = expected.map_or(session, |path| path.display().to_string());
        assert!(absent.stderr.contains(&expected), "{prepare}: {absent}");
    }
    // The daemon decides as its clients do. What is mounted can be seen from outside.
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mounted = format!("{SESSION}; mkdir -m 700 $session/mcpd; mount --bind \"$1\" $session/mcpd");
    let mut serve = in_session(&place, &mounted, "serve");
    let mut daemon = serve.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("mcpd starts");
    let runtime_dir = place.runtime_dir();
    let report = until("it answers", || {
        let ran = place.mcpd(&["status", "--json", "--runtime-dir", runtime_dir.to_str().expect("text")]);
        (ran.code == Some(0)).then(|| ran.json())
    });
    assert_eq!(report["pid"], daemon.id());
    signal(daemon.id(), Signal::TERM);
    assert!(wait_exit(&mut daemon).success());
    let mut child = in_session(&place, ":", "serve");
    let mut child = child.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("mcpd starts");
    let socket = below_home.join("admin.sock");
    until("it serves below home", || socket.exists().then_some(()));
    signal(child.id(), Signal::TERM);
    assert!(wait_exit(&mut child).success());
}

/// Case D9.
#[test]
fn client_without_a_runtime_directory_finds_the_daemon_of_the_login_session_beside_another() {
    if !can_mount() {
        return;
    }
    let daemon = setup().start();
    let place = daemon.place();
    let linked = format!("{SESSION}; ln -s \"$1\" $session/mcpd");
    let status = || run(&mut in_session(place, &linked, "status --json")).expect_code(0).json();
    let alone = status();
    assert_eq!((&alone["pid"], &alone["other_daemons"]), (&json!(daemon.pid()), &Value::Null));
    let below_home = place.path("home/.local/state/mcpd/run");
    let mut second = place.command(MCPD);
    second.args(["serve", "--runtime-dir"]).arg(&below_home).stdin(Stdio::null()).stderr(Stdio::null());
    let mut second = second.spawn().expect("mcpd starts");
    until("it is seen", || (status()["other_daemons"] == json!([below_home])).then_some(()));
    assert_eq!(status()["pid"], daemon.pid());
    let doctor = run(&mut in_session(place, &linked, "doctor --no-start")).stdout;
    let shown = run(&mut in_session(place, &linked, "status")).stdout;
    let stop = format!("mcpd stop --runtime-dir {}", below_home.display());
    assert!(doctor.contains(&stop) && shown.contains(&stop), "{doctor}{shown}");
    place.mcpd(&stop.split(' ').skip(1).collect::<Vec<_>>()).expect_code(0);
    assert!(wait_exit(&mut second).success());
    assert_eq!(status()["other_daemons"], Value::Null);
}

#[test]
fn option_for_the_directory_stands_before_or_after_the_command() {
    let daemon = setup().start();
    let dir = daemon.place().runtime_dir();
    let dir = dir.to_str().expect("text");
    daemon.place().mcpd(&["--runtime-dir", dir, "status"]).expect_code(0);
    daemon.place().mcpd(&["status", "--runtime-dir", dir]).expect_code(0);
    daemon.place().mcpd(&[&format!("--runtime-dir={dir}"), "tools"]).expect_code(0);
}
