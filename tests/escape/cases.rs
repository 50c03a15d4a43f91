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
    /// A mount. A domain forbids it unless it has scopes only.
    Mount,
    /// Privileges by execution of a file.
    Privileges,
    /// A message to mcpd, which refuses its servers.
    Order,
    /// A Unix socket of its own, at a path of its own.
    OwnSocket,
    /// What only namespaces take away.
    Visible,
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
            (Group::Visible, _) => Some(!has_namespaces),
            // Without scopes, abstract sockets of others would be in reach.
            (Group::OwnSocket, _) => Some(level != Level::Files || has_namespaces && has_scopes),
            (Group::Mcpd | Group::Means | Group::Mount | Group::Privileges, Level::None) => None,
            (_, Level::None) => Some(true),
            (Group::Signal, Level::Scope | Level::Files) => Some(!has_scopes && !has_namespaces),
            (_, Level::Files) => Some(false),
            (Group::Process | Group::Attach | Group::Limit, Level::Scope) => Some(!has_domain),
            (Group::Mcpd | Group::Privileges, Level::Scope) => has_domain.then_some(false),
            (Group::AbstractSocket, Level::Scope) => Some(!has_scopes),
            (Group::Mount, Level::Scope) => (has_domain && !has_scopes).then_some(false),
            (Group::PathSocket | Group::File | Group::Skeleton, Level::Scope) => Some(true),
            (Group::Means, Level::Scope) => None,
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
    cases
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
        case(Group::Visible, "lower the victim's priority", json!({"do": "lower_priority", "pid": victim})),
        case(Group::Allowed, "signal an own child", json!({"do": "signal_child"})),
        case(
            Group::Visible,
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
    let runtime = scene.place().runtime_dir();
    vec![
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
    // At the other levels the daemon takes the path back while the attempt is undone.
    if level == Level::Files {
        let socket = scene.place().runtime_dir().join("mcp.sock");
        let arguments = json!({"do": "move", "path": socket, "to": socket.with_extension("moved")});
        cases.push(case(Group::File, "replace the agents' socket", arguments));
    }
    cases
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
        case(Group::Visible, "look at a key", json!({"do": "run", "argv": ["stat", key]})),
        case(Group::Visible, "change the mode of a key", json!({"do": "run", "argv": ["chmod", reference, key]})),
    ]
}

/// Programs that have, or ask for, more rights.
fn programs(scene: &Scene) -> Vec<Case> {
    let tmp = scene.writable();
    let queue = scene.message_queue();
    let mut cases: Vec<_> = queue
        .map(|id| {
            let script = format!("ipcs --queues | grep -q ' {id} '");
            case(Group::Visible, "look at a message queue", json!({"do": "run", "argv": ["sh", "-c", script]}))
        })
        .into_iter()
        .collect();
    let add_key =
        "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(int(sys.argv[1]), b'user', b'k', b'v', 1, -1) < 0)";
    if cfg!(target_arch = "x86_64") {
        let argv = json!(["/usr/bin/python3", "-c", add_key, "248"]);
        cases.push(case(Group::Keyring, "add a key to a keyring", json!({"do": "run", "argv": argv})));
    }
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
