//! Findings about the daemon: whether it answers, and which one it is.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::{doctor, expect, expect_healthy, follow};
use crate::support::{MCPD, Place, Server, Setup, quoted, signal, until, wait_exit};

fn server() -> Setup {
    Setup::with(Server::named("one").flags("--bare --tool x"))
}

#[test]
fn stopped_daemon_continues_after_the_printed_command() {
    let mut daemon = server().start();
    daemon.signal(Signal::STOP);
    let finding = expect(doctor(&daemon), "problem", "daemon", "is suspended (SIGSTOP or Ctrl-Z), and does not answer");
    follow(daemon.place(), &finding).expect_code(0);
    expect_healthy(doctor(&daemon));
}

#[test]
fn daemon_of_another_version_is_reported() {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o700)).expect("one's own");
    let lock = File::create(place.path("run/lock")).expect("a fresh file");
    lock.lock().expect("nobody else's");
    for name in ["mcp.sock", "admin.sock"] {
        let listener = UnixListener::bind(place.path("run").join(name)).expect("a fresh path");
        fs::set_permissions(place.path("run").join(name), fs::Permissions::from_mode(0o600)).expect("one's own");
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("a line");
            let result = match line.contains("\"status\"") {
                true => json!({"version": "0.0.1", "pid": std::process::id(), "uptime_ms": 5000, "settled": true, "new": {},
                               "servers": [], "agents": [], "profiles": []}),
                false => json!({}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
            let _ = writeln!(&stream, "{answer}");
        })
        });
    }
    let config = place.write("config.toml", "");
    let ran = place.client(&["doctor", "--json", "--config", config.to_str().expect("text")]);
    let finding = expect(ran, "warning", "daemon", "version 0.0.1, process ");
    assert!(finding.get("found").ends_with("this program is another version"), "{finding:?}");
}

#[test]
fn daemon_whose_program_was_replaced_needs_a_restart() {
    let place = Place::new();
    let (program, config) = (place.copy_of_mcpd(), server().write(&place));
    let mut command = place.command(&program);
    command.args(["serve", "--config"]).arg(config).arg("--runtime-dir").arg(place.runtime_dir());
    let mut daemon = command.stderr(Stdio::null()).spawn().expect("mcpd starts");
    until("it serves", || (place.client(&["status"]).code == Some(0)).then_some(()));
    fs::remove_file(&program).expect("it is there");
    let finding = expect(place.client(&["doctor", "--json"]), "warning", "executable", "was replaced since");
    // By hand it was started with a configuration that `mcpd start` does not know of.
    let advice = finding.get("advice");
    assert!(advice.starts_with("`mcpd stop ") && advice.contains("then `mcpd serve --config "), "{finding:?}");
    signal(daemon.id(), Signal::TERM);
    wait_exit(&mut daemon);
}

#[test]
fn another_mcpd_on_the_path_is_reported() {
    let daemon = server().start();
    let other = daemon.place().path("mcpd");
    fs::copy("/bin/true", &other).expect("a program");
    let mut command = daemon.place().command(MCPD);
    command.args(["doctor", "--json", "--runtime-dir"]).arg(daemon.place().runtime_dir());
    command.env("PATH", daemon.place().path(""));
    expect(crate::support::run(&mut command), "warning", "PATH", other.to_str().expect("text"));
}

#[test]
fn verbose_log_level_is_reset_by_the_printed_command() {
    let daemon = server().option("--log=debug").start();
    let finding = expect(doctor(&daemon), "warning", "log", "debug");
    follow(daemon.place(), &finding).expect_code(0);
    expect_healthy(doctor(&daemon));
}

#[test]
fn low_limit_of_open_files_is_reported() {
    let daemon = server().after_shell("ulimit -n 128").start();
    expect(doctor(&daemon), "warning", "open files", "the limit is 128");
}

#[test]
fn doctor_reads_the_configuration_of_the_daemon() {
    let daemon = server().variable("ONLY_THERE", "/").start();
    let place = daemon.place();
    let text = fs::read_to_string(place.path("config.toml")).expect("text");
    let with = |lines: &str| place.write("config.toml", format!("{text}{lines}"));
    // What the daemon has been told is looked at, though nothing here names it.
    with("cwd = \"${ONLY_THERE}\"\n");
    expect_healthy(doctor(&daemon));
    with("dney = []\n");
    let finding = expect(doctor(&daemon), "problem", &place_of(place, text.lines().count() + 1), "unknown key `dney`");
    assert!(finding.get("advice").contains("`deny`"), "{finding:?}");
    daemon.client(&["reload"]).expect_code(2);
    let finding = expect(doctor(&daemon), "warning", "configuration", "mcpd uses the previous one");
    assert!(finding.0["lines"].to_string().contains("dney"), "{finding:?}");
    with("");
    daemon.client(&["reload"]).expect_code(0);
    expect_healthy(doctor(&daemon));
}

fn place_of(place: &Place, line: usize) -> String {
    format!("{}:{line}:1", place.path("config.toml").display())
}

#[test]
fn server_configured_since_the_start_appears_after_the_printed_command() {
    let daemon = server().start();
    let text = fs::read_to_string(daemon.place().path("config.toml")).expect("text");
    let more = format!("{text}[servers.more]\ncommand = {}\n", quoted(crate::support::SCRIPTED));
    daemon.place().write("config.toml", more);
    let finding = expect(doctor(&daemon), "warning", "more", "the daemon does not know it yet");
    follow(daemon.place(), &finding).expect_code(0);
    expect_healthy(doctor(&daemon));
}

#[test]
fn missing_configuration_is_reported_with_first_steps() {
    let finding = expect(Place::new().mcpd(&["doctor", "--json"]), "warning", "files", "no server is configured");
    assert!(finding.command().starts_with("mcpd import"), "{finding:?}");
}

#[test]
fn daemon_that_an_agent_started_and_that_died_is_reported_with_its_last_output() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/.local/state/mcpd")).expect("the test's own");
    let log = |text: &str| place.write("home/.local/state/mcpd/serve.log", text);
    log("an old line\nINFO serving\nERROR no space\nmcpd: no space left\n");
    let finding = expect(place.mcpd(&["doctor", "--json"]), "warning", "daemon", "crashed or was killed");
    assert_eq!(finding.0["lines"], json!(["INFO serving", "ERROR no space", "mcpd: no space left"]));
    log("INFO serving\nINFO stopped\n");
    expect(place.mcpd(&["doctor", "--json"]), "ok", "daemon", "`mcpd connect` starts one when an agent needs it");
}
