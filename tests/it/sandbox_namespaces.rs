//! Servers at level `files` with namespaces of their own: what exists there, how they end, and what holds where there are none.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, NO_NAMESPACES, Place, Process, SCRIPTED, Server, Setup, WAIT_LIMIT, children,
    kernel_has_landlock, quoted, result, run, signal, skipped, system_has_namespaces, until,
};

/// A server that has namespaces or does not start, with further members of `sandbox`.
fn fenced(place: &Place, server: Server, write: &[PathBuf], more: &str) -> Server {
    let journal = place.path(&format!("{}.journal", server.name));
    let write: Vec<_> = write.iter().chain([&journal]).map(quoted).collect();
    let write = write.join(", ");
    server.line(format!("sandbox = {{ level = \"files\", namespaces = \"require\", write = [{write}]{more} }}"))
}

/// Runs a script of the shell in the sandbox of `server`.
fn sh(daemon: &Daemon, server: &str, script: &str) -> Value {
    let answer = Agent::ready(daemon).call(&format!("{server}__run"), &json!({"argv": ["sh", "-c", script]}));
    result(&answer)["structuredContent"].clone()
}

#[track_caller]
fn expect_true(daemon: &Daemon, server: &str, scripts: &[String]) {
    for script in scripts {
        let ran = sh(daemon, server, script);
        assert_eq!(ran["code"], 0, "{script}: {ran}");
    }
}

fn init(daemon: &Daemon, server: &str) -> u32 {
    let is_init = |pid: &u32| Process::find(*pid).is_some_and(|found| found.command.starts_with("mcpd-init"));
    children(daemon.guard_pid(server)).into_iter().find(is_init).expect("the first process of the namespaces")
}

/// Case K13.
#[test]
fn only_what_was_granted_exists_in_the_namespaces_of_a_server() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    place.write("home/.bashrc", "# mine\n");
    for name in ["notes/inner", "papers"] {
        fs::create_dir_all(place.path(name)).expect("a fresh directory");
    }
    place.write("papers/file", "text\n");
    symlink("papers", place.path("link")).expect("a fresh link");
    let more = format!(", read = [{}]", quoted(place.path("link/file")));
    let server = fenced(&place, Server::named("a"), &[place.path("notes")], &more);
    let daemon = Setup::with(server).start_in(&place);
    let private = place.path("home/.local/state/mcpd/servers/a");
    let (home, private, at) = (place.path("home"), private.display(), place.path(""));
    let (home, at) = (home.display(), at.display());
    expect_true(
        &daemon,
        "a",
        &[
            format!("test ! -e {home}/.bashrc"),
            "test ! -e /sys".to_owned(),
            "test \"$(ls -d /proc/[0-9]* | wc -l)\" -lt 10".to_owned(),
            "grep -q mcpd-init /proc/1/stat && ! readlink /proc/1/exe && ! cat /proc/1/environ".to_owned(),
            format!("test \"$HOME\" = {private}/home && echo kept > \"$HOME/kept\""),
            "echo x > /tmp/x && echo x > /dev/shm/x && echo x > /dev/null && head -c 1 /dev/urandom".to_owned(),
            "for at in /tmp /dev/shm; do test $(df --output=size $at | tail -n 1) -le 262144 || exit 1; done"
                .to_owned(),
            "for at in / /tmp /dev /dev/shm; do test $(df --output=itotal $at | tail -n 1) -le 65536 || exit 1; done"
                .to_owned(),
            "grep -q '^devpts /dev/pts .*max=' /proc/mounts && ! touch /dev/x".to_owned(),
            "! mkdir /x && ! touch /usr/x && ! touch /etc/x".to_owned(),
            format!("test -L {at}/link && cat {at}/link/file && test \"$(readlink {at}/link)\" = papers"),
            format!("! touch {at}/papers/file && ! chmod 600 {at}/papers/file && ! rm -f {at}/papers/file"),
            format!("touch {at}/notes/inner/x && ls {at}/notes && rm -f {home}/.bashrc"),
            "test -z \"$(ipcs --queues --shmems | grep '^0x')\"".to_owned(),
            "grep -q '^CapEff:.0000000000000000$' /proc/self/status".to_owned(),
            "grep -q '^CapBnd:.0000000000000000$' /proc/self/status && grep -q '^Seccomp:.2$' /proc/self/status"
                .to_owned(),
        ],
    );
    assert!(place.path("notes/inner/x").exists() && place.path("home/.bashrc").exists());
    daemon.client(&["restart", "a"]).expect_code(0);
    let again = [r#"cat "$HOME/kept""#, "test ! -e /tmp/x", r#"touch "$TMPDIR/x" && ls "$TMPDIR/..""#];
    expect_true(&daemon, "a", &again.map(str::to_owned));
    let directories = fs::read_dir(place.path("home/.local/state/mcpd/servers/a/tmp")).expect("it is there").count();
    assert_eq!(directories, 1, "those of processes that have ended are removed");
}

