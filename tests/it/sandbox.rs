//! The sandbox of a server: what is reported, what it may use, and when it does not start. `tests/escape` has what a sandbox holds back.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, NO_NAMESPACES, Place, SCRIPTED, Server, Setup, kernel_has_landlock, quoted, result, skipped,
    system_has_namespaces,
};

/// Whether the running kernel has at least this version of Landlock. Reports the rest of the test as skipped if not.
fn kernel_has(abi: u8) -> bool {
    let has = kernel_has_landlock(abi);
    if !has {
        skipped(&format!("the kernel has no Landlock of version {abi}"));
    }
    has
}

/// Adds level `files` with these further members to a server that keeps the journal `NAME.journal`.
fn at_files(place: &Place, server: Server, write: &[PathBuf], more: &str) -> Server {
    let journal = place.path(&format!("{}.journal", server.name));
    let write: Vec<_> = write.iter().chain([&journal]).map(quoted).collect();
    server.line(format!("sandbox = {{ level = \"files\", write = [{}]{more} }}", write.join(", ")))
}

/// A scripted server at level `files`.
fn confined(place: &Place, name: &str, more: &str) -> Server {
    at_files(place, Server::named(name).flags("--tool attempt"), &[], more)
}

/// The outcome of an attempt of a server.
fn attempt(agent: &mut Agent, server: &str, arguments: &Value) -> String {
    let answer = agent.call(&format!("{server}__attempt"), arguments);
    result(&answer)["structuredContent"]["value"].as_str().expect("a text").to_owned()
}

fn read(agent: &mut Agent, server: &str, path: &Path) -> String {
    attempt(agent, server, &json!({"do": "read", "path": path}))
}

fn expect_ready(daemon: &Daemon, server: &str) {
    let row = daemon.row(server);
    assert_eq!(row["state"], "ready", "{row}\n{}", daemon.log());
}

/// Case K4.
#[test]
fn status_shows_what_each_sandbox_enforces() {
    if !kernel_has(6) {
        return;
    }
    let all = json!(["processes", "signals", "abstract_sockets"]);
    for (abi, enforced, not_enforced, reason) in [
        (6, all.clone(), Value::Null, Value::Null),
        (5, json!(["processes"]), json!(["signals", "abstract_sockets"]), json!("old_landlock")),
        (1, json!([]), all, json!("no_landlock")),
    ] {
        let setup = Setup::with(Server::named("default")).server(Server::named("none").line("sandbox = \"none\""));
        let daemon = setup.variable("MCPD_TEST_LANDLOCK", &abi.to_string()).start();
        let sandbox = &daemon.row("default")["sandbox"];
        assert_eq!(sandbox["level"], "scope");
        assert_eq!(
            (&sandbox["enforced"], &sandbox["not_enforced"], &sandbox["reason"]),
            (&enforced, &not_enforced, &reason),
            "{abi}"
        );
        let none = &daemon.row("none")["sandbox"];
        assert_eq!((&none["level"], &none["enforced"]), (&json!("none"), &json!([])));
        let shown = daemon.client(&["status"]).stdout;
        assert_eq!(shown.contains("does not restrict"), !reason.is_null(), "{shown}");
    }
}

/// Case K5.
#[test]
fn server_stays_down_where_level_files_cannot_be_enforced() {
    let place = Place::new();
    let setup = Setup::with(confined(&place, "a", "")).server(Server::named("b"));
    let setup = setup.variable("MCPD_TEST_LANDLOCK", "2").variable(NO_NAMESPACES, "1");
    let daemon = setup.start_in(&place);
    let row = daemon.row("a");
    assert_ne!(row["state"], "ready", "{row}");
    assert_eq!(row["code"], "sandbox_unenforceable", "{row}");
    assert!(row["reason"].as_str().is_some_and(|reason| reason.contains("`files` cannot be enforced")), "{row}");
    let doctor = daemon.client(&["doctor"]);
    assert!(doctor.stdout.contains("`files` cannot be enforced"), "{doctor}");
    expect_ready(&daemon, "b");
    assert!(daemon.journal("a").is_empty(), "it was started");
}

