//! The table of attempts.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::scene::{Level, SECRET, Scene};
use crate::support::{MCPD, run, skipped};

/// What the daemon may use of the running kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    /// The version of Landlock.
    pub(crate) abi: u8,
    pub(crate) has_namespaces: bool,
}

/// One attempt of the hostile server.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) group: Group,
}

/// Attempts that the same part of a sandbox refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Data of another server.
    Process,
    /// The same by means that the Yama module may refuse in addition.
    Attach,
    /// Data of mcpd's own processes, which also protect themselves.
    Mcpd,
    /// A signal to a process outside.
    Signal,
    /// Limits of a process outside, among them the limit of processor time, which ends it.
    Limit,
    /// A socket of a process outside, by an abstract name.
    AbstractSocket,
    /// A socket of a process outside, by a path.
    PathSocket,
    /// Means that only level `files` takes away, and that some systems do not have.
    Means,
    /// A file that the server was not given.
    File,
    /// A directory that the server was not given, above one that it was given. With namespaces an empty one stands in its place.
    Skeleton,
    /// A mode with which a file lends the rights of its owner or group.
    LendingMode,
    /// IPC with processes outside.
    Ipc,
    /// Sockets beside TCP, UDP, interfaces and Unix.
    UncommonSocket,
    /// Input to a terminal.
    TerminalInput,
    /// What belongs to the user and is a file: control groups, terminals, files of processes in `/proc`.
    UserFile,
    /// A mount. A domain forbids it unless it has scopes only.
    Mount,
    /// Privileges by execution of a file.
    Privileges,
    /// A message to mcpd, which refuses its servers.
    Order,
    /// A Unix socket of its own, at a path of its own.
    OwnSocket,
    /// Existence, modes, owners and times of files, and notices of changes, which only namespaces take away.
    FileMetadata,
    /// The process list, priorities and the state of the system, which only namespaces take away.
    ProcessList,
    /// Settings of the kernel, which only root may change.
    Setting,
    /// Keyrings of the kernel.
    Keyring,
    /// What every server may do.
    Allowed,
}

impl Case {
    /// Whether the attempt must be permitted (`true`) or denied. Nothing is promised without a value.
    pub(crate) fn expected(&self, level: Level, Kernel { abi, has_namespaces }: Kernel) -> Option<bool> {
        let has_domain = abi >= 2;
        let has_scopes = abi >= 6;
        let has_namespaces = has_namespaces && level == Level::Files;
        match (self.group, level) {
            (Group::Order, _) => Some(false),
            (Group::Allowed, _) => Some(true),
            (Group::Keyring | Group::Setting, Level::Files) => Some(false),
            // A kernel may have none.
            (Group::Keyring | Group::Setting, Level::None | Level::Scope) => None,
            (Group::Skeleton, Level::Files) => (!has_namespaces).then_some(false),
            (Group::FileMetadata | Group::ProcessList, _) => Some(!has_namespaces),
            // Others could pass descriptors in.
            (Group::OwnSocket, _) => Some(level != Level::Files),
            (
                Group::Mcpd
                | Group::Means
                | Group::Mount
                | Group::Privileges
                | Group::UncommonSocket
                | Group::TerminalInput,
                Level::None,
            ) => None,
            (_, Level::None) => Some(true),
            (Group::Signal, Level::Scope | Level::Files) => Some(!has_scopes && !has_namespaces),
            (_, Level::Files) => Some(false),
            (Group::Process | Group::Attach | Group::Limit, Level::Scope) => Some(!has_domain),
            (Group::Mcpd | Group::Privileges, Level::Scope) => has_domain.then_some(false),
            (Group::AbstractSocket, Level::Scope) => Some(!has_scopes),
            (Group::Mount, Level::Scope) => (has_domain && !has_scopes).then_some(false),
            (Group::TerminalInput, Level::Scope) => has_domain.then_some(false),
            (
                Group::PathSocket | Group::File | Group::UserFile | Group::Skeleton | Group::LendingMode | Group::Ipc,
                Level::Scope,
            ) => Some(true),
            (Group::Means | Group::UncommonSocket, Level::Scope) => None,
        }
    }

    /// The access in `mcpd status` that a permitted attempt is, if it may be open at level `files`.
    pub(crate) fn access(&self) -> Option<&'static str> {
        match self.group {
            Group::Signal => Some("signals"),
            Group::FileMetadata => Some("file_metadata"),
            Group::ProcessList => Some("process_list"),
            _ => None,
        }
    }
}

fn case(group: Group, name: impl Into<String>, arguments: Value) -> Case {
    Case { name: name.into(), arguments, group }
}

