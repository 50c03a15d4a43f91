//! `mcpd sandbox`: a command in the sandbox of a server.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Stdio;

use rustix::process::{Signal, getuid};
use serde_json::json;

use crate::support::{
    Agent, MCPD, NO_NAMESPACES, Place, Ran, Server, Setup, Terminal, WAIT_LIMIT, kernel_has_landlock, quoted, result,
    run, skipped, system_has_namespaces, until, wait_exit,
};

const FILES: &str = "sandbox = \"files\"";

/// Runs a script of the shell in the sandbox of a server, without a daemon.
fn sh(place: &Place, server: &str, script: &str, variables: &[(&str, &str)]) -> Ran {
    let config = place.path("config.toml");
    let mut command = place.command(MCPD);
    command.args(["sandbox", server, "--config"]).arg(config).args(["--", "sh", "-c", script]);
    run(command.envs(variables.iter().copied()))
}

/// Case K35.
#[test]
fn command_sees_what_the_server_sees_and_its_exit_is_that_of_mcpd() {
    let place = Place::new();
    place.write("home/.bashrc", "# mine\n");
    let token = place.write("token", "hunter2");
    let with_token = |server: Server| server.env("TOKEN", &format!("${{file:{}}}", token.display()));
    let files = with_token(Server::named("files")).line(FILES);
    Setup::with(files).server(with_token(Server::named("scope"))).write(&place);
    let home = place.path("home");
    let (hidden, seen) =
        (format!("! cat {0}/.bashrc 2> /dev/null", home.display()), format!("cat {}/.bashrc", home.display()));
    let without: &[_] = &[(NO_NAMESPACES, "1")];
    for (is_possible, server, reads, variables) in [
        (system_has_namespaces(), "files", &hidden, &[][..]),
        (kernel_has_landlock(3), "files", &hidden, without),
        (kernel_has_landlock(2), "scope", &seen, &[]),
    ] {
        if !is_possible {
            skipped(&format!("{server} with {variables:?}: the system cannot enforce it"));
            continue;
        }
        let ran = sh(&place, server, &format!("{reads} >&2; echo $TOKEN; echo at $(pwd) >&2; exit 7"), variables);
        assert!(ran.code == Some(7) && ran.stdout == "hunter2\n", "{server}: {ran}");
        let cwd = if server == "files" { "servers/files/work" } else { "home" };
        assert!(ran.stderr.ends_with(&format!("/{cwd}\n")), "{server}: {ran}");
        sh(&place, server, "kill -9 $$", variables).expect_code(137);
        sh(&place, server, "setsid sleep 600 > /dev/null 2>&1 & exit 0", variables).expect_code(0);
        place.expect_no_process(WAIT_LIMIT);
    }
}

