//! A daemon with a hostile server, and what that server must not reach.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;

use rustix::pty::OpenptFlags;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::cases::{Case, Group, Kernel, call_argv};
use crate::support::{Agent, Daemon, NO_NAMESPACES, Place, Process, Server, Setup, children, quoted, result, until};

/// The environment variable of the victim, whose value no other server may learn.
pub(crate) const SECRET: &str = "s3cr3t-of-the-victim";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    None,
    Scope,
    Files,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Scope => "scope",
            Self::Files => "files",
        }
    }
}

/// Whether the Yama module refuses to attach to processes, whatever the level.
pub(crate) fn is_denied_by_yama(case: &Case, level: Level) -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    level != Level::Files && matches!(case.group, Group::Attach) && !matches!(scope.trim(), "" | "0")
}

/// A daemon with these servers:
///
/// - `hostile` makes the attempts, at the level under test.
/// - `victim` has no sandbox and a secret in its environment.
/// - `neighbour` has files of its own at level `files`, if the kernel can enforce that.
pub(crate) struct Scene {
    // Dropped before the daemon.
    agent: Agent,
    pub(crate) daemon: Daemon,
    pub(crate) reaper: u32,
    pub(crate) victim: u32,
    /// Sockets of a process outside.
    _listeners: (UnixListener, UnixListener, UnixDatagram),
    queue: Option<String>,
    posix_queue: Option<String>,
    /// A terminal of the user, with what keeps it open.
    pub(crate) terminal: String,
    _terminal: OwnedFd,
    pub(crate) shared_memory: NamedTempFile,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(name) = &self.posix_queue {
            has_made(&["remove_posix_queue", name]);
        }
        if let Some(id) = &self.queue {
            let _ = Command::new("ipcrm").args(["--queue-id", id]).status();
        }
    }
}

/// Creates a message queue, and returns its id.
fn create_queue() -> Option<String> {
    let created = Command::new("ipcmk").args(["--queue", "--mode", "0600"]).output().ok()?;
    let text = String::from_utf8(created.stdout).ok()?;
    text.trim().rsplit(' ').next().filter(|id| !id.is_empty()).map(str::to_owned)
}

/// Opens a terminal, and returns the name of its other side.
fn open_terminal() -> (OwnedFd, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = rustix::pty::openpt(flags).expect("a terminal");
    rustix::pty::unlockpt(&terminal).expect("it is new");
    let name = rustix::pty::ptsname(&terminal, Vec::new()).expect("it has a name");
    (terminal, name.into_string().expect("text"))
}

/// Whether a system call of this process has its effect.
fn has_made(arguments: &[&str]) -> bool {
    let argv = call_argv(arguments);
    let made = Command::new(argv[0]).args(&argv[1..]).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success())
}

impl Scene {
    pub(crate) fn new(level: Level, kernel: Kernel) -> Self {
        let Kernel { abi, has_namespaces } = kernel;
        let place = Place::new();
        write_home(&place);
        let confined = |server: Server, level: Level| {
            let journal = place.path(&format!("{}.journal", server.name));
            let write = if level == Level::Files { format!(", write = [{}]", quoted(journal)) } else { String::new() };
            server.line(format!("sandbox = {{ level = \"{}\"{write} }}", level.name()))
        };
        let hostile = confined(Server::named("hostile").flags("--tool attempt"), level);
        let victim = confined(Server::named("victim").env("TOKEN", SECRET), Level::None);
        let mut setup = Setup::new().server(hostile).server(victim);
        if abi >= 3 || has_namespaces {
            setup = setup.server(confined(Server::named("neighbour"), Level::Files));
        }
        let mut setup = setup.variable("MCPD_TEST_LANDLOCK", &abi.to_string());
        if !has_namespaces {
            setup = setup.variable(NO_NAMESPACES, "1");
        }
        let daemon = setup.start_in(&place);
        let address = SocketAddr::from_abstract_name(abstract_name(&place)).expect("a short name");
        let listener = UnixListener::bind_addr(&address).expect("the name is not taken");
        let stream = UnixListener::bind(place.path("stream.sock")).expect("a fresh directory");
        let datagram = UnixDatagram::bind(place.path("datagram.sock")).expect("a fresh directory");
        let is_reaper = |pid: &u32| Process::find(*pid).is_some_and(|found| found.command.starts_with("mcpd-reaper"));
        let reaper = children(daemon.pid()).into_iter().find(is_reaper).expect("a reaper");
        let victim = daemon.server_pid("victim");
        let agent = Agent::ready(&daemon);
        let posix_queue = Some(format!("mcpd-escape-{}", place.tag()));
        let (keeper, terminal) = open_terminal();
        Self {
            agent,
            daemon,
            reaper,
            victim,
            _listeners: (listener, stream, datagram),
            queue: create_queue(),
            posix_queue: posix_queue.filter(|name| has_made(&["create_posix_queue", name])),
            terminal,
            _terminal: keeper,
            shared_memory: NamedTempFile::new_in("/dev/shm").expect("shared memory"),
        }
    }

    /// Lets the hostile server make an attempt, and returns the outcome.
    pub(crate) fn attempt(&mut self, arguments: &Value) -> String {
        let answer = self.agent.call("hostile__attempt", arguments);
        result(&answer)["structuredContent"]["value"].as_str().expect("a text").to_owned()
    }

    pub(crate) fn place(&self) -> &Rc<Place> {
        self.daemon.place()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place().path(name)
    }

    pub(crate) fn abstract_name(&self) -> String {
        abstract_name(self.place())
    }

    /// The directory of a server at level `files`.
    pub(crate) fn private(&self, server: &str) -> PathBuf {
        self.path("home/.local/state/mcpd/servers").join(server)
    }

    /// The file with the approved definitions of a server.
    pub(crate) fn pin_file(&self, server: &str) -> PathBuf {
        until("the definitions are recorded", || {
            let directories = fs::read_dir(self.path("home/.local/state/mcpd/pins")).ok()?;
            let mut files = directories.flatten().map(|entry| entry.path().join(format!("{server}.json")));
            files.find(|path| path.exists())
        })
    }

    /// A directory in which the hostile server may create files.
    pub(crate) fn writable(&self) -> PathBuf {
        let private = self.private("hostile").join("work");
        if private.exists() { private } else { self.path("tmp") }
    }

    /// A message queue of a process outside. `None` if the system cannot create one.
    pub(crate) fn message_queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// A message queue of POSIX, of a process outside. `None` if the system cannot create one.
    pub(crate) fn posix_queue(&self) -> Option<&str> {
        self.posix_queue.as_deref()
    }

    /// Fails unless the victim received the call that the hostile server wrote into its input, or did not.
    pub(crate) fn expect_forged_call(&self, is_received: bool) {
        if is_received {
            self.daemon.wait_journal("victim", "forged");
        } else {
            let journal = self.daemon.journal("victim");
            assert!(!journal.iter().any(|line| line.contains("forged")), "{journal:?}");
        }
    }
}

fn abstract_name(place: &Place) -> String {
    format!("mcpd-escape-{}", place.tag())
}

/// The user's own files.
pub(crate) fn write_home(place: &Place) {
    place.write("home/.bashrc", "# mine\n");
    fs::create_dir(place.path("home/.ssh")).expect("a fresh directory");
    fs::create_dir_all(place.path("home/.local/state/mcpd")).expect("a fresh directory");
    place.write("home/.ssh/id_ed25519", "key\n");
    place.write("home/.netrc", json!({"password": "p"}).to_string());
}