/// The attempts at this level.
pub(crate) fn cases(scene: &Scene, level: Level) -> Vec<Case> {
    let mut cases = processes(scene);
    cases.extend(sockets(scene));
    cases.extend(files(scene, level));
    cases.extend(metadata(scene));
    cases.extend(programs(scene));
    cases.extend(modes(scene));
    cases.extend(system_calls(scene));
    cases.extend(protocols());
    cases.extend(user_files(scene));
    cases
}

/// Python, as the system has it: other ones may lie where no server at level `files` can read.
const PYTHON: &str = "/usr/bin/python3";
/// The program that makes a system call by its number.
pub(crate) const CALLS: &str = include_str!("calls.py");

/// An attempt by [`CALLS`].
fn call(group: Group, arguments: &[&str]) -> Case {
    case(group, arguments.join(" "), json!({"do": "run", "argv": call_argv(arguments)}))
}

pub(crate) fn call_argv<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&[PYTHON, "-c", CALLS], arguments].concat()
}

/// Modes that lend rights, by all calls that set one.
fn modes(scene: &Scene) -> Vec<Case> {
    let path = scene.writable().join("lent").display().to_string();
    let mut cases = Vec::new();
    for mode in ["4755", "2755", "6711"] {
        for name in [
            "chmod",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "open",
            "openat",
            "openat2",
            "open_tmpfile",
            "creat",
            "mknod",
            "mknodat",
        ] {
            cases.push(call(Group::LendingMode, &["set_mode", name, &path, mode]));
        }
        for name in ["x32_chmod", "x32_fchmodat"] {
            cases.push(call(Group::Means, &["set_mode", name, &path, mode]));
        }
        for name in ["set_mode_of_directory", "make_directory"] {
            cases.push(call(Group::LendingMode, &[name, &path, mode]));
        }
    }
    cases.extend(
        ["chmod", "fchmodat", "open", "openat", "open_tmpfile", "mknod"]
            .map(|name| call(Group::Allowed, &["set_mode", name, &path, "1775"])),
    );
    cases
}

/// IPC, keyrings, terminals, and ways around a filter.
fn system_calls(scene: &Scene) -> Vec<Case> {
    let mut cases: Vec<_> = [
        (Group::Keyring, "add_key"),
        (Group::Keyring, "request_key"),
        (Group::Keyring, "find_session_keyring"),
        (Group::Keyring, "join_session_keyring"),
        (Group::Means, "x32_add_key"),
        (Group::Means, "set_up_ring"),
        (Group::Means, "register_ring"),
        (Group::Means, "name_file"),
        (Group::Means, "open_by_name"),
        (Group::Means, "open_file_system"),
        (Group::Means, "watch_page_faults"),
        (Group::TerminalInput, "own_terminal"),
        (Group::Allowed, "interfaces"),
    ]
    .map(|(group, name)| call(group, &[name]))
    .into();
    cases.extend(scene.message_queue().map(|id| call(Group::Ipc, &["control_queue", id])));
    cases.extend(scene.posix_queue().map(|name| call(Group::Ipc, &["open_posix_queue", name])));
    cases
}

/// Sockets by family, type and protocol.
fn protocols() -> Vec<Case> {
    let uncommon = [
        ("packet", 17, 3, 768),
        ("raw ICMP", 2, 3, 1),
        ("raw", 2, 3, 255),
        ("raw IPv6", 10, 3, 58),
        ("virtual machines", 40, 1, 0),
        ("ciphers of the kernel", 38, 5, 0),
        ("Bluetooth", 31, 3, 1),
        ("SMC", 43, 1, 0),
        ("multipath TCP", 2, 1, 262),
        ("SCTP", 2, 1, 132),
        ("SCTP messages", 10, 5, 132),
        ("DCCP", 2, 6, 33),
        ("UDP-Lite", 2, 2, 136),
        ("L2TP", 2, 2, 115),
        ("KCM", 41, 5, 0),
        ("XDP", 44, 3, 0),
        ("TIPC", 30, 5, 0),
        ("RDS", 21, 5, 0),
        ("CAN", 29, 3, 1),
        ("sockets of others", 16, 3, 4),
        ("devices", 16, 2, 15),
        ("generic netlink", 16, 3, 16),
    ];
    let common = [("TCP", 2, 1, 0), ("TCP by number", 2, 0o2_000_001, 6), ("UDP", 2, 2, 17), ("routes", 16, 3, 0)];
    let tagged = |group, sockets: &[(&str, i32, i32, i32)]| {
        let cases = sockets.iter().map(|(name, family, kind, protocol)| {
            let numbers = [family, kind, protocol].map(ToString::to_string);
            let case = call(group, &["socket", &numbers[0], &numbers[1], &numbers[2]]);
            Case { name: format!("create a socket for {name}"), ..case }
        });
        cases.collect::<Vec<_>>()
    };
    let mut cases = tagged(Group::UncommonSocket, &uncommon);
    cases.extend(tagged(Group::Allowed, &common));
    cases.extend([
        call(Group::UncommonSocket, &["socketpair", "30", "5"]),
        call(Group::Allowed, &["socketpair", "1", "1"]),
        call(Group::Allowed, &["socketpair", "1", "5"]),
    ]);
    cases
}

