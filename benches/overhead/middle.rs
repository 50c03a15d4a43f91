//! The process between client and server: mcpd, or the relay that it is compared with.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::connection::{Connection, Era};
use crate::{cores, executable, floods, procfs, relay};

/// Time limit of a start or stop, which takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The runtime directory of mcpd, below the temporary directory.
const RUN: &str = "run";

/// A running mcpd or relay with its socket; killed when dropped.
pub(crate) struct Middle {
    process: Child,
    started: Instant,
    socket: PathBuf,
    directory: Rc<TempDir>,
}

impl Middle {
    /// mcpd with `servers` echo servers of `tools` tools each; the first is called `echo`.
    pub(crate) fn mcpd(servers: usize, tools: usize, core: usize) -> io::Result<Self> {
        Self::mcpd_of(Era::Legacy, servers, tools, core)
    }

    /// The same with servers of this era.
    pub(crate) fn mcpd_of(era: Era, servers: usize, tools: usize, core: usize) -> io::Result<Self> {
        let myself = std::env::current_exe()?;
        let server = format!("command = '{}'\nargs = ['{}', '{tools}']\n", myself.display(), era.mode());
        let servers: String = server_names(servers).map(|name| format!("[servers.{name}]\n{server}")).collect();
        Self::mcpd_with(&servers, core)
    }

    /// mcpd with one echo server at this level of its sandbox.
    pub(crate) fn mcpd_sandboxed(level: &str, core: usize) -> io::Result<Self> {
        let myself = std::env::current_exe()?;
        let (program, mode) = (myself.display(), Era::Legacy.mode());
        let server = format!("command = '{program}'\nargs = ['{mode}', '3']\nsandbox = '{level}'\n");
        Self::mcpd_with(&format!("[servers.echo]\n{server}"), core)
    }

    /// mcpd with this configuration.
    pub(crate) fn mcpd_with(servers: &str, core: usize) -> io::Result<Self> {
        Self::mcpd_in(&new_directory()?, servers, core)
    }

    /// mcpd with this configuration, and the files of earlier ones in this directory.
    pub(crate) fn mcpd_in(directory: &Rc<TempDir>, servers: &str, core: usize) -> io::Result<Self> {
        let config = directory.path().join("mcpd.toml");
        fs::write(&config, servers)?;
        let mut command = Command::new(executable::path());
        command.args(["serve", "--config"]).arg(config).arg("--runtime-dir").arg(directory.path().join(RUN));
        Self::start(command, Rc::clone(directory), &format!("{RUN}/mcp.sock"), core)
    }

    pub(crate) fn relay(tools: usize, core: usize) -> io::Result<Self> {
        let directory = new_directory()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(relay::MODE).arg(directory.path().join("relay.sock")).arg(tools.to_string());
        Self::start(command, directory, "relay.sock", core)
    }

    /// A process beside mcpd that accepts connections and discards what they send.
    pub(crate) fn sink(core: usize) -> io::Result<Self> {
        let directory = new_directory()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(floods::SINK_MODE).arg(directory.path().join("sink.sock"));
        Self::start(command, directory, "sink.sock", core)
    }

    fn start(mut command: Command, directory: Rc<TempDir>, socket: &str, core: usize) -> io::Result<Self> {
        // A daemon logs, so what it logs is part of its cost.
        let log = File::create(directory.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Separate directories, so that the person's files do not affect the result.
        command.env("XDG_CACHE_HOME", directory.path().join("cache"));
        command.env("XDG_STATE_HOME", directory.path().join("state"));
        let started = Instant::now();
        let process = command.spawn()?;
        cores::pin(Some(Pid::from_child(&process)), core);
        Ok(Self { process, started, socket: directory.path().join(socket), directory })
    }

    /// The command for clients that cannot open the socket.
    pub(crate) fn launched(&self) -> io::Result<Command> {
        let mut command = match self.directory.path().join(RUN) {
            run if self.socket.starts_with(&run) => {
                let mut command = Command::new(executable::path());
                command.args(["connect", "--runtime-dir"]).arg(run);
                command
            }
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(relay::LAUNCHED_MODE).arg(&self.socket);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }

    /// Whether it is mcpd, the socket of its operators.
    pub(crate) fn admin_socket(&self) -> Option<PathBuf> {
        let run = self.directory.path().join(RUN);
        self.socket.starts_with(&run).then(|| run.join("admin.sock"))
    }

    /// The socket of a profile of mcpd.
    pub(crate) fn profile_socket(&self, profile: &str) -> PathBuf {
        self.directory.path().join(RUN).join(format!("{profile}.sock"))
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The token of its loopback address.
    pub(crate) fn token(&self) -> io::Result<String> {
        let token = fs::read_to_string(self.directory.path().join("state/mcpd/tokens/default"))?;
        Ok(token.trim().to_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Time since its start.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Connects an agent as soon as possible, and returns it after its first response.
    pub(crate) fn connect(&mut self) -> io::Result<Connection> {
        let mut connection = self.connect_when_listening()?;
        connection.initialize()?;
        Ok(connection)
    }

    /// Connects an agent to the face of a server.
    pub(crate) fn connect_to_face(&mut self, server: &str) -> io::Result<Connection> {
        let mut connection = self.connect_when_listening()?;
        let params = format!(r#"{{"server":"{server}"}}"#);
        let face = format!(r#"{{"jsonrpc":"2.0","method":"notifications/mcpd/server","params":{params}}}"#);
        connection.write_raw(format!("{face}\n").as_bytes())?;
        connection.initialize()?;
        Ok(connection)
    }

    /// A connected agent that has sent nothing.
    pub(crate) fn connect_when_listening(&mut self) -> io::Result<Connection> {
        let start = Instant::now();
        loop {
            match Connection::to_socket(&self.socket) {
                Ok(connection) => return Ok(connection),
                Err(error) if start.elapsed() > TIMEOUT => return Err(error),
                Err(_) => pause(),
            }
            if self.process.try_wait()?.is_some() {
                return Err(io::Error::other(format!("it ended at once, saying:\n{}", self.log()?)));
            }
        }
    }

    fn log(&self) -> io::Result<String> {
        fs::read_to_string(self.directory.path().join("log"))
    }

    /// Sends SIGTERM and returns the time until the process and all descendants have ended.
    pub(crate) fn stop(mut self) -> io::Result<Duration> {
        let descendants = procfs::descendants(self.pid())?;
        let pid = Pid::from_child(&self.process);
        let start = Instant::now();
        kill_process(pid, Signal::TERM)?;
        while self.process.try_wait()?.is_none() || descendants.iter().any(|&pid| procfs::is_running(pid)) {
            if start.elapsed() > TIMEOUT {
                return Err(io::Error::other(format!("processes are left after SIGTERM, log:\n{}", self.log()?)));
            }
            pause();
        }
        Ok(start.elapsed())
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn new_directory() -> io::Result<Rc<TempDir>> {
    TempDir::new().map(Rc::new)
}

/// The names of the echo servers of [`Middle::mcpd`].
pub(crate) fn server_names(servers: usize) -> impl Iterator<Item = String> {
    ["echo".to_owned()].into_iter().chain((1..).map(|number| format!("echo-{number}"))).take(servers)
}

/// Sleeps for one polling interval.
#[expect(clippy::disallowed_methods, reason = "no runtime here whose thread could be held up")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_micros(100));
}
