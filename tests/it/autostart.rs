//! `mcpd connect` starts a daemon if none runs. Concurrent agents start one daemon, which inherits nothing from them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    MCPD, Place, Process, Ran, Server, Setup, TAG, call_text, field, initialize, process_report, signal, until,
    wait_exit,
};

/// A user with a login shell, a configuration and no daemon. Dropping it ends the daemon that there is then.
struct Home {
    place: Rc<Place>,
}

impl Home {
    fn new(setup: &Setup, profile: &str) -> Self {
        let place = Place::new();
        fs::create_dir(place.path("xdg-config/mcpd")).expect("a fresh directory");
        let config = setup.write(&place);
        fs::rename(config, place.path("xdg-config/mcpd/config.toml")).expect("the same disk");
        let tag = format!("export {TAG}={}\n", place.tag());
        place.write("home/.bash_profile", tag + profile);
        Self { place }
    }

    fn plain() -> Self {
        Self::new(&Setup::with(Server::named("a")), "")
    }

    /// `mcpd connect`, as an agent would launch it.
    fn connect(&self) -> Command {
        let mut command = self.place.command(MCPD);
        command.arg("connect").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Has an agent say a word and leave; tells what it was answered.
    fn ask(&self) -> Ran {
        run_handshake(&mut self.connect())
    }

    fn daemon(&self) -> u32 {
        let status = self.place.mcpd(&["status", "--json"]);
        let pid = status.json()["pid"].as_u64().unwrap_or_else(|| panic!("no daemon: {status}"));
        u32::try_from(pid).expect("a process id")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.path("home/.local/state/mcpd/serve.log")).unwrap_or_default()
    }

    /// A variable of the daemon.
    fn variable(&self, name: &str) -> Option<String> {
        self.process_report()["environment"][name].as_str().map(str::to_owned)
    }

    /// What the daemon reports about its own process.
    fn process_report(&self) -> Value {
        process_report(&self.place.path("xdg-run/mcpd/admin.sock"))
    }
}

/// Has what a command starts say hello and leave; tells what it was answered.
fn run_handshake(command: &mut Command) -> Ran {
    let mut child = command.spawn().expect("mcpd starts");
    // One that ends at once need not read it.
    let _ = child.stdin.take().expect("a piped stream").write_all(format!("{}\n", initialize("2025-06-18")).as_bytes());
    let output = child.wait_with_output().expect("one's own child");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Drop for Home {
    fn drop(&mut self) {
        let status = self.place.mcpd(&["status", "--json"]);
        let report: Option<serde_json::Value> = serde_json::from_str(&status.stdout).ok();
        let pid = report.and_then(|report| report["pid"].as_u64());
        if let Some(daemon) = pid.and_then(|pid| Process::find(u32::try_from(pid).ok()?)) {
            signal(daemon.pid, Signal::TERM);
            until("the daemon ends", || (!daemon.is_alive()).then_some(()));
        }
    }
}

fn daemons(place: &Place) -> Vec<Process> {
    let mut all = place.processes(None);
    all.retain(|process| process.command.starts_with("mcpd serve"));
    all
}

#[test]
fn twenty_agents_at_once_start_one_daemon_and_all_are_served() {
    let home = Home::plain();
    let mut agents: Vec<Child> = (0..20).map(|_| home.connect().spawn().expect("mcpd starts")).collect();
    for agent in &mut agents {
        let stdin = agent.stdin.as_mut().expect("a piped stream");
        if stdin.write_all(format!("{}\n", initialize("2025-06-18")).as_bytes()).is_err() {
            let mut stderr = String::new();
            let _ = agent.stderr.as_mut().expect("a piped stream").read_to_string(&mut stderr);
            panic!("it has ended: {:?} {stderr}\n{}", agent.wait(), home.log());
        }
    }
    for agent in &mut agents {
        let mut answer = String::new();
        let stdout = agent.stdout.as_mut().expect("a piped stream");
        BufReader::new(stdout).read_line(&mut answer).expect("text");
        assert!(answer.contains("\"result\""), "{answer}\n{}", home.log());
    }
    assert_eq!(home.log().matches(" serving profile=").count(), 1, "{}", home.log());
    for mut agent in agents {
        drop(agent.stdin.take());
        assert!(wait_exit(&mut agent).success());
    }
}

#[test]
fn daemon_survives_the_agent_that_started_it_and_its_process_group() {
    let home = Home::plain();
    let mut agent = home.connect().process_group(0).spawn().expect("mcpd starts");
    agent
        .stdin
        .as_mut()
        .expect("a piped stream")
        .write_all(format!("{}\n", initialize("2025-06-18")).as_bytes())
        .expect("there is room");
    let mut stdout = BufReader::new(agent.stdout.take().expect("a piped stream"));
    stdout.read_line(&mut String::new()).expect("text");
    let daemon = home.daemon();
    // Nobody who goes from parent to child gets there from the agent, either.
    until("it is nobody's child", || (field(daemon, "PPid") != agent.id().to_string()).then_some(()));
    let group = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process_group(group, Signal::KILL).expect("it is alive");
    wait_exit(&mut agent);
    assert_eq!(stdout.read_line(&mut String::new()).expect("text"), 0, "nobody else holds its output");
    assert_eq!(home.daemon(), daemon);
    assert!(home.ask().stdout.contains("\"result\""));
}

#[test]
fn daemon_holds_nothing_that_the_agent_had_open() {
    let home = Home::new(&Setup::new(), "");
    let script = format!("exec 7>{}; exec {MCPD} connect", home.place.path("held").display());
    let mut shell = home.place.command("sh");
    shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = run_handshake(&mut shell);
    assert!(ran.stdout.contains("\"result\""), "{ran}");
    let pid = home.daemon();
    let report = home.process_report();
    let mut targets = report["open_files"].as_array().expect("a list").iter().filter_map(Value::as_str);
    assert!(!targets.any(|target| target.contains("held") || target.starts_with("pipe:")), "{report}");
    assert_eq!(report["directory"].as_str().map(Path::new), Some(&*home.place.path("home")));
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).expect("one's own process"), "mcpd\n");
}