/// Case K6.
#[test]
fn servers_at_level_files_have_directories_of_their_own() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    let daemon = Setup::with(confined(&place, "a", "")).server(confined(&place, "b", "")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for name in ["a", "b"] {
        let private = place.path("home/.local/state/mcpd/servers").join(name);
        let mode = fs::metadata(&private).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let answer = agent.call(&format!("{name}__env"), &json!({}));
        let env = &result(&answer)["structuredContent"];
        for variable in ["TMPDIR", "XDG_CACHE_HOME", "UV_CACHE_DIR", "npm_config_cache", "XDG_CONFIG_HOME"] {
            let path = Path::new(env[variable].as_str().expect("it is set"));
            // In namespaces a link leads there, and outside nothing of it is seen.
            let is_link = variable == "TMPDIR" && path == Path::new("/var/tmp");
            let is_private = path.starts_with(&private) && path.is_dir();
            assert!(is_link || is_private, "{variable} of {name}: {}", path.display());
            let arguments = json!({"do": "create", "path": path.join("x")});
            assert_eq!(attempt(&mut agent, name, &arguments), "permitted", "{variable} of {name}");
        }
        let answer = agent.call(&format!("{name}__cwd"), &json!({}));
        let cwd = result(&answer)["structuredContent"]["value"].as_str().expect("text");
        assert_eq!(Path::new(cwd), private.join("work"));
    }
}

/// Case K6.
#[test]
fn server_at_level_files_uses_the_paths_that_it_was_given() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    for name in ["notes", "papers", "letters"] {
        fs::create_dir(place.path(name)).expect("a fresh directory");
        place.write(&format!("{name}/file"), "text\n");
    }
    let [notes, papers, letters] = ["notes", "papers", "letters"].map(|name| place.path(name));
    let read_papers = format!(", read = [{}]", quoted(&papers));
    let server = Server::named("a").flags("--tool attempt");
    let daemon = Setup::with(at_files(&place, server, std::slice::from_ref(&notes), &read_papers)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for (directory, may_read, may_write) in [(notes, true, true), (papers, true, false), (letters, false, false)] {
        let file = directory.join("file");
        let write = json!({"do": "write", "path": file, "text": "more\n"});
        assert_eq!(read(&mut agent, "a", &file) == "permitted", may_read, "{}", file.display());
        assert_eq!(attempt(&mut agent, "a", &write) == "permitted", may_write, "{}", file.display());
    }
}

/// Case K7.
#[test]
fn path_of_a_sandbox_that_does_not_exist_keeps_the_server_down() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    let missing = place.path("not-there");
    let daemon = Setup::with(at_files(&place, Server::named("a"), std::slice::from_ref(&missing), "")).start_in(&place);
    let names_it = |reason: &Value| reason.as_str().is_some_and(|text| text.contains(missing.to_str().expect("text")));
    let row = daemon.wait_row("a", "waits for another attempt", |row| names_it(&row["reason"]));
    assert_eq!(row["code"], "sandbox_path", "{row}");
    fs::create_dir(&missing).expect("the test's own directory");
    daemon.client(&["restart", "a"]).expect_code(0);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
}

/// Case K7.
#[test]
fn grant_that_contains_the_configuration_or_the_call_log_keeps_the_server_down() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    let [dotfiles, logs] = ["dotfiles", "logs"].map(|name| place.path(name));
    for directory in [&dotfiles, &logs] {
        fs::create_dir(directory).expect("a fresh directory");
    }
    let servers = [("a", &dotfiles), ("b", &logs)]
        .map(|(name, grant)| at_files(&place, Server::named(name), std::slice::from_ref(grant), "").toml(&place));
    let file = place.write(
        "dotfiles/mcpd.toml",
        format!("[daemon]\ncall_log = {}\n{}", quoted(logs.join("calls")), servers.concat()),
    );
    symlink(&file, place.path("linked.toml")).expect("a fresh link");
    let daemon = Setup::new().config(place.path("linked.toml")).start_in(&place);
    for name in ["a", "b"] {
        let row = daemon.wait_row(name, "says why it is down", |row| row["reason"].is_string());
        assert_eq!(row["code"], "sandbox_path", "{row}");
    }
}