/// What no level but `files` can take away, since it is files of the user.
fn user_files(scene: &Scene) -> Vec<Case> {
    let victim = scene.victim;
    let adjustment = format!("/proc/{victim}/oom_score_adj");
    let current = std::fs::read_to_string(&adjustment).expect("a number");
    let mut cases = vec![
        case(
            Group::UserFile,
            "have the kernel prefer the victim when memory is short",
            json!({"do": "write", "path": adjustment, "text": current}),
        ),
        case(
            Group::UserFile,
            "write to the terminal of the user",
            json!({"do": "write", "path": scene.terminal, "text": ""}),
        ),
        case(Group::UserFile, "read shared memory of POSIX", json!({"do": "read", "path": scene.shared_memory.path()})),
    ];
    match control_group(victim) {
        Some(path) => cases.push(case(
            Group::UserFile,
            "move a process to another control group",
            json!({"do": "write", "path": path, "text": ""}),
        )),
        None => skipped("move a process to another control group: the system delegates none"),
    }
    cases
}

/// The list of processes of the control group of a process, if this user can move processes there. A file such as `cgroup.kill` next to
/// it belongs to the same user.
fn control_group(pid: u32) -> Option<std::path::PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        (fields.next()? == "cgroup2").then_some(path)
    })?;
    let path = Path::new(root).join(group).join("cgroup.procs");
    std::fs::OpenOptions::new().append(true).open(&path).is_ok().then_some(path)
}

/// What belongs to other processes.
fn processes(scene: &Scene) -> Vec<Case> {
    let mut cases = Vec::new();
    let guard = scene.daemon.guard_pid("victim");
    let others = [
        ("the victim", scene.victim, Group::Process),
        ("the daemon", scene.daemon.pid(), Group::Mcpd),
        ("the reaper", scene.reaper, Group::Mcpd),
        ("a guard", guard, Group::Mcpd),
    ];
    for (who, pid, group) in others {
        let attach = if group == Group::Process { Group::Attach } else { group };
        let proc = |file: &str| format!("/proc/{pid}/{file}");
        let mut add = |group, attempt: &str, file: &str| {
            let arguments = json!({"do": attempt, "pid": pid, "path": proc(file)});
            cases.push(case(group, format!("{attempt} {file} of {who}"), arguments));
        };
        add(group, "read", "environ");
        add(group, "open", "maps");
        add(attach, "open", "mem");
        add(group, "follow", "fd/0");
        add(group, "follow", "cwd");
        add(group, "list", "root/");
        add(group, "follow", "exe");
        add(attach, "trace", "");
        add(attach, "read_memory", "");
        add(attach, "take_descriptor", "");
        add(Group::Signal, "signal", "");
    }
    let victim = scene.victim;
    let call = r#"{"jsonrpc":"2.0","id":"forged","method":"tools/call","params":{"name":"echo"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"forged","result":{}}"#;
    for (fd, name, line) in [(0, "call a tool of the victim", call), (1, "answer for the victim", answer)] {
        let arguments = json!({"do": "write", "path": format!("/proc/{victim}/fd/{fd}"), "text": format!("{line}\n")});
        cases.push(case(Group::Process, name, arguments));
    }
    let environ = format!("/proc/{victim}/environ");
    for role in ["mcpd-guard", "mcpd-sandbox", "mcpd-reaper"] {
        let arguments =
            json!({"do": "start_unrestricted", "role": role, "program": MCPD, "path": environ, "secret": SECRET});
        cases.push(case(Group::Process, format!("read the victim's environment as {role}"), arguments));
    }
    cases.extend([
        case(Group::Limit, "limit the victim", json!({"do": "limit", "pid": victim})),
        case(Group::Signal, "have mcpd reload", json!({"do": "reload_signal", "pid": scene.daemon.pid()})),
        case(Group::ProcessList, "lower the victim's priority", json!({"do": "lower_priority", "pid": victim})),
        case(Group::Allowed, "signal an own child", json!({"do": "signal_child"})),
        case(
            Group::ProcessList,
            "read the argument list of the victim",
            json!({"do": "read", "path": format!("/proc/{victim}/cmdline")}),
        ),
        case(
            Group::Mcpd,
            "read the victim's environment in a user namespace",
            json!({"do": "run", "argv": ["unshare", "--user", "--map-root-user", "cat", environ]}),
        ),
    ]);
    cases
}