/// Case K14.
#[test]
fn end_of_a_server_in_namespaces_is_reported_as_it_was() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let exits = fenced(&place, Server::named("exits").flags("--exit-at-start 7"), &[], "");
    let daemon = Setup::with(exits).server(fenced(&place, Server::named("a"), &[], "")).start_in(&place);
    let says = |row: &Value, text: &str| {
        ["reason", "last_error"].iter().any(|key| row[key].as_str().is_some_and(|found| found.contains(text)))
    };
    daemon.wait_row("exits", "has its exit code", |row| says(row, "exited with code 7"));
    for (text, kill) in [("was ended by signal 9", Signal::KILL), ("was ended by signal 6", Signal::ABORT)] {
        let pid = daemon.server_pid("a");
        signal(pid, kill);
        daemon.wait_row("a", "runs again", |row| row["state"] == "ready" && row["pid"] != pid && says(row, text));
    }
}

/// Case K14.
#[test]
fn server_in_namespaces_gets_the_end_of_its_input_and_then_sigterm() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    place.write("seen", "");
    let journal = place.path("a.journal");
    let script = format!(
        "exec 3<&0; trap 'echo term >> {}; exit 0' TERM; {SCRIPTED} --ignore-eof --journal {} <&3 & wait",
        place.path("seen").display(),
        journal.display()
    );
    let read = format!(", read = [{}]", quoted(Path::new(SCRIPTED).parent().expect("a directory")));
    let server = fenced(&place, Server::run_by("a", "sh").arg("-c").arg(script), &[place.path("seen")], &read);
    place.write("a.journal", "");
    let mut daemon = Setup::with(server).start_in(&place);
    daemon.client(&["restart", "a"]).expect_code(0);
    let journal = daemon.journal("a");
    assert!(journal.iter().any(|line| line == "# eof"), "{journal:?}");
    assert_eq!(fs::read_to_string(place.path("seen")).expect("text"), "term\n");
    daemon.stop_in_order(Signal::TERM);
}

/// Case K15.
#[test]
fn nothing_is_left_of_namespaces_after_any_kill() {
    if !system_has_namespaces() {
        return;
    }
    for part in ["init", "guard", "daemon", "suspended guard"] {
        let place = Place::new();
        let server = Server::named("a").flags("--wrap --double-fork --ignore-eof --ignore-term");
        let mut daemon = Setup::with(fenced(&place, server, &[], "")).start_in(&place);
        let script = "trap '' HUP INT TERM; for i in 1 2 3 4 5 6 7 8; do setsid sh -c '(sleep 600; :) </dev/null >/dev/null 2>&1 &'; done";
        assert_eq!(sh(&daemon, "a", script)["code"], 0);
        let is_orphan = |process: &&Process| process.command.contains("sleep 600");
        until("the orphans run", || (daemon.family().iter().filter(is_orphan).count() >= 8).then_some(()));
        let (init, guard, pid) = (init(&daemon, "a"), daemon.guard_pid("a"), daemon.server_pid("a"));
        let in_namespaces: Vec<_> =
            daemon.family().into_iter().filter(|one| !one.command.starts_with("mcpd-")).collect();
        assert!(in_namespaces.len() >= 10, "{in_namespaces:?}");
        match part {
            "init" => signal(init, Signal::KILL),
            "guard" => signal(guard, Signal::KILL),
            "suspended guard" => {
                signal(guard, Signal::STOP);
                signal(guard, Signal::KILL);
            }
            _ => {
                daemon.kill9();
                daemon.expect_no_family(WAIT_LIMIT);
            }
        }
        until("all are gone", || in_namespaces.iter().all(|process| !process.is_alive()).then_some(()));
        if part != "daemon" {
            daemon.wait_row("a", "runs again", |row| row["state"] == "ready" && row["pid"] != pid);
        }
    }
}