/// Case K7.
#[test]
fn server_has_half_of_the_limits_that_it_shares_with_mcpd() {
    let limits = "cat /proc/self/limits";
    let of = |sandbox: &str| {
        let server = Server::named("a").flags("--tool run").line(format!("sandbox = \"{sandbox}\""));
        let daemon = Setup::with(server).start();
        let answer = Agent::ready(&daemon).call("a__run", &json!({"argv": ["sh", "-c", limits]}));
        let text = result(&answer)["structuredContent"]["stdout"].as_str().expect("a text").to_owned();
        ["Max open files", "Max pending signals"].map(|name| {
            let line = text.lines().find(|line| line.starts_with(name)).expect("the kernel shows it").to_owned();
            line.split_whitespace().rev().nth(1).and_then(|hard| hard.parse::<u64>().ok())
        })
    };
    let (whole, half) = (of("none"), of("scope"));
    assert_eq!(half, whole.map(|limit| limit.map(|limit| limit / 2)));
}

/// Case K7.
#[test]
fn program_that_does_not_exist_is_reported_from_inside_a_sandbox() {
    if !kernel_has(3) {
        return;
    }
    for level in ["scope", "files"] {
        let place = Place::new();
        let plain = place.write("plain-file", "no program");
        let server = |name, command: &Path| Server::run_by(name, command).line(format!("sandbox = \"{level}\""));
        let setup = Setup::with(server("missing", Path::new("no-such-command"))).server(server("plain", &plain));
        let daemon = setup.start_in(&place);
        for (name, code) in [("missing", "command_not_found"), ("plain", "cannot_execute")] {
            let row = daemon.row(name);
            assert_eq!(row["code"], code, "{level}: {row}");
        }
    }
}

/// Case K8.
#[test]
fn scripts_and_virtual_environments_start_at_level_files() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    let executable = |name: &str, text: &str| place.write_program(name, text);
    let start = |name: &str| format!("exec {SCRIPTED} --journal {}", place.path(&format!("{name}.journal")).display());
    // A script that loads a file elsewhere in its project.
    place.write("package.json", "{}");
    executable("project/package.json", "{}");
    executable("project/lib/start.sh", &start("project"));
    let script = executable("project/src/main.sh", ". \"$(dirname \"$0\")/../lib/start.sh\"\n");
    let by_env = executable("tools/by-env", &format!("#!/usr/bin/env sh\n{}\n", start("env")));
    // The program of a virtual environment is a link to one that is installed elsewhere, and loads files of both.
    executable("python/lib/start.sh", &start("venv"));
    executable("python/bin/python", "#!/bin/sh\n. \"$(dirname \"$(readlink -f \"$0\")\")/../lib/start.sh\"\n");
    fs::create_dir_all(place.path("venv/bin")).expect("the test's own directory");
    symlink(place.path("python/bin/python"), place.path("venv/bin/python")).expect("a fresh directory");
    let read = format!(", read = [{}]", quoted(Path::new(SCRIPTED).parent().expect("a directory")));
    let servers = [
        Server::run_by("project", "sh").arg(script),
        Server::run_by("env", by_env),
        Server::run_by("venv", place.path("venv/bin/python")),
    ];
    let setup = servers.into_iter().fold(Setup::new(), |setup, server| {
        place.write(&format!("{}.journal", server.name), "");
        setup.server(at_files(&place, server, &[], &read))
    });
    let daemon = setup.start_in(&place);
    for name in ["project", "env", "venv"] {
        expect_ready(&daemon, name);
    }
}

/// Case K9.
#[test]
fn network_none_refuses_tcp() {
    if !kernel_has(4) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = |name, network: &str| {
        Server::named(name)
            .flags("--tool attempt")
            .line(format!("sandbox = {{ level = \"scope\", network = {network} }}"))
    };
    let setup = Setup::with(server("none", "\"none\"")).server(server("port", &format!("[{}]", address.port())));
    let daemon = setup.server(server("other", "[1]")).server(server("any", "true")).start();
    let mut agent = Agent::ready(&daemon);
    let tcp = &*address.to_string();
    // A free address, with a port that a list permits.
    let other_address = &*format!("127.0.0.2:{}", address.port());
    for (name, is_permitted) in [("none", false), ("port", true), ("other", false)] {
        let outcome = attempt(&mut agent, name, &json!({"do": "connect_tcp", "address": tcp}));
        assert_eq!(outcome == "permitted", is_permitted, "{name}: {outcome}");
        for (what, address) in [
            ("connect_multipath", tcp),
            ("connect_fast_open", tcp),
            ("listen_unbound", "0.0.0.0:0"),
            ("listen_unbound", "[::]:0"),
            ("listen_tcp", other_address),
        ] {
            let outcome = attempt(&mut agent, name, &json!({"do": what, "address": address}));
            assert_ne!(outcome, "permitted", "{name} {what}");
        }
    }
    for (what, address) in [("listen_unbound", "0.0.0.0:0"), ("listen_tcp", other_address)] {
        assert_eq!(attempt(&mut agent, "any", &json!({"do": what, "address": address})), "permitted", "{what}");
    }
}

