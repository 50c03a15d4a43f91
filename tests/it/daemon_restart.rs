//! `mcpd restart` without a server: the daemon continues with the installed program. It keeps its process and its sockets, and calls that
//! are short enough finish.

mod former;
mod storm;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http_agent::{HttpAgent, POST, call};
use crate::support::{
    Agent, Daemon, Gate, MCPD, Place, Ran, Server, Setup, Shim, arguments, code, result, signal, until,
};

/// Calls may take as long as a test.
const PATIENT: &str = "[daemon]\nrestart_wait = \"10m\"\n";

fn setup(place: &Place) -> Setup {
    Setup::with(Server::named("a")).program(place.path("mcpd"))
}

/// A daemon that runs from a file of its own.
fn start(place: &Rc<Place>, head: &str) -> Daemon {
    place.installed_mcpd();
    setup(place).head(head).start_in(place)
}

/// Installs this shell script in the place of the daemon's program. `$MCPD` is the program.
fn install(place: &Place, script: &str) {
    place.write_program("mcpd.new", format!("#!/bin/sh\nMCPD={MCPD}\n{script}\n"));
    fs::rename(place.path("mcpd.new"), place.path("mcpd")).expect("both are in the test's own directory");
}

/// Installs version 9.9.9, which is the same program otherwise.
fn upgrade(place: &Place) {
    install(place, "[ \"$1\" = --version ] && exec echo mcpd 9.9.9\nexec \"$MCPD\" \"$@\"");
}

/// `mcpd restart`, while it runs.
struct Restart(Child);

impl Restart {
    /// Starts it, and waits until the daemon finishes its calls.
    fn begin(daemon: &Daemon) -> Self {
        let before = drains(daemon);
        let restart = Self::spawn(daemon.place());
        until("the daemon drains", || (drains(daemon) > before).then_some(()));
        restart
    }

    fn spawn(place: &Place) -> Self {
        let mut command = place.command(MCPD);
        command.arg("restart").arg("--runtime-dir").arg(place.runtime_dir());
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mcpd starts"))
    }