/// Case K16.
#[test]
fn network_none_has_a_network_of_its_own() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let host = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    host.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
    let port = host.local_addr().expect("it is bound").port();
    let offline = fenced(&place, Server::named("offline"), &[], ", network = \"none\"");
    let daemon = Setup::with(offline).server(fenced(&place, Server::named("online"), &[], "")).start_in(&place);
    for name in ["offline", "online"] {
        // An address is in reach only if `lo` is up.
        let script = format!("bash -c 'echo {name} > /dev/udp/127.0.0.1/{port}'");
        expect_true(&daemon, name, &[script]);
    }
    let mut first = [0; 16];
    let length = host.recv(&mut first).expect("a datagram arrives");
    assert_eq!(&first[..length], b"online\n");
    let enforced =
        |name: &str| daemon.row(name)["sandbox"]["enforced"].as_array().expect("a list").contains(&json!("udp"));
    assert!(enforced("offline") && !enforced("online"));
}

/// Case K17.
#[test]
fn nested_user_namespaces_need_their_key() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let nested = fenced(&place, Server::named("nested"), &[], ", nested_namespaces = true");
    let daemon = Setup::with(nested).server(fenced(&place, Server::named("plain"), &[], "")).start_in(&place);
    // Root could not map itself: its server lacks a capability for that.
    let script = if rustix::process::getuid().is_root() {
        "unshare --user true"
    } else {
        "unshare --user --map-root-user --pid --fork true"
    };
    assert_eq!(sh(&daemon, "nested", script)["code"], 0, "{}", sh(&daemon, "nested", script));
    assert_ne!(sh(&daemon, "plain", script)["code"], 0);
    let mount = "unshare --user --map-root-user --mount mount -t tmpfs none /tmp";
    assert_ne!(sh(&daemon, "nested", mount)["code"], 0);
}

