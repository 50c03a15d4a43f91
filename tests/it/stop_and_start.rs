//! `mcpd stop` and `mcpd start` work with daemons started by systemd, an agent or a person.

use std::fs;
use std::os::unix::fs::symlink;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Agent, MCPD, Place, Ran, SCRIPTED, Server, Setup, TAG, UserManager, process_report, run, signal, until,
};

/// A user with a login shell, a configuration in its default place, and no systemd.
fn home(config: &Setup) -> Rc<Place> {
    let place = Place::new();
    fs::create_dir(place.path("xdg-config/mcpd")).expect("a fresh directory");
    let file = config.write(&place);
    fs::rename(file, place.path("xdg-config/mcpd/config.toml")).expect("the same disk");
    place.write("home/.bash_profile", format!("export {TAG}={}\n", place.tag()));
    place
}

fn stubborn() -> Setup {
    Setup::with(Server::named("plain")).server(Server::named("stubborn").flags("--wrap --ignore-eof --ignore-term"))
}

fn install() -> Option<UserManager> {
    UserManager::installed(&Setup::with(Server::named("plain")))
}

#[test]
fn start_and_stop_without_systemd_run_a_detached_daemon_and_leave_no_process() {
    let place = home(&stubborn());
    let ran = place.mcpd(&["start"]).expect_code(0);
    assert!(ran.stdout.starts_with("started: pid ") && ran.stdout.contains("serve.log"), "{ran}");
    let pid = place.mcpd(&["status", "--json"]).json()["pid"].to_string();
    let ran = place.mcpd(&["start"]).expect_code(0);
    assert!(ran.stdout.contains(&format!("already running: pid {pid}")), "{ran}");
    until("both servers run", || {
        let status = place.mcpd(&["status", "--json"]).json();
        status["servers"].as_array()?.iter().all(|server| server["state"] == "ready").then_some(())
    });
    let ran = place.mcpd(&["stop"]).expect_code(0);
    assert!(place.processes(None).is_empty(), "{:#?}", place.processes(None));
    assert!(ran.stdout.contains(&format!("pid {pid}")) && ran.stdout.contains("`mcpd connect`"), "{ran}");
    let ran = place.mcpd(&["stop"]).expect_code(3);
    assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{ran}");
}

#[test]
fn status_without_a_daemon_reports_an_invalid_configuration() {
    let place = home(&Setup::with(Server::named("plain")));
    let commands: [fn(&Place) -> Ran; 2] = [|place| place.mcpd(&["status"]), |place| place.client(&["status"])];
    for status in commands {
        let ran = status(&place).expect_code(3);
        assert!(ran.stderr.contains("`mcpd start") && !ran.stderr.contains("load"), "{ran}");
    }
    let file = place.path("xdg-config/mcpd/config.toml");
    let text = fs::read_to_string(&file).expect("text");
    place.write("xdg-config/mcpd/config.toml", format!("[deamon]\n{text}"));
    for status in commands {
        let ran = status(&place).expect_code(3);
        let expected = format!("  the configuration does not load: {}:1:2: unknown key `deamon`", file.display());
        assert!(ran.stderr.contains("not running") && ran.stderr.contains(&expected), "{ran}");
        assert!(ran.stderr.contains("help: `mcpd check`") && ran.stdout.is_empty(), "{ran}");
    }
}

#[test]
fn commands_without_a_daemon_name_the_error_that_keeps_it_from_starting() {
    let place = home(&Setup::with(Server::named("plain")));
    let file = place.write("xdg-config/mcpd/config.toml", "[servers.plain\n");
    for command in ["tools", "calls", "top"] {
        let ran = place.mcpd(&[command]).expect_code(3);
        let expected = format!("  the configuration does not load: {}:1:", file.display());
        assert!(ran.stderr.contains("not running") && ran.stderr.contains(&expected), "{ran}");
        assert!(ran.stderr.contains("help: `mcpd check`") && ran.stdout.is_empty(), "{ran}");
    }
}