/// Case K23.
#[test]
fn network_none_needs_neither_landlock_nor_namespaces() {
    let mut rows = vec![("scope", "1", false, [false, true])];
    if kernel_has(3) {
        rows.push(("files", "3", false, [false, false]));
    }
    if system_has_namespaces() {
        // In a network of its own.
        rows.push(("files", "6", true, [true, true]));
    }
    for (level, abi, has_namespaces, expected) in rows {
        let place = Place::new();
        let server = if level == "files" {
            confined(&place, "a", ", network = \"none\"")
        } else {
            Server::named("a").flags("--tool attempt").line("sandbox = { level = \"scope\", network = \"none\" }")
        };
        let mut setup = Setup::with(server).variable("MCPD_TEST_LANDLOCK", abi);
        if !has_namespaces {
            setup = setup.variable(NO_NAMESPACES, "1");
        }
        let daemon = setup.start_in(&place);
        expect_ready(&daemon, "a");
        let sandbox = &daemon.row("a")["sandbox"];
        let is_enforced = |access| sandbox["enforced"].as_array().is_some_and(|all| all.contains(&json!(access)));
        assert_eq!((is_enforced("tcp_ports"), is_enforced("udp")), (true, level == "files"), "{sandbox}");
        let mut agent = Agent::ready(&daemon);
        let outcomes = ["listen_unbound", "bind_udp"]
            .map(|what| attempt(&mut agent, "a", &json!({"do": what, "address": "127.0.0.1:0"})));
        assert_eq!(outcomes.each_ref().map(|outcome| outcome == "permitted"), expected, "{level} {outcomes:?}");
    }
}

/// Case K10.
#[test]
fn command_that_creates_mounts_runs_without_a_domain_on_older_kernels() {
    let place = Place::new();
    // Only the name matters.
    let bwrap = place.path("bwrap");
    symlink(SCRIPTED, &bwrap).expect("a fresh directory");
    let setup = Setup::with(Server::run_by("a", bwrap).flags("--tool attempt")).server(Server::named("b"));
    let daemon = setup.variable("MCPD_TEST_LANDLOCK", "5").start_in(&place);
    let sandbox = &daemon.row("a")["sandbox"];
    assert_eq!(sandbox["enforced"], json!([]), "{sandbox}");
    let environ = format!("/proc/{}/environ", daemon.server_pid("b"));
    assert_eq!(read(&mut Agent::ready(&daemon), "a", Path::new(&environ)), "permitted");
}

/// Case K11.
#[test]
fn reload_that_changes_a_sandbox_restarts_only_its_server() {
    if !kernel_has(3) {
        return;
    }
    let place = Place::new();
    let setup = |server: Server| Setup::with(server).server(Server::named("b"));
    let daemon = setup(Server::named("a").flags("--tool attempt")).start_in(&place);
    let secret = place.write("secret", "text");
    let mut agent = Agent::ready(&daemon);
    assert_eq!(read(&mut agent, "a", &secret), "permitted");
    let (a, b) = (daemon.server_pid("a"), daemon.server_pid("b"));
    setup(confined(&place, "a", "")).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    daemon.wait_row("a", "has another process", |row| row["state"] == "ready" && row["pid"] != a);
    assert_eq!(daemon.row("a")["sandbox"]["level"], "files");
    assert!(read(&mut agent, "a", &secret).starts_with("denied"));
    assert_eq!(daemon.server_pid("b"), b);
}