/// Case K18.
#[test]
fn process_in_namespaces_is_refused_as_agent_and_as_operator() {
    if !system_has_namespaces() || !kernel_has_landlock(6) {
        return;
    }
    let place = Place::new();
    // A way to the sockets that mcpd cannot know.
    fs::create_dir(place.path("linked")).expect("a fresh directory");
    let server = fenced(&place, Server::named("a"), &[place.path("linked")], ", unix = true");
    let agent = fenced(&place, Server::named("b"), &[], ", unix = true").line("agent = true");
    let daemon = Setup::with(server).server(agent).start_in(&place);
    let connect = |server: &str, socket: &Path| {
        let answer = Agent::ready(&daemon).call(&format!("{server}__connect"), &json!({"path": socket}));
        answer["result"]["structuredContent"]["value"].as_str().unwrap_or_default().to_owned()
    };
    for socket in ["admin.sock", "mcp.sock"] {
        let (own, linked) = (place.runtime_dir().join(socket), place.path("linked").join(socket));
        assert_eq!(connect("a", &own), "refused", "it does not exist there");
        fs::hard_link(&own, &linked).expect("one file system");
        let text = connect("a", &linked);
        assert!(
            text.contains(r#""connection":"refused""#) || text.contains("server `a` has started"),
            "{socket}: {text}"
        );
    }
    let text = connect("b", &place.runtime_dir().join("admin.sock"));
    assert!(text.contains(r#""connection":"refused""#), "{text}");
    let text = connect("b", &place.runtime_dir().join("mcp.sock"));
    assert!(text.contains(r#""result""#), "{text}");
}

/// Case K19.
#[test]
fn without_namespaces_landlock_holds_alone_and_status_has_the_reason() {
    if !kernel_has_landlock(6) {
        return skipped("the kernel has no Landlock of version 6");
    }
    let place = Place::new();
    let journal = quoted(place.path("auto.journal"));
    let auto = Server::named("auto").line(format!("sandbox = {{ level = \"files\", write = [{journal}] }}"));
    let required = fenced(&place, Server::named("required"), &[], "");
    let daemon = Setup::with(auto).server(required).variable(NO_NAMESPACES, "1").start_in(&place);
    let sandbox = &daemon.row("auto")["sandbox"];
    assert_eq!(sandbox["not_enforced"], json!(["file_metadata", "process_list"]));
    assert_eq!(sandbox["reason"], "no_namespaces");
    assert_eq!(sandbox["namespaces"], json!({"step": "create", "errno": 1}));
    expect_true(
        &daemon,
        "auto",
        &["test -e /sys && test -e /proc/2 && test \"$(ls -d /proc/[0-9]* | wc -l)\" -gt 10".to_owned()],
    );
    let status = daemon.client(&["status"]).stdout;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    let open = "does not restrict existence, modes, owners and times of files, notices of changes, the process list, priorities, the \
                state of the system: this system permits no namespaces";
    assert!(status.contains(open), "{status}");
    assert!(status.contains("cannot create namespaces: Operation not permitted"), "{status}");
    let row = daemon.row("required");
    assert_eq!(row["code"], "sandbox_unenforceable", "{row}");
    assert!(row["reason"].as_str().is_some_and(|reason| reason.contains("cannot create namespaces")), "{row}");
    let mut doctor = daemon.place().command(MCPD);
    doctor.args(["doctor", "--runtime-dir"]).arg(daemon.place().runtime_dir()).env(NO_NAMESPACES, "1");
    let doctor = run(&mut doctor).stdout;
    assert!(doctor.contains("have none of their own"), "{doctor}");
    assert_eq!(daemon.log().matches("have no namespaces of their own").count(), 1, "{}", daemon.log());
}

/// Case K19.
#[test]
fn trial_names_the_step_that_the_system_refuses() {
    if !system_has_namespaces() {
        return;
    }
    let tried = |prepare: &str| {
        let script = format!("{prepare}; exec -a mcpd-probe {MCPD}");
        let options = ["--user", "--map-root-user", "--mount", "bash", "-c", &script];
        let output = Command::new("unshare").args(options).output().expect("it starts");
        serde_json::from_slice::<Value>(&output.stdout).expect("a result")
    };
    for (prepare, expected) in [
        ("true", json!({"Ok": null})),
        ("echo 0 > /proc/sys/user/max_user_namespaces", json!({"Err": {"step": "create", "errno": 28}})),
        (
            "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys",
            json!({"Err": {"step": "limit_nested", "errno": 30}}),
        ),
        // As in a container.
        ("mount -t tmpfs none /proc/sys/vm", json!({"Err": {"step": "mount_proc", "errno": 1}})),
    ] {
        assert_eq!(tried(prepare), expected, "{prepare}");
    }
}

/// Case K20.
#[test]
fn first_process_is_a_program_next_to_mcpd_that_nobody_else_can_change() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let mcpd = place.copy_of_mcpd();
    let tried = || {
        let output = Command::new(&mcpd).arg0("mcpd-probe").output().expect("it starts");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(tried(), "{\"Ok\":null}", "mcpd itself is the first process");
    let other = place.path("mcpd-init");
    fs::copy("/bin/false", &other).expect("there is room");
    assert!(tried().starts_with("{\"Err\":"), "the program next to it is the first process");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).expect("the test's own file");
    assert_eq!(tried(), "{\"Ok\":null}", "anybody could have written it");
}