fn sockets(scene: &Scene) -> Vec<Case> {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let status = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{\"version\":\"0\"}}\n";
    let approve = json!({"version": "0", "server": "hostile", "definitions": []});
    let approve = json!({"jsonrpc": "2.0", "id": 1, "method": "approve", "params": approve}).to_string() + "\n";
    let runtime = scene.place().runtime_dir();
    let command = |words: &[&str]| {
        let argv = [&[MCPD], words].concat().into_iter().map(str::to_owned);
        let directory = ["--runtime-dir".to_owned(), runtime.display().to_string()];
        json!({"do": "run", "argv": argv.chain(directory).collect::<Vec<_>>()})
    };
    vec![
        case(
            Group::Order,
            "approve definitions by mcpd's socket",
            json!({"do": "request", "path": runtime.join("admin.sock"), "text": approve}),
        ),
        case(Group::Order, "approve definitions by `mcpd approve`", command(&["approve", "hostile", "--all", "--yes"])),
        case(Group::Order, "see changed definitions by `mcpd diff`", command(&["diff"])),
        case(
            Group::AbstractSocket,
            "connect to an abstract socket",
            json!({"do": "connect_abstract", "name": scene.abstract_name()}),
        ),
        case(
            Group::PathSocket,
            "send to a datagram socket",
            json!({"do": "send_datagram", "path": scene.path("datagram.sock")}),
        ),
        case(
            Group::PathSocket,
            "connect to a stream socket",
            json!({"do": "connect", "path": scene.path("stream.sock")}),
        ),
        case(
            Group::OwnSocket,
            "listen at an own socket",
            json!({"do": "listen", "path": scene.writable().join("own.sock")}),
        ),
        case(
            Group::Order,
            "send a request as an agent",
            json!({"do": "request", "path": runtime.join("mcp.sock"), "text": ping}),
        ),
        case(
            Group::Order,
            "send an order to mcpd",
            json!({"do": "request", "path": runtime.join("admin.sock"), "text": status}),
        ),
        case(Group::Means, "set up an io_uring", json!({"do": "set_up_ring"})),
    ]
}

fn files(scene: &Scene, level: Level) -> Vec<Case> {
    let home = |name: &str| scene.path("home").join(name);
    let (key, own) = (home(".ssh/id_ed25519"), scene.writable());
    let by_root = format!("/proc/self/root{}", key.display());
    let config = scene.path("config.toml");
    let mut cases = vec![
        case(Group::File, "read a key", json!({"do": "read", "path": key})),
        case(Group::File, "read a key through /proc/self/root", json!({"do": "read", "path": by_root})),
        case(
            Group::File,
            "read a key through an own link",
            json!({"do": "read_by_link", "path": key, "to": own.join("link")}),
        ),
        case(
            Group::File,
            "link a key into an own directory",
            json!({"do": "hard_link", "path": key, "to": own.join("key")}),
        ),
        case(
            Group::File,
            "move a file into an own directory",
            json!({"do": "move", "path": home(".netrc"), "to": own.join("netrc")}),
        ),
        case(Group::File, "change .bashrc", json!({"do": "write", "path": home(".bashrc"), "text": "# changed\n"})),
        case(Group::Skeleton, "create a file in the home directory", json!({"do": "create", "path": home(".profile")})),
        case(Group::Skeleton, "list the home directory", json!({"do": "list", "path": home("")})),
        case(Group::File, "read mcpd's configuration", json!({"do": "read", "path": config})),
        case(Group::File, "edit mcpd's configuration", json!({"do": "write", "path": config, "text": "# edited\n"})),
        case(
            Group::File,
            "create a file in the runtime directory",
            json!({"do": "create", "path": scene.place().runtime_dir().join("x")}),
        ),
        case(Group::Skeleton, "list the state directory", json!({"do": "list", "path": home(".local/state/mcpd")})),
        case(Group::Allowed, "create a file in an own directory", json!({"do": "create", "path": own.join("x")})),
    ];
    cases.extend(pins(scene));
    if scene.private("neighbour").exists() {
        let neighbour = scene.private("neighbour").join("cache");
        cases.extend([
            case(Group::File, "list the cache of another server", json!({"do": "list", "path": neighbour})),
            case(
                Group::File,
                "create a file in the cache of another server",
                json!({"do": "create", "path": neighbour.join("x")}),
            ),
        ]);
    }
    // At the other levels the server may edit the configuration, and only its application is refused; and the daemon takes the path back
    // while the attempt is undone.
    if level == Level::Files {
        let argv = json!([MCPD, "reject", "victim", "echo", "--config", config]);
        let name = "deny a tool of another server by `mcpd reject`";
        cases.push(case(Group::File, name, json!({"do": "run", "argv": argv})));
        let socket = scene.place().runtime_dir().join("mcp.sock");
        let arguments = json!({"do": "move", "path": socket, "to": socket.with_extension("moved")});
        cases.push(case(Group::File, "replace the agents' socket", arguments));
    }
    cases
}

/// Approved definitions of another server.
fn pins(scene: &Scene) -> [Case; 4] {
    let pins = scene.pin_file("victim");
    [
        case(Group::File, "read approved definitions", json!({"do": "read", "path": pins})),
        case(Group::File, "change approved definitions", json!({"do": "write", "path": pins, "text": ""})),
        case(
            Group::File,
            "create a file beside approved definitions",
            json!({"do": "create", "path": pins.with_extension("new")}),
        ),
        case(
            Group::File,
            "replace approved definitions",
            json!({"do": "move", "path": pins, "to": pins.with_extension("moved")}),
        ),
    ]
}

/// What no file itself has: modes, and settings of the kernel.
fn metadata(scene: &Scene) -> Vec<Case> {
    let home = |name: &str| scene.path("home").join(name);
    let (key, core_pattern) = (home(".ssh/id_ed25519"), "/proc/sys/kernel/core_pattern");
    let reference = format!("--reference={}", home(".netrc").display());
    vec![
        case(
            Group::Setting,
            "open a setting of the kernel to write",
            json!({"do": "write", "path": core_pattern, "text": ""}),
        ),
        case(Group::FileMetadata, "look at a key", json!({"do": "run", "argv": ["stat", key]})),
        case(Group::FileMetadata, "change the mode of a key", json!({"do": "run", "argv": ["chmod", reference, key]})),
        call(Group::FileMetadata, &["set_times", &key.display().to_string()]),
        call(Group::FileMetadata, &["watch", &key.display().to_string()]),
    ]
}

/// Programs that have, or ask for, more rights.
fn programs(scene: &Scene) -> Vec<Case> {
    let tmp = scene.writable();
    let queue = scene.message_queue();
    let mut cases: Vec<_> = queue
        .map(|id| {
            let script = format!("ipcs --queues | grep -q ' {id} '");
            case(Group::ProcessList, "look at a message queue", json!({"do": "run", "argv": ["sh", "-c", script]}))
        })
        .into_iter()
        .collect();
    cases.extend([
        case(Group::Privileges, "gain privileges", json!({"do": "gain_privileges"})),
        case(
            Group::Mount,
            "mount in a user namespace",
            json!({"do": "run", "argv": ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", tmp]}),
        ),
    ]);
    if let Some(program) = setuid_program(scene) {
        let script = format!("test \"$({} -u)\" = {OTHER_USER}", program.display());
        cases.push(case(Group::Privileges, "run a setuid program", json!({"do": "run", "argv": ["sh", "-c", script]})));
    }
    let runtime_dir = format!("XDG_RUNTIME_DIR=/run/user/{}", rustix::process::getuid().as_raw());
    let argv = ["env", &runtime_dir, "systemd-run", "--user", "--wait", "--quiet", "true"];
    let answers = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answers.is_ok_and(|status| status.success()) {
        cases.push(case(Group::PathSocket, "start a program by systemd-run", json!({"do": "run", "argv": argv})));
    } else {
        skipped("start a program by systemd-run: no user manager answers");
    }
    cases
}

/// The owner of the setuid program.
const OTHER_USER: u32 = 65534;

/// A copy of `id` that runs as another user. Only root can make one.
fn setuid_program(scene: &Scene) -> Option<std::path::PathBuf> {
    let copy = scene.path("tmp/id");
    let copy_text = copy.to_str().expect("text").to_owned();
    let is_root = rustix::process::getuid().is_root() && Path::new("/usr/bin/id").exists();
    is_root.then(|| {
        let script = format!("cp /usr/bin/id {copy_text} && chown {OTHER_USER} {copy_text} && chmod 4755 {copy_text}");
        run(scene.place().command("sh").args(["-c", &script])).expect_code(0);
        copy
    })
}