#[test]
fn daemon_has_the_login_environment_and_no_variables_of_the_agent() {
    let profile = "echo 'Welcome back!'; sleep 60 & export GREETING='two\nlines' PATH=\"$HOME/bin:$PATH\"";
    let home = Home::new(&Setup::with(Server::named("a")), profile);
    let mut agent = home.connect();
    agent.env("SECRET", "of the agent").env("NODE_OPTIONS", "--inspect").env("PATH", "/nowhere").env("LANG", "C.UTF-8");
    let ran = run_handshake(&mut agent);
    assert!(ran.stdout.contains("\"result\""), "{ran}");
    assert_eq!([home.variable("SECRET"), home.variable("NODE_OPTIONS")], [None, None]);
    assert_eq!(home.variable("GREETING").as_deref(), Some("two\nlines"));
    assert_eq!(home.variable("LANG").as_deref(), Some("C.UTF-8"));
    let path = home.variable("PATH").expect("a PATH");
    let bin = home.place.path("home/bin");
    assert!(path.starts_with(bin.to_str().expect("text")) && !path.contains("nowhere"), "{path}");
    // What the shell's files start is theirs.
    let sleeper = home.place.processes(None).into_iter().find(|process| process.command.starts_with("sleep 60"));
    signal(sleeper.expect("it goes on").pid, Signal::KILL);
}

#[test]
fn login_shell_that_does_not_answer_is_skipped_with_a_warning() {
    for (profile, why) in [("exit 7\n", "status: 7"), ("sleep 60\n", "longer than 5s")] {
        let home = Home::new(&Setup::with(Server::named("a")), profile);
        let ran = home.ask();
        assert!(ran.stdout.contains("\"result\""), "{ran}");
        assert!(home.log().contains(why), "{}", home.log());
        assert_eq!(home.variable("PATH"), std::env::var("PATH").ok());
        let [log, mode] = ["serve.log", ""].map(|name| {
            let path = home.place.path(&format!("home/.local/state/mcpd/{name}"));
            fs::metadata(path).expect("it is there").permissions().mode() & 0o777
        });
        assert_eq!([log, mode], [0o600, 0o700]);
        let daemon = Process::find(home.daemon()).expect("it runs");
        signal(daemon.pid, Signal::TERM);
        until("the daemon ends", || (!daemon.is_alive()).then_some(()));
    }
}

#[test]
fn daemon_that_exits_at_once_is_reported_with_its_output() {
    let home = Home::new(&Setup::new().head("[deamon]"), "");
    let ran = home.ask();
    assert_eq!(ran.code, Some(3), "{ran}");
    for word in ["code 2", "deamon", "config.toml:1:2", "serve.log"] {
        assert!(ran.stderr.contains(word), "{ran}");
    }
    // Nobody is left waiting.
    assert!(ran.stdout.contains("-31004") && ran.stdout.contains("not_sent"), "{ran}");
    assert!(daemons(&home.place).is_empty());
}

#[test]
fn refused_configuration_is_reported_at_once_even_if_no_log_can_be_written() {
    let home = Home::plain();
    home.place.write("xdg-config/mcpd/config.toml", "nonsense = 1\n");
    home.place.write("home/.local", "no directory");
    let ran = home.ask().expect_code(3);
    assert!(ran.stderr.contains("ended at once with code 2") && ran.stderr.contains("`mcpd serve`"), "{ran}");
}