    fn wait(self) -> Ran {
        let output = self.0.wait_with_output().expect("one's own child");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// How many restarts the daemon has begun.
fn drains(daemon: &Daemon) -> usize {
    daemon.log().matches("restarting: calls have").count()
}

fn outcome(answer: &Value) -> (i64, &str) {
    (code(answer), answer["error"]["data"]["outcome"].as_str().expect("an outcome"))
}

/// The calls in the journal that contain `part`.
fn received(daemon: &Daemon, part: &str) -> usize {
    daemon.journal("a").iter().filter(|line| line.contains(part)).count()
}

fn inode(path: PathBuf) -> u64 {
    fs::symlink_metadata(path).expect("it is there").ino()
}

/// Case E15.
#[test]
fn daemon_keeps_its_process_its_sockets_and_its_agents() {
    let place = Place::new();
    place.installed_mcpd();
    let profiles = "[profiles.reviewer]\nservers = [\"a\"]\n[profiles.web]\nhttp = \"127.0.0.1:0\"\n";
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let profiles = profiles.replace("127.0.0.1:0", &address.to_string());
    let mut daemon = setup(&place).head(&profiles).start_in(&place);
    let mut shim = Shim::ready(&place);
    let sockets = ["mcp.sock", "reviewer.sock", "web.sock", "admin.sock", "lock"];
    let identify = || sockets.map(|name| inode(place.runtime_dir().join(name)));
    let (before, profiles, servers) = (identify(), daemon.status()["profiles"].clone(), daemon.family());
    for _ in 0..2 {
        let restarted = daemon.client(&["restart", "--json"]).expect_code(0).json();
        assert_eq!((restarted["restarted"].clone(), restarted["pid"].clone()), (json!(true), json!(daemon.pid())));
        assert_eq!(identify(), before);
        assert_eq!(*arguments(&shim.call("a__echo", &json!({"n": 1}))), json!({"n": 1}));
        let mut status = daemon.status();
        for profile in status["profiles"].as_array_mut().expect("profiles") {
            profile["agents"] = json!(0);
        }
        let mut expected = profiles.clone();
        expected.as_array_mut().expect("profiles").iter_mut().for_each(|profile| profile["agents"] = json!(0));
        assert_eq!(status["profiles"], expected);
        let mut reviewer = Agent::ready_at(&daemon.profile_socket("reviewer"));
        arguments(&reviewer.call("a__echo", &json!({})));
        std::net::TcpStream::connect(address).expect("it listens");
    }
    assert!(servers.iter().all(|process| !process.is_alive()), "processes of the first program are left");
    shim.expect_quiet();
}

#[test]
fn sockets_of_a_hundred_profiles_and_standard_input_are_passed_on() {
    let place = Place::new();
    let names: Vec<_> = (0..100).map(|number| format!("profile-{number}")).collect();
    let profiles: String = names.iter().map(|name| format!("[profiles.{name}]\nservers = [\"a\"]\n")).collect();
    let daemon = start(&place, &profiles);
    let identify = || names.iter().map(|name| inode(daemon.profile_socket(name))).collect::<Vec<_>>();
    // Only root sees what it has open, because its memory is hidden.
    let stdin = || fs::read_link(format!("/proc/{}/fd/0", daemon.pid())).ok();
    let open = || fs::read_dir(format!("/proc/{}/fd", daemon.pid())).map_or(0, Iterator::count);
    let (before, input) = (identify(), stdin());
    daemon.client(&["restart"]).expect_code(0);
    let after_one = open();
    daemon.client(&["restart"]).expect_code(0);
    assert_eq!((identify(), stdin()), (before, input));
    assert!(open() <= after_one + 5, "{after_one} descriptors became {}", open());
    for name in &names {
        let mut agent = Agent::ready_at(&daemon.profile_socket(name));
        arguments(&agent.call("a__echo", &json!({})));
        agent.disconnect();
    }
}

/// Case E15.
#[test]
fn status_and_doctor_name_both_versions_and_the_restart_runs_the_new_one() {
    let place = Place::new();
    let daemon = start(&place, "");
    let current = daemon.client(&["restart", "--if-replaced", "--json"]).expect_code(0).json();
    assert_eq!(current["restarted"], false);
    upgrade(&place);
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(status.contains("mcpd 9.9.9 now") && status.contains("mcpd restart"), "{status}");
    assert_eq!(daemon.status()["program"]["installed"], "9.9.9");
    let doctor = daemon.client(&["doctor"]).stdout;
    assert!(doctor.contains("mcpd 9.9.9 now") && doctor.contains("mcpd restart"), "{doctor}");
    let restarted = daemon.client(&["restart", "--if-replaced"]).expect_code(0).stdout;
    assert!(restarted.starts_with("restarted: mcpd "), "{restarted}");
    assert_eq!(daemon.status()["program"]["installed"], Value::Null);
}

/// Case E15.
#[test]
fn program_that_refuses_the_configuration_or_cannot_take_over_changes_nothing() {
    let place = Place::new();
    let daemon = start(&place, "");
    let mut agent = Agent::ready(&daemon);
    let config = fs::read_to_string(place.path("config.toml")).expect("text");
    let servers = daemon.row("a")["pid"].clone();
    let expect_refused = |daemon: &Daemon, agent: &mut Agent, code, part: &str| {
        let ran = daemon.client(&["restart"]).expect_code(code);
        assert!(ran.stderr.contains(part), "{ran}");
        assert_eq!((daemon.row("a")["pid"].clone(), drains(daemon)), (servers.clone(), 0));
        arguments(&agent.call("a__echo", &json!({})));
    };
    place.replace("config.toml", format!("{config}\nnonsense = 1\n"));
    expect_refused(&daemon, &mut agent, 2, "unknown key `nonsense`");
    expect_refused(&daemon, &mut agent, 2, "nothing has changed");
    place.replace("config.toml", &config);
    install(&place, "echo \"error: unexpected argument '--successor' found\" >&2; exit 2");
    expect_refused(&daemon, &mut agent, 1, "run `mcpd stop`, then `mcpd start`");
    install(&place, "yes >&2");
    expect_refused(&daemon, &mut agent, 1, "nothing has changed");
    fs::remove_file(place.path("mcpd")).expect("it is there");
    expect_refused(&daemon, &mut agent, 1, "nothing has changed");
}

/// An address that another program has is refused before anything changes.
#[test]
fn listeners_on_loopback_go_to_the_profiles_that_have_their_addresses_now() {
    let place = Place::new();
    let [first, second] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [one, two] = [&first, &second].map(|socket| socket.local_addr().expect("it is bound"));
    drop((first, second));
    let profile =
        |name: &str, address: SocketAddr| format!("[profiles.{name}]\nservers = [\"a\"]\nhttp = \"{address}\"\n");
    let before = profile("web", one) + &profile("other", two);
    let daemon = start(&place, &before);
    let config = fs::read_to_string(place.path("config.toml")).expect("text");
    let expect_served = |address: SocketAddr| {
        let reply = HttpAgent::connect_tcp(address).request("GET /mcp", &format!("Host: {address}\r\n"));
        assert_eq!(reply.status, 401, "{reply:?}");
    };
    for after in [profile("renamed", one) + &profile("other", two), profile("renamed", two) + &profile("other", one)] {
        place.replace("config.toml", config.replace(&before, &after));
        daemon.client(&["restart"]).expect_code(0);
        [one, two].into_iter().for_each(expect_served);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let held = profile("renamed", taken.local_addr().expect("it is bound"));
    place.replace("config.toml", config.replace(&before, &held));
    let (ran, drained) = (daemon.client(&["restart"]).expect_code(1), drains(&daemon));
    assert!(ran.stderr.contains("cannot listen on") && ran.stderr.contains("nothing has changed"), "{ran}");
    [one, two].into_iter().for_each(expect_served);
    assert_eq!(drained, 2);
}

/// The next program reads the configuration. No mistake in it is reported.
#[test]
fn reload_during_a_restart_is_applied_or_left_to_the_next_program() {
    let place = Place::new();
    let daemon = start(&place, "");
    for _ in 0..5 {
        let restart = Restart::spawn(&place);
        let reloads: Vec<_> = (0..8).map(|_| daemon.client(&["reload"])).collect();
        restart.wait().expect_code(0);
        for ran in reloads {
            let refused = ran.stderr.contains("stopping or restarting") || ran.stderr.contains("does not answer");
            assert!(ran.code == Some(0) || ran.code == Some(1) && refused, "{ran}");
        }
    }
}

#[test]
fn commands_that_follow_do_not_keep_a_restart_from_its_place() {
    let place = Place::new();
    let daemon = start(&place, "");
    let follow = |_| {
        let mut command = place.command(MCPD);
        command.args(["logs", "--follow"]).arg("--runtime-dir").arg(place.runtime_dir());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mcpd starts")
    };
    let followers: Vec<_> = (0..30).map(follow).collect();
    until("further long requests are refused", || {
        daemon.client(&["reload"]).stderr.contains("too many long").then_some(())
    });
    daemon.client(&["restart"]).expect_code(0);
    for mut follower in followers {
        let _ = follower.kill();
        follower.wait().expect("one's own child");
    }
}

#[test]
fn program_that_does_not_serve_in_time_is_named_with_its_process() {
    let place = Place::new();
    let mut daemon = start(&place, "");
    install(&place, "[ \"$1\" = serve ] && exec sleep 1000\nexec \"$MCPD\" \"$@\"");
    let ran = daemon.client(&["restart"]).expect_code(1);
    let pid = daemon.pid();
    assert!(ran.stderr.contains(&format!("runs as process {pid}, and does not serve")), "{ran}");
    assert!(!ran.stderr.contains("ended,") && ran.stderr.contains("mcpd stop --force"), "{ran}");
    daemon.signal(Signal::KILL);
    daemon.wait_exit();
}

/// Case E15.
#[test]
fn program_that_does_not_start_is_reported_and_the_next_daemon_serves_waiting_calls() {
    let place = Place::new();
    let mut daemon = start(&place, "");
    let mut shim = Shim::ready(&place);
    install(&place, "[ \"$1\" = serve ] && exit 7\nexec \"$MCPD\" \"$@\"");
    let ran = daemon.client(&["restart"]).expect_code(1);
    assert!(ran.stderr.contains("does not serve"), "{ran}");
    assert_eq!(daemon.wait_exit().code(), Some(7));
    let call = shim.start_call("a__echo", &json!({"after": "failure"}));
    install(&place, "exec \"$MCPD\" \"$@\"");
    drop(daemon);
    let daemon = setup(&place).start_in(&place);
    arguments(&shim.answer(&call));
    assert_eq!(received(&daemon, "failure"), 1);
    shim.expect_quiet();
}

/// Case E15.
#[test]
fn former_program_runs_again_if_the_installed_one_is_gone_by_then() {
    let place = Place::new();
    let daemon = start(&place, "");
    for (number, change) in ["rm \"$0\"", ": > \"$0\"", "printf 'exit 0' > \"$0\""].into_iter().enumerate() {
        install(&place, &format!("case $* in *--successor*) {change};; esac"));
        daemon.client(&["restart"]).expect_code(0);
        let count = daemon.log().matches("the former program runs again").count();
        assert_eq!(count, number + 1, "{change}: {}", daemon.log());
        arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    }
}

/// Later calls wait in `mcpd connect`, are refused on the socket, and agents that connect wait.
///
/// Case E15.
#[test]
fn calls_in_progress_finish_before_a_restart_and_later_ones_go_to_the_new_program() {
    let place = Place::new();
    let daemon = start(&place, PATIENT);
    let [mut shim, mut idle] = [(); 2].map(|()| Shim::ready(&place));
    let mut agent = Agent::ready(&daemon);
    let gate = Gate::new(&place);
    let calls = [shim.start_call("a__sleep", &gate.arguments()), agent.start_call("a__sleep", &gate.arguments())];
    until("the server has both", || (received(&daemon, "gate") == 2).then_some(()));
    let restart = Restart::begin(&daemon);
    let later = [&mut shim, &mut idle].map(|shim| shim.start_call("a__echo", &json!({"later": 1})));
    let refused = agent.call("a__echo", &json!({"refused": 1}));
    assert_eq!(outcome(&refused), (-31005, "not_sent"));
    assert_eq!(refused["error"]["data"]["restartWaitMs"], 600_000);
    let waiting = thread::spawn({
        let socket = daemon.agent_socket();
        move || arguments(&Agent::ready_at(&socket).call("a__echo", &json!({"connected": "meanwhile"}))).clone()
    });
    assert_eq!(received(&daemon, "later") + received(&daemon, "meanwhile"), 0);
    gate.open();
    result(&agent.answer(&calls[1]));
    agent.expect_end();
    result(&shim.answer(&calls[0]));
    restart.wait().expect_code(0);
    for (shim, call) in [&mut shim, &mut idle].into_iter().zip(later) {
        arguments(&shim.answer(&call));
        shim.expect_quiet();
    }
    waiting.join().expect("it is served");
    let counts = ["later", "meanwhile", "gate", "refused"].map(|part| received(&daemon, part));
    assert_eq!(counts, [2, 1, 2, 0]);
    agent.disconnect();
}

/// A subscription does not delay it, and is completed with the former program.
#[test]
fn calls_over_http_finish_before_a_restart_and_later_connections_wait_for_the_new_program() {
    let place = Place::new();
    let daemon = start(&place, PATIENT);
    let gate = Gate::new(&place);
    let sleep = json!({"name": "a__sleep", "arguments": gate.arguments()});
    let [mut legacy, mut other, mut modern, mut listening] = [(); 4].map(|()| HttpAgent::connect(&daemon));
    let session = format!("{POST}{}", legacy.initialize("/mcp"));
    other.post("/mcp", &session, &call(4, "a__echo", &json!({}))).message();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    listening.modern("/mcp", 7, "subscriptions/listen", &filter);
    let acknowledged = listening.event().expect("the acknowledgement").data;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    legacy.start_post("/mcp", &session, &call(5, "a__sleep", &gate.arguments()).to_string());
    modern.start_modern("/mcp", 6, "tools/call", &sleep);
    until("the server has both", || (received(&daemon, "gate") == 2).then_some(()));
    let restart = Restart::begin(&daemon);
    let refused = other.post("/mcp", &session, &call(8, "a__echo", &json!({"refused": 1})));
    assert_eq!(outcome(&refused.json()), (-31005, "not_sent"), "{refused:?}");
    let waiting = thread::spawn({
        let socket = daemon.agent_socket();
        move || {
            let echo = json!({"name": "a__echo", "arguments": {"connected": "meanwhile"}});
            HttpAgent::connect_to(&socket).modern("/mcp", 9, "tools/call", &echo)
        }
    });
    gate.open();
    for (agent, id) in [(&mut legacy, 5), (&mut modern, 6)] {
        let answer = agent.reply().message();
        assert_eq!((&answer["id"], answer["result"]["isError"].as_bool().unwrap_or_default()), (&json!(id), false));
    }
    restart.wait().expect_code(0);
    assert_eq!(listening.messages().iter().map(|message| &message["id"]).collect::<Vec<_>>(), [7]);
    waiting.join().expect("it does not panic").message();
    let counts = ["meanwhile", "gate", "refused"].map(|part| received(&daemon, part));
    assert_eq!(counts, [1, 2, 0]);
    // Sessions are the former program's: a client begins a new one.
    let mut again = HttpAgent::connect(&daemon);
    assert_eq!(again.post("/mcp", &session, &call(10, "a__echo", &json!({}))).status, 404);
}

/// Case E15.
#[test]
fn call_longer_than_restart_wait_ends_as_unknown_and_is_not_made_again() {
    let place = Place::new();
    let daemon = start(&place, "[daemon]\nrestart_wait = \"100ms\"\n");
    let mut shim = Shim::ready(&place);
    let mut agent = Agent::ready(&daemon);
    let calls =
        [shim.start_call("a__sleep", &json!({"ms": 600_001})), agent.start_call("a__sleep", &json!({"ms": 600_001}))];
    until("the server has both", || (received(&daemon, "600001") == 2).then_some(()));
    daemon.client(&["restart"]).expect_code(0);
    assert_eq!(outcome(&shim.answer(&calls[0])), (-31005, "unknown"));
    assert_eq!(outcome(&agent.answer(&calls[1])), (-31005, "unknown"));
    agent.expect_end();
    arguments(&shim.call("a__echo", &json!({})));
    shim.expect_quiet();
    assert_eq!(received(&daemon, "600001"), 2);
    agent.disconnect();
}

/// Case E15.
#[test]
fn restarts_at_the_same_time_are_one() {
    let place = Place::new();
    let daemon = start(&place, PATIENT);
    let mut shim = Shim::ready(&place);
    let gate = Gate::new(&place);
    let call = shim.start_call("a__sleep", &gate.arguments());
    daemon.wait_journal("a", "gate");
    let first = Restart::begin(&daemon);
    let second = Restart::spawn(&place);
    // Its request is answered after an earlier one, so it has arrived.
    daemon.status();
    gate.open();
    first.wait().expect_code(0);
    second.wait().expect_code(0);
    result(&shim.answer(&call));
    assert!(drains(&daemon) <= 2, "{}", daemon.log());
    arguments(&shim.call("a__echo", &json!({})));
    shim.expect_quiet();
}

/// Case E15.
#[test]
fn call_that_waits_for_a_server_that_starts_is_made_once() {
    let place = Place::new();
    place.installed_mcpd();
    let gate = Gate::new(&place);
    let slow = Server::named("slow").flags("--init-until").arg(gate.path());
    let head = "[daemon]\nrestart_wait = \"100ms\"\nfirst_list_wait = \"100ms\"\n";
    let daemon = setup(&place).server(slow).head(head).start_in(&place);
    let mut shim = Shim::ready(&place);
    until("the other server is ready", || (daemon.row("a")["state"] == "ready").then_some(()));
    let call = shim.start_call("slow__echo", &json!({"patient": 1}));
    daemon.client(&["restart"]).expect_code(0);
    gate.open();
    let answer = shim.answer(&call);
    let made = daemon.journal("slow").iter().filter(|line| line.contains("patient")).count();
    // Without a known list the name may be unknown, as before a first start.
    assert_eq!(made, usize::from(answer["error"].is_null()), "{answer}");
    shim.expect_quiet();
}

/// Case E15.
#[test]
fn killed_or_stopped_while_it_drains_the_daemon_ends_and_calls_wait_for_the_next() {
    let place = Place::new();
    for end in [Signal::KILL, Signal::TERM] {
        let _ = fs::remove_file(place.path("mcpd"));
        let mut daemon = start(&place, PATIENT);
        let mut shim = Shim::ready(&place);
        let gate = Gate::new(&place);
        let long = shim.start_call("a__sleep", &gate.arguments());
        let name = gate.path().file_name().expect("a name").to_str().expect("text").to_owned();
        daemon.wait_journal("a", &name);
        let restart = Restart::begin(&daemon);
        let later = shim.start_call("a__echo", &json!({"later": name}));
        daemon.family();
        signal(daemon.pid(), end);
        assert_eq!(outcome(&shim.answer(&long)), (-31005, "unknown"));
        let ran = restart.wait().expect_code(1);
        assert!(end == Signal::KILL || ran.stderr.contains("mcpd is being stopped"), "{ran}");
        daemon.wait_exit();
        drop(daemon);
        let daemon = setup(&place).start_in(&place);
        arguments(&shim.answer(&later));
        assert_eq!(received(&daemon, &name), 2, "the long call, and the later one");
        shim.expect_quiet();
    }
}

/// Case E15.
#[test]
fn sockets_of_the_service_manager_and_their_names_are_passed_on() {
    let place = Place::new();
    place.installed_mcpd();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    fs::set_permissions(place.runtime_dir(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("its own");
    let path = place.runtime_dir().join("mcp.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).expect("free");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its own");
    let activated = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=mcp";
    let mut command = setup(&place).after_shell(activated).command(&place);
    let log = fs::File::create(place.path("daemon.log")).expect("writable");
    let stdin: std::os::fd::OwnedFd = socket.try_clone().expect("a descriptor").into();
    let mut child =
        command.stdin(stdin).stdout(log.try_clone().expect("a descriptor")).stderr(log).spawn().expect("mcpd starts");
    for _ in 0..3 {
        arguments(&Agent::ready_at(&path).call("a__echo", &json!({})));
        place.client(&["restart"]).expect_code(0);
        assert_eq!(place.client(&["status", "--json"]).json()["pid"], child.id());
    }
    signal(child.id(), Signal::TERM);
    assert!(crate::support::wait_exit(&mut child).success());
    assert!(path.exists(), "it belongs to the service manager");
    drop(socket);
}

/// With the default directories.
///
/// Case E15.
#[test]
fn detached_daemon_is_restarted() {
    let place = Place::new();
    let config = Setup::with(Server::named("a")).write(&place);
    fs::create_dir(place.path("xdg-config/mcpd")).expect("a fresh directory");
    fs::rename(config, place.user_config()).expect("the same disk");
    place.write("home/.bash_profile", format!("export {}={}\n", crate::support::TAG, place.tag()));
    let pid = place.mcpd(&["start", "--json"]).expect_code(0).json()["pid"].clone();
    let restarted = place.mcpd(&["restart", "--json"]).expect_code(0).json();
    assert_eq!(restarted["pid"], pid);
    place.mcpd(&["call", "a__echo"]).expect_code(0);
    place.mcpd(&["stop"]).expect_code(0);
    place.mcpd(&["restart"]).expect_code(3);
}