/// Case K35.
#[test]
fn command_has_the_environment_of_the_running_server() {
    if !system_has_namespaces() && !kernel_has_landlock(3) {
        return;
    }
    let place = Place::new();
    let daemon = Setup::with(Server::named("a").line(FILES)).variable("LANG", "daemon").start_in(&place);
    let lines = |text: &str| -> BTreeSet<String> {
        // Of the instance, of the shell, and of the terminal.
        let own = ["TMPDIR=", "_=", "PWD=", "OLDPWD=", "SHLVL=", "TERM="];
        text.lines().filter(|line| !own.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
    };
    let answer = Agent::ready(&daemon).call("a__run", &json!({"argv": ["sh", "-c", "env"]}));
    let server = lines(result(&answer)["structuredContent"]["stdout"].as_str().expect("text"));
    assert!(server.contains("LANG=daemon"), "{server:?}");
    let mut command = place.command(MCPD);
    command.arg("--runtime-dir").arg(place.runtime_dir()).args(["sandbox", "a", "--", "sh", "-c", "env"]);
    assert_eq!(lines(&run(&mut command).expect_code(0).stdout), server);
}

/// Case K35.
#[test]
fn server_without_a_sandbox_is_refused() {
    let place = Place::new();
    let servers = [
        Server::named("open").line("sandbox = \"none\""),
        Server::at("web", "http://127.0.0.1:9"),
        Server::named("required").line("sandbox = { level = \"files\", namespaces = \"require\" }"),
        Server::run_by("gone", "no-such-command").line(FILES),
    ];
    servers.into_iter().fold(Setup::new(), Setup::server).write(&place);
    for (server, code, text) in [
        ("open", 2, "open: has `sandbox = \"none\"`: nothing restricts it"),
        ("web", 2, "web: is a server with a URL: it has no process and no sandbox"),
        ("opne", 2, "there is no server `opne`: did you mean `open`?"),
        ("required", 1, "required: sandbox level `files` with namespaces cannot be enforced"),
        ("gone", 1, "gone: "),
    ] {
        let ran = sh(&place, server, "echo reached", &[(NO_NAMESPACES, "1")]);
        assert!(ran.code == Some(code) && ran.stdout.is_empty() && ran.stderr.contains(text), "{server}: {ran}");
    }
}

/// Case K35.
#[test]
fn input_and_signals_reach_the_command_which_ends_with_mcpd() {
    if !kernel_has_landlock(2) {
        return skipped("the kernel has no Landlock");
    }
    let place = Place::new();
    Setup::with(Server::named("a")).write(&place);
    let start = |script: &str| {
        let mut command = place.command(MCPD);
        command.args(["sandbox", "a", "--config"]).arg(place.path("config.toml")).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts")
    };
    let script =
        format!("trap 'exit 9' TERM; read line; echo $line > {0}; sleep 600 & wait", place.path("line").display());
    let has_read = |text: &str| {
        until("it has read its input", || (fs::read_to_string(place.path("line")).ok()? == text).then_some(()));
    };
    let mut child = start(&script);
    child.stdin.as_mut().expect("piped").write_all(b"one\n").expect("it is read");
    has_read("one\n");
    crate::support::signal(child.id(), Signal::TERM);
    assert_eq!(wait_exit(&mut child).code(), Some(9));
    let mut child = start(&script);
    child.stdin.as_mut().expect("piped").write_all(b"two\n").expect("it is read");
    has_read("two\n");
    crate::support::signal(child.id(), Signal::KILL);
    wait_exit(&mut child);
    place.expect_no_process(WAIT_LIMIT);
}

/// Case K35.
#[test]
fn shell_in_a_terminal_is_interactive_and_ctrl_c_ends_only_what_it_runs() {
    if !kernel_has_landlock(2) {
        return skipped("the kernel has no Landlock");
    }
    let daemon = Setup::with(Server::named("a")).start();
    let Some(terminal) = Terminal::open(daemon.place(), 100, 30) else { return };
    terminal.line("SHELL=/bin/sh m sandbox a");
    terminal.line("echo $((6 * 7))x");
    terminal.wait("42x");
    terminal.line("echo $((5 * 7))y; sleep 600");
    terminal.wait("35y");
    terminal.key("C-c");
    terminal.line("echo $((2 * 4))z");
    terminal.wait("8z");
    terminal.line("exit 5");
    terminal.line("echo code $?");
    terminal.wait("code 5");
}

/// Case K37.
#[test]
fn path_that_cannot_be_opened_for_the_namespaces_is_named() {
    if !system_has_namespaces() {
        return;
    }
    if !getuid().is_root() {
        return skipped("only root reaches a directory without being its owner");
    }
    let place = Place::new();
    let (closed, inner) = (place.path("closed"), place.path("closed/inner"));
    fs::create_dir_all(&inner).expect("a fresh directory");
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("the test's own");
    chown(&closed, Some(65534), None).expect("root may do that");
    let read = format!("sandbox = {{ level = \"files\", read = [{}] }}", quoted(&inner));
    Setup::with(Server::named("a").line(read)).write(&place);
    let ran = sh(&place, "a", "true", &[]).expect_code(1);
    let reason = "a: cannot be sandboxed: cannot open what is granted: Permission denied (os error 13)";
    assert!(ran.stderr.contains(&format!("{reason}: `{}`", inner.display())), "{ran}");
}