#[test]
fn daemon_that_is_about_to_end_is_waited_for_and_followed_by_another() {
    let home = Home::plain();
    assert!(home.ask().stdout.contains("\"result\""));
    let first = Process::find(home.daemon()).expect("it runs");
    // It stops listening at once, and holds its lock until this call has ended.
    let mut agent = home.connect().spawn().expect("mcpd starts");
    let call = call_text("7", "a__sleep", r#"{"ms":600000}"#);
    let mut stdin = agent.stdin.take().expect("a piped stream");
    writeln!(stdin, "{}\n{call}", initialize("2025-06-18")).expect("there is room");
    until("the call runs", || {
        let status = home.place.mcpd(&["status", "--json"]).json();
        (status["servers"][0]["in_flight"] == 1).then_some(())
    });
    signal(first.pid, Signal::TERM);
    until("it does not listen any more", || (!home.place.path("xdg-run/mcpd/mcp.sock").exists()).then_some(()));
    let ran = home.ask();
    assert!(ran.stdout.contains("\"result\""), "{ran}\n{}", home.log());
    assert_ne!(home.daemon(), first.pid);
    drop(stdin);
    signal(agent.id(), Signal::KILL);
    wait_exit(&mut agent);
}

#[test]
fn output_of_a_detached_daemon_is_bounded() {
    let home = Home::plain();
    let log = home.place.path("home/.local/state/mcpd/serve.log");
    fs::create_dir_all(log.parent().expect("below home")).expect("a fresh directory");
    let old = "x".repeat(79) + "\n";
    fs::write(&log, old.repeat((4 << 20) / old.len())).expect("the test's own directory is writable");
    assert!(home.ask().stdout.contains("\"result\""));
    until("it is begun anew", || home.log().contains("INFO").then_some(()));
    assert!(home.log().len() < 1 << 20);
    assert!(fs::metadata(log.with_extension("log.1")).expect("the older one stays").len() >= (4 << 20) - 80);
}

/// Case D12.
#[test]
fn unused_daemon_of_a_client_ends_and_the_next_client_starts_another() {
    let server = Server::named("a").flags("--ignore-eof --ignore-term");
    let home = Home::new(&Setup::with(server).head("[daemon]\nidle_exit = '1s'"), "");
    let mut agent = home.connect().spawn().expect("mcpd starts");
    let mut stdin = agent.stdin.take().expect("a piped stream");
    writeln!(stdin, "{}", initialize("2025-06-18")).expect("there is room");
    let mut stdout = BufReader::new(agent.stdout.take().expect("a piped stream"));
    stdout.read_line(&mut String::new()).expect("text");
    let status = home.place.mcpd(&["status"]).expect_code(0).stdout;
    assert!(status.contains("ends after 1s without agents"), "{status}");
    let first = Process::find(home.daemon()).expect("it runs");
    drop(stdin);
    assert!(wait_exit(&mut agent).success());
    // It has closed its sockets, and still has to end its server.
    until("it does not listen any more", || (!home.place.path("xdg-run/mcpd/mcp.sock").exists()).then_some(()));
    let ran = home.ask();
    assert!(ran.stdout.contains("\"result\""), "{ran}\n{}", home.log());
    assert!(!first.is_alive() && home.log().contains("no agent was connected for 1s: stopping"), "{}", home.log());
}

#[test]
fn daemon_that_a_person_has_started_runs_on_without_agents() {
    let home = Home::new(&Setup::with(Server::named("a")).head("[daemon]\nidle_exit = '1s'"), "");
    home.place.mcpd(&["start"]).expect_code(0);
    assert_eq!(home.place.mcpd(&["status", "--json"]).json()["idle_exit_ms"], Value::Null);
}

#[test]
fn agent_that_starts_the_daemon_gets_the_profile_of_its_directory() {
    let head = "[profiles.work]\nservers = ['b']\ndirectories = ['~/work']";
    let home = Home::new(&Setup::with(Server::named("a")).server(Server::named("b")).head(head), "");
    fs::create_dir(home.place.path("home/work")).expect("a fresh directory");
    let mut agents = Vec::new();
    for directory in ["home/work", "home"] {
        let mut agent = home.connect().current_dir(home.place.path(directory)).spawn().expect("mcpd starts");
        let stdin = agent.stdin.as_mut().expect("a piped stream");
        writeln!(stdin, "{}", initialize("2025-06-18")).expect("there is room");
        let mut stdout = BufReader::new(agent.stdout.take().expect("a piped stream"));
        stdout.read_line(&mut String::new()).expect("text");
        agents.push((agent, stdout));
    }
    let status = home.place.mcpd(&["status", "--json"]).json();
    let profiles: Vec<_> = status["agents"].as_array().expect("agents").iter().map(|agent| &agent["profile"]).collect();
    assert_eq!(profiles, ["work", "default"]);
    for (mut agent, _) in agents {
        drop(agent.stdin.take());
        assert!(wait_exit(&mut agent).success());
    }
}
