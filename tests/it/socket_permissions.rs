//! Only the owner can use the sockets, and only the daemon has them open.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::support::{Agent, Daemon, MCPD, Server, Setup, answer_to_ended_operator, arguments, run, skipped, until};

fn setup() -> Setup {
    Setup::with(Server::named("a"))
}

/// The permissions of a file, if it is there.
fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o7777)
}

/// Fails if the directory or a socket is open to others at any moment of the start.
fn is_private_from_the_start(umask: &str) {
    let daemon = setup().after_shell(&format!("umask {umask}")).spawn();
    let run = daemon.place().runtime_dir();
    let private = |name: &str, expected: u32| {
        let found = mode(&run.join(name)).unwrap_or(expected);
        assert_eq!(found, expected, "{name:?} under umask {umask}: {found:o}");
    };
    until("all its files are there", || {
        private("", 0o700);
        ["mcp.sock", "admin.sock", "directories.json", "lock"].iter().for_each(|name| private(name, 0o600));
        (daemon.runtime_files() == ["admin.sock", "directories.json", "lock", "mcp.sock"]).then_some(())
    });
    arguments(&Agent::ready(&daemon).call("a__echo", &serde_json::json!({})));
}

/// Case D1.
#[test]
fn its_files_are_private_even_under_a_careless_umask() {
    is_private_from_the_start("000");
}

/// Case D1.
#[test]
fn its_files_are_usable_even_under_a_paranoid_umask() {
    is_private_from_the_start("777");
}

/// Opens every door but the daemon's own, then runs `mcpd` as nobody.
fn as_nobody(daemon: &Daemon, args: &[&str]) -> crate::support::Ran {
    let run_dir = daemon.place().runtime_dir();
    for dir in [daemon.place().path(""), run_dir.clone()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("one's own directory");
    }
    for socket in ["mcp.sock", "admin.sock"] {
        fs::set_permissions(run_dir.join(socket), fs::Permissions::from_mode(0o666)).expect("one's own socket");
    }
    // A copy, because the build directory may be closed to others.
    let copy = daemon.place().copy_of_mcpd();
    let mut command = daemon.place().command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).args(args);
    run(command.arg("--runtime-dir").arg(run_dir))
}

/// Case D2.
#[test]
fn other_users_are_refused_even_if_file_modes_admit_them() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can act as another user");
        return;
    }
    let daemon = setup().start();
    // Without the option, clients would not even connect.
    let daemon_uid = ["--daemon-uid", "0"];
    for args in [&["tools"][..], &["call", "a__echo", "{}"]].map(|args| [args, &daemon_uid].concat()) {
        let args = &args[..];
        let ran = as_nobody(&daemon, args);
        assert!(ran.code != Some(0) && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
    assert!(!daemon.journal("a").iter().any(|line| line.contains("tools/call")));
    fs::set_permissions(daemon.place().runtime_dir(), fs::Permissions::from_mode(0o700)).expect("one's own directory");
    assert_eq!(daemon.status()["agents"], serde_json::json!([]));
}

/// What the kernel calls the listening sockets and the lock file of `dir` among the open files of a process.
fn handles(dir: &Path) -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").expect("/proc is mounted");
    let listening = |line: &&str| line.contains(" 00010000 ") && line.contains(dir.to_str().expect("text"));
    let inodes = sockets.lines().filter(listening).filter_map(|line| line.split_whitespace().nth(6));
    inodes.map(|inode| format!("socket:[{inode}]")).chain([dir.join("lock").display().to_string()]).collect()
}

fn open_files(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).map(|path| path.display().to_string()).collect()
}

/// Case D7.
#[test]
fn only_the_daemon_holds_its_sockets_and_lock() {
    let mut daemon = setup().start();
    let handles = handles(&daemon.place().runtime_dir());
    let open_handles = |files: &[String]| files.iter().filter(|file| handles.contains(file)).count();
    assert_eq!((handles.len(), open_handles(&daemon.open_files())), (3, 3), "{handles:?}");
    for process in daemon.family() {
        // Guards and the reaper hide their descriptors from an ordinary user.
        let open = open_files(process.pid);
        assert_eq!(open_handles(&open), 0, "{process:?} holds {open:?}");
    }
}

#[test]
fn operator_whose_process_has_ended_receives_nothing() {
    let daemon = setup().start();
    let answer = answer_to_ended_operator(&daemon, |_| ());
    assert!(!answer.contains("result"), "{answer}");
    daemon.client(&["status"]).expect_code(0);
}

/// The kernel reports process id 0 for a peer in another PID namespace, as between containers.
#[test]
fn clients_and_daemons_in_different_pid_namespaces_find_each_other() {
    let namespace = "unshare --user --map-current-user --pid --fork --kill-child --mount-proc";
    let probe = run(Command::new("sh").args(["-c", &format!("{namespace} true")]));
    if probe.code != Some(0) {
        return skipped("no new namespaces can be created here");
    }
    for is_daemon_inside in [true, false] {
        let setup =
            if is_daemon_inside { setup().after_shell(&format!(r#"exec {namespace} "$0" "$@""#)) } else { setup() };
        let mut daemon = setup.start();
        for args in ["status", "call a__echo {}"] {
            let enter = if is_daemon_inside { "" } else { namespace };
            let mut client = daemon.place().command("sh");
            client.args(["-c", &format!("exec {enter} \"$0\" {args} --runtime-dir \"$1\""), MCPD]);
            run(client.arg(daemon.place().runtime_dir())).expect_code(0);
        }
        // The parent of a daemon in a namespace ignores SIGTERM.
        daemon.kill9();
    }
}