#[test]
fn start_and_stop_accept_a_runtime_directory() {
    let place = home(&Setup::with(Server::named("plain")));
    let ran = place.client(&["start"]).expect_code(0);
    assert!(ran.stdout.contains(&place.runtime_dir().join("serve.log").display().to_string()), "{ran}");
    place.client(&["status"]).expect_code(0);
    place.mcpd(&["stop"]).expect_code(3);
    let ran = place.client(&["stop"]).expect_code(0);
    assert!(!ran.stdout.contains("mcpd connect"), "no agent starts one there: {ran}");
    assert!(place.processes(None).is_empty());
}

#[test]
fn start_uses_the_given_configuration_and_reports_another_one() {
    let place = home(&Setup::with(Server::named("plain")));
    let tag = place.tag();
    let server = format!("command = '{SCRIPTED}'\nenv = {{ {TAG} = '{tag}' }}\n");
    let [one, two] =
        ["one", "two"].map(|name| place.write(&format!("{name}.toml"), format!("[servers.{name}]\n{server}")));
    let ran = place.mcpd(&["start", "--config", "one.toml", "--json"]).expect_code(0).json();
    let status = place.mcpd(&["status", "--json"]).json();
    assert_eq!((&ran["format"], &ran["pid"], &ran["already_running"]), (&json!(1), &status["pid"], &json!(false)));
    assert!(ran["log"].as_str().is_some_and(|log| log.ends_with("serve.log")), "{ran}");
    assert_eq!((&status["servers"][0]["name"], status["servers"].as_array().map(Vec::len)), (&json!("one"), Some(1)));
    let again = place.mcpd(&["start", "--config", &one.to_string_lossy(), "--json"]).expect_code(0).json();
    assert_eq!((&again["pid"], &again["already_running"]), (&status["pid"], &json!(true)));
    place.mcpd(&["start"]).expect_code(0);
    let ran = place.mcpd(&["start", "--config", &two.to_string_lossy()]).expect_code(1);
    assert!(ran.stderr.contains("another configuration is running") && ran.stderr.contains("`mcpd stop`"), "{ran}");
    let stopped = place.mcpd(&["stop", "--json"]).expect_code(0).json();
    assert_eq!((&stopped["pid"], &stopped["units"]), (&status["pid"], &json!([])));
}

#[test]
fn start_searches_servers_in_the_path_of_its_terminal_and_then_of_the_login_shell() {
    let place =
        home(&Setup::with(Server::run_by("here", "here-server")).server(Server::run_by("login", "login-server")));
    for name in ["here", "login"] {
        let directory = place.path(&format!("{name}-bin"));
        fs::create_dir(&directory).expect("a fresh directory");
        symlink(SCRIPTED, directory.join(format!("{name}-server"))).expect("a fresh path");
    }
    let outer = std::env::var("PATH").expect("PATH is set");
    let login = format!("export PATH='{}:{outer}'\n", place.path("login-bin").display());
    place.write("home/.bash_profile", format!("export {TAG}={}\n{login}", place.tag()));
    let mut start = place.command(MCPD);
    start.arg("start").env("PATH", format!("{}:relative:{outer}", place.path("here-bin").display()));
    run(&mut start).expect_code(0);
    until("both servers run", || {
        let status = place.mcpd(&["status", "--json"]).json();
        status["servers"].as_array()?.iter().all(|server| server["state"] == "ready").then_some(())
    });
    let report = process_report(&place.path("xdg-run/mcpd/admin.sock"));
    let path = report["environment"]["PATH"].as_str().expect("a PATH").to_owned();
    assert!(path.starts_with(&*place.path("here-bin").to_string_lossy()) && !path.contains("relative"), "{path}");
    place.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn start_with_a_broken_configuration_exits_2_with_file_and_line() {
    let place = home(&Setup::new().head("[deamon]"));
    let ran = place.mcpd(&["start"]).expect_code(2);
    assert!(ran.stderr.contains("deamon") && ran.stderr.contains("config.toml:1:2"), "{ran}");
    place.mcpd(&["stop"]).expect_code(3);
}

#[test]
fn slow_stop_is_reported_and_force_kills_the_daemon_and_its_servers() {
    let mut daemon = stubborn().start();
    let mut agent = Agent::ready(&daemon);
    agent.start_call("plain__sleep", &json!({"ms": 600_000}));
    until("the call runs", || {
        let status = daemon.client(&["status", "--json"]).json();
        let mut servers = status["servers"].as_array()?.iter();
        servers.any(|server| server["in_flight"] == 1).then_some(())
    });
    let ran = daemon.client(&["stop", "--timeout", "1ms"]).expect_code(1);
    assert!(ran.stderr.contains("has not ended within 1ms") && ran.stderr.contains("`mcpd stop --force`"), "{ran}");
    // Its guards have their own time to end what it has left.
    daemon.client(&["stop", "--force", "--timeout", "1ms"]).expect_code(0);
    let left: Vec<_> = daemon.place().processes(None).into_iter().filter(|one| one.pid != daemon.pid()).collect();
    assert!(left.is_empty(), "{left:#?}");
    daemon.wait_exit();
}

#[test]
fn stop_ends_a_suspended_daemon_in_order() {
    let mut daemon = Server::named("plain").start();
    signal(daemon.pid(), Signal::STOP);
    daemon.client(&["stop"]).expect_code(0);
    assert!(daemon.wait_exit().success(), "it ended by itself");
}

#[test]
fn stop_under_systemd_closes_the_sockets_and_start_opens_them_again() {
    let Some(manager) = install() else { return };
    let states = || ["mcpd.service", "mcpd.socket"].map(|unit| manager.systemctl(&["is-active", unit]).stdout);
    let ran = manager.mcpd(&["stop"]).expect_code(0);
    assert_eq!(states(), ["inactive\n", "inactive\n"]);
    manager.expect_nothing_left();
    for expected in ["mcpd.service", "mcpd.socket", "`mcpd connect`", "`mcpd start`"] {
        assert!(ran.stdout.contains(expected), "{expected}: {ran}");
    }
    manager.mcpd(&["stop"]).expect_code(3);

    let ran = manager.mcpd(&["start"]).expect_code(0);
    assert!(ran.stdout.contains("started mcpd.service"), "{ran}");
    assert_eq!(states(), ["active\n", "active\n"]);
    let status = manager.mcpd(&["status", "--json"]).expect_code(0).json();
    assert_eq!(status["pid"].to_string(), manager.property("MainPID"));
    let ran = manager.mcpd(&["start"]).expect_code(0);
    assert!(ran.stdout.contains("already running"), "{ran}");

    manager.mcpd(&["stop", "--force"]).expect_code(0);
    assert_eq!(states()[1], "inactive\n");
    assert!(manager.unit_processes().is_empty());
    assert!(manager.connect().stdout.contains("\"result\""), "an agent starts it again");
    manager.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn stop_ends_also_a_daemon_that_systemd_has_not_started_and_closes_sockets_that_wait() {
    let Some(manager) = UserManager::bare(&Setup::with(Server::named("plain"))) else { return };
    let tag = manager.place().tag();
    manager.place().write("home/.bash_profile", format!("export {TAG}={tag}\n"));
    assert!(manager.connect().stdout.contains("\"result\""), "an agent starts it, as there is no unit");
    let ran = manager.mcpd(&["service", "install", "--no-linger"]).expect_code(1);
    assert!(ran.stderr.contains("`mcpd stop`, then `mcpd start`"), "{ran}");
    manager.mcpd(&["stop"]).expect_code(0);
    manager.mcpd(&["start"]).expect_code(0);
    assert_eq!(manager.property("ActiveState"), "active");

    manager.systemctl(&["stop", "mcpd.service"]).expect_code(0);
    let ran = manager.mcpd(&["stop"]).expect_code(0);
    assert_eq!(ran.stdout.lines().next(), Some("stopped: mcpd.socket"), "{ran}");
    manager.expect_nothing_left();
}

#[test]
fn stop_and_start_in_turn_are_not_refused_by_the_start_limit_of_systemd() {
    let Some(manager) = install() else { return };
    for _ in 0..7 {
        manager.mcpd(&["stop"]).expect_code(0);
        manager.mcpd(&["start"]).expect_code(0);
    }
}

#[test]
fn start_by_the_unit_refuses_another_configuration() {
    let Some(manager) = install() else { return };
    manager.mcpd(&["stop"]).expect_code(0);
    let ran = manager.mcpd(&["start", "--config", "other.toml"]).expect_code(2);
    assert!(ran.stderr.contains("mcpd.service is installed") && ran.stderr.contains("`--config`"), "{ran}");
    manager.mcpd(&["status"]).expect_code(3);
}
