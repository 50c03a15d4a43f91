//! A probe of the daemon: its process, and the environment and the configuration files that it sees. Source for processes and listening
//! sockets: proc(5).

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::admin::report::Report;
use crate::admin::{self, AdminError, ProcessReport};
use crate::cli::arguments::{Arguments, Command};
use crate::cli::daemon_report::{with_changed_files, with_installed_version};
use crate::cli::service_env;
use crate::config::diagnostic::Edit;
use crate::config::interpolate::{Environment, Sources};
use crate::config::{DaemonConfig, Definition, Program, ServerConfig};
use crate::daemon::without_inherit;
use crate::known_clients::shell_word;
use crate::login_env::{self, Login};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// Until a daemon has to answer. It normally takes milliseconds.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The command that gives the unit's daemon the login environment.
pub(super) const RELOAD_ENVIRONMENT: &str = "`mcpd reload --environment`";

pub(in crate::cli) struct DaemonProbe {
    /// The daemon's runtime directory; `None` if it cannot be determined.
    pub(in crate::cli) directory: Option<RuntimeDir>,
    pub(super) daemon: Daemon,
    /// The pid of the lock holder, if the kernel shows it.
    pub(super) holder: Option<u32>,
    /// The environment and files of the daemon, or of this program if there is no daemon.
    pub(in crate::cli) sources: Environment,
    /// The configuration files; empty for the default files.
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Options that make another command use the same daemon.
    options: Vec<String>,
    /// Options that make another command use the same configuration, if the user named it.
    config_options: Vec<String>,
    /// The configured servers and their places, by name. Empty if the configuration is not valid.
    pub(super) servers: HashMap<String, ConfiguredServer>,
    /// The time that agents wait for the tools of servers that start.
    pub(super) first_list_wait: Duration,
    /// The login environment, read on first use.
    login: OnceCell<Login>,
}

/// A server of the configuration.
pub(super) struct ConfiguredServer {
    pub(super) config: ServerConfig,
    pub(super) definition: Option<Definition>,
    pub(super) command: Option<WrittenValue>,
    pub(super) cwd: Option<WrittenValue>,
}

/// A value as the configuration has it.
pub(super) struct WrittenValue {
    /// As a finding of the configuration has it.
    pub(super) place: String,
    /// The replacement by what is written now, if mcpd can edit the file.
    pub(super) edit: Option<Edit>,
}

/// What has changed, or has to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The configuration.
    Configuration,
    /// Something that mcpd does not read: a program, a directory, a service.
    Elsewhere,
    /// The variables of the daemon, or what else it got when it was started.
    Environment,
    /// What only a new daemon uses.
    Program,
}

/// How the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    /// `mcpd.service` runs it.
    Unit,
    /// `mcpd start` or an agent has started it, with the login environment.
    Detached,
    /// A person or a script has started it by `mcpd serve`.
    ByHand,
    /// None answers, and doctor starts servers itself.
    Absent,
}

pub(super) enum Daemon {
    Absent,
    /// It holds the lock, or listens, but does not answer.
    Silent {
        /// The lock holder.
        process: Option<ProcessInfo>,
        reason: String,
    },
    Answers {
        process: Option<ProcessInfo>,
        report: Box<Report>,
    },
}

impl DaemonProbe {
    /// Probes the daemon in `directory`. `named`: the configuration files that the user named.
    pub(in crate::cli) async fn run(directory: Option<RuntimeDir>, options: Vec<String>, named: &[PathBuf]) -> Self {
        let (daemon, holder) = match &directory {
            Some(directory) => Daemon::probe(directory).await,
            None => (Daemon::Absent, None),
        };
        let process = daemon.process();
        let sources = process.map(environment_of).unwrap_or_default();
        let files = if named.is_empty() { process.map(served_files).unwrap_or_default() } else { named.to_vec() };
        let config_options =
            named.iter().map(|file| format!("--config {}", shell_word(&file.to_string_lossy()))).collect();
        Self {
            directory,
            daemon,
            holder,
            sources,
            files,
            options,
            config_options,
            servers: HashMap::new(),
            first_list_wait: DaemonConfig::default().first_list_wait,
            login: OnceCell::new(),
        }
    }

    /// A program in the environment and the directory of the daemon.
    pub(in crate::cli) fn command(&self, program: &Path) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program);
        if self.sources.is_daemons() {
            command.env_clear().envs(self.sources.variables(""));
        }
        if let Some(directory) = self.daemon.process().and_then(|process| process.directory.as_ref()) {
            command.current_dir(directory);
        }
        command
    }

    /// The log of a daemon that writes it into a file.
    pub(in crate::cli) fn log_file(&self) -> Option<PathBuf> {
        let process = self.daemon.process()?;
        let Command::Serve(serve) = Arguments::try_parse_from(&process.arguments).ok()?.command else { return None };
        Some(process.directory.clone().unwrap_or_default().join(serve.0.log_file?))
    }

    /// Whether the user named the runtime directory.
    pub(super) fn has_explicit_directory(&self) -> bool {
        !self.options.is_empty()
    }

    /// Like [`DaemonProbe::mcpd`], for a command that reads the configuration.
    pub(super) fn mcpd_with_files(&self, words: &str) -> String {
        let files = self.config_options.iter().map(|file| format!(" {file}")).collect::<String>();
        self.mcpd(&format!("{words}{files}"))
    }

    /// A command line of mcpd for the same daemon, in backticks.
    pub(in crate::cli) fn mcpd(&self, words: &str) -> String {
        let options = self.options.iter().map(|word| format!(" {}", shell_word(word))).collect::<String>();
        format!("`mcpd {words}{options}`")
    }

    /// The process whose PATH is searched for commands.
    pub(super) fn path_owner(&self) -> String {
        match self.daemon.process().filter(|_| self.sources.is_daemons()) {
            Some(process) => format!("the daemon (process {})", process.pid),
            None => "this shell".to_owned(),
        }
    }

    /// The command that starts the daemon.
    pub(super) fn start(&self) -> String {
        if self.config_options.is_empty() { self.mcpd("start") } else { self.mcpd_with_files("serve") }
    }

    /// The commands that restart the daemon.
    pub(super) fn restart(&self) -> String {
        let process = self.started_by_hand().filter(|_| self.config_options.is_empty());
        let start = process.map_or_else(|| self.start(), |process| format!("`{}`", command_line(&process.arguments)));
        format!("{}, then {start}", self.mcpd("stop"))
    }

    /// The daemon's process, if it was started by `mcpd serve` on a terminal, or with files that `mcpd start` would not use.
    fn started_by_hand(&self) -> Option<&ProcessInfo> {
        let is_by_hand = |process: &&ProcessInfo| process.has_terminal || !served_files(process).is_empty();
        self.daemon.process().filter(|process| !process.is_of(SERVICE)).filter(is_by_hand)
    }

    pub(super) fn host(&self) -> Host {
        match () {
            () if self.report().is_none() => Host::Absent,
            () if self.is_unit() => Host::Unit,
            () if self.started_by_hand().is_some() || !self.config_options.is_empty() => Host::ByHand,
            () => Host::Detached,
        }
    }

    /// The commands after which the server `name` uses a change: the only table of such commands.
    pub(super) fn after(&self, change: Change, name: &str) -> String {
        match (change, self.host()) {
            (_, Host::Absent) => self.mcpd_with_files(&format!("doctor {name}")),
            (Change::Configuration, _) => self.mcpd("reload"),
            (Change::Elsewhere, _) if self.has_changed_files() => self.mcpd("reload"),
            (Change::Elsewhere, _) => self.mcpd(&format!("restart {name}")),
            (Change::Environment, Host::Unit) => RELOAD_ENVIRONMENT.to_owned(),
            (Change::Environment | Change::Program, _) => self.restart(),
        }
    }

    /// How to set the variable `variable` so that the server `name` gets it.
    pub(super) fn set_variable(&self, variable: &str, name: &str) -> String {
        let place = match self.host() {
            Host::Unit | Host::Detached => format!("set `{variable}` in the profile of your login shell"),
            Host::ByHand => format!("`export {variable}=…` in the shell that starts mcpd"),
            Host::Absent => format!(
                "`export {variable}=…` in this shell, and set it in the profile of your login shell, which `mcpd start` uses"
            ),
        };
        format!("{place}; then {}", self.after(Change::Environment, name))
    }

    /// The command that checks the configuration of this daemon.
    pub(super) fn check(&self) -> String {
        let files: Vec<_> = self.files.iter().map(|file| shell_word(&file.to_string_lossy()).to_string()).collect();
        if files.is_empty() { "`mcpd check`".to_owned() } else { format!("`mcpd check {}`", files.join(" ")) }
    }

    /// Whether no daemon runs, and [`DaemonProbe::start`] starts one with the login environment.
    pub(super) fn starts_with_login_path(&self) -> bool {
        matches!(self.daemon, Daemon::Absent) && self.config_options.is_empty()
    }

    /// Whether `mcpd.service` runs the daemon.
    pub(super) fn is_unit(&self) -> bool {
        self.daemon.process().is_some_and(|process| process.is_of(SERVICE))
    }

    /// The environment of a fresh login.
    pub(super) async fn login(&self) -> &Login {
        self.login.get_or_init(|| login_env::environment(std::env::vars_os())).await
    }

    /// Where the server `name` is configured.
    pub(super) fn place(&self, name: &str) -> Option<&Definition> {
        self.servers.get(name)?.definition.as_ref()
    }

    /// The program of the server `name`; `None` for a server with a URL.
    pub(super) fn program(&self, name: &str) -> Option<&Program> {
        self.servers.get(name)?.config.launch.as_ref().ok()?.program()
    }

    /// The part of the configuration that defines the server `name`.
    pub(super) fn definition(&self, name: &str) -> String {
        match self.place(name) {
            Some(Definition { title, location: place, is_native: false, .. }) => format!("`{title}` at {place}"),
            _ => format!("[servers.{name}]"),
        }
    }

    /// Whether configuration files have changed since the daemon read them.
    pub(super) fn has_changed_files(&self) -> bool {
        self.report().is_some_and(|report| {
            let refused = report.reload_refused.iter().flat_map(|refused| &refused.files_changed);
            report.files_changed.iter().chain(refused).next().is_some()
        })
    }

    /// The report of a daemon that answers.
    pub(super) fn report(&self) -> Option<&Report> {
        match &self.daemon {
            Daemon::Answers { report, .. } => Some(report),
            Daemon::Absent | Daemon::Silent { .. } => None,
        }
    }
}

impl Daemon {
    /// The state of the daemon in `directory`, and the pid of the lock holder.
    pub(super) async fn probe(directory: &RuntimeDir) -> (Self, Option<u32>) {
        let holder = directory.lock_holder();
        let process = |pid: Option<u32>| pid.and_then(|pid| ProcessInfo::of(pid, None));
        let socket = directory.socket(ADMIN_SOCKET);
        let daemon = match timeout(ANSWER_TIMEOUT, admin::status(&socket)).await {
            Ok(Ok(report)) => {
                let reported = timeout(ANSWER_TIMEOUT, admin::process(&socket)).await;
                let process = ProcessInfo::of(report.pid, reported.ok().and_then(Result::ok));
                let report = with_installed_version(with_changed_files(report)).await;
                Self::Answers { process, report: Box::new(report) }
            }
            Ok(Err(AdminError::NotRunning(_))) if holder.is_none() => Self::Absent,
            Ok(Err(AdminError::NotRunning(_))) => {
                Self::Silent { process: process(holder), reason: format!("no process listens on {ADMIN_SOCKET}") }
            }
            Ok(Err(
                AdminError::Untrusted(reason)
                | AdminError::NotPermitted(reason)
                | AdminError::NoAnswer { reason, .. }
                | AdminError::Refused(reason)
                | AdminError::Unavailable(reason),
            )) => Self::Silent { process: process(holder), reason },
            Err(_) => {
                let reason = format!("no response within {}", crate::duration::format(ANSWER_TIMEOUT));
                Self::Silent { process: process(holder), reason }
            }
        };
        (daemon, holder)
    }

    pub(super) fn process(&self) -> Option<&ProcessInfo> {
        match self {
            Self::Absent => None,
            Self::Silent { process, .. } | Self::Answers { process, .. } => process.as_ref(),
        }
    }
}

/// The daemon's environment: as it was started, with the changes of `mcpd reload --environment` from the unit's file.
fn environment_of(process: &ProcessInfo) -> Environment {
    let sources = Environment::new(process.environment.clone(), process.directory.clone());
    let is_unit = sources.is_daemons() && process.is_of(SERVICE);
    match service_env::file().filter(|_| is_unit) {
        Some(file) => sources.with(service_env::changes(&BTreeMap::new(), &service_env::read(&file))),
        None => sources,
    }
}

/// The daemon's command line, quoted for a shell.
fn command_line(arguments: &[OsString]) -> String {
    let words = without_inherit(arguments.iter().skip(1).cloned()).into_iter().filter(|word| !word.is_empty());
    words.fold("mcpd".to_owned(), |line, word| line + " " + &shell_word(&word.to_string_lossy()))
}

/// The `--config` files of a daemon, as absolute paths.
fn served_files(process: &ProcessInfo) -> Vec<PathBuf> {
    let words = process.arguments.iter().filter(|word| !word.is_empty());
    let Ok(Arguments { command: Command::Serve(serve), .. }) = Arguments::try_parse_from(words) else {
        return Vec::new();
    };
    let directory = process.directory.clone().unwrap_or_default();
    serve.0.config.into_iter().map(|file| directory.join(file)).collect()
}

/// Follows the path of a deleted executable.
const DELETED: &str = " (deleted)";

/// A running daemon. The kernel hides some facts from other processes; these are `None` unless the daemon itself reports them.
#[derive(Debug)]
pub(super) struct ProcessInfo {
    pub(super) pid: u32,
    /// The state letter of `ps`: `T` is suspended.
    pub(super) state: Option<char>,
    /// Whether it has a controlling terminal.
    pub(super) has_terminal: bool,
    pub(super) environment: Option<BTreeMap<String, String>>,
    pub(super) directory: Option<PathBuf>,
    pub(super) executable: Option<Executable>,
    pub(super) arguments: Vec<OsString>,
    /// The name of its systemd unit.
    pub(super) unit: Option<String>,
    /// Its cgroup of version 2, below the mount point.
    pub(super) cgroup: Option<PathBuf>,
    pub(super) files: Option<OpenFiles>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Executable {
    pub(super) path: PathBuf,
    /// The file was deleted. A new one may have its path.
    pub(super) is_deleted: bool,
}

/// The number of open files, and the soft limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) count: usize,
    pub(super) limit: usize,
}

impl ProcessInfo {
    /// The process `pid`, if there is one, with the facts that it has reported about itself.
    pub(super) fn of(pid: u32, reported: Option<ProcessReport>) -> Option<Self> {
        let of = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
        let stat = fs::read(of("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let cgroups = fs::read_to_string(of("cgroup")).unwrap_or_default();
        let arguments = fs::read(of("cmdline")).unwrap_or_default();
        let limits = fs::read_to_string(of("limits")).unwrap_or_default();
        let open_files = reported.as_ref().map(|reported| reported.open_files.len());
        let (directory, executable) = reported
            .as_ref()
            .map(|reported| (reported.directory.clone(), reported.executable.clone()))
            .unwrap_or_default();
        Some(Self {
            pid,
            state: state(&stat),
            has_terminal: has_terminal(&stat),
            environment: reported.map(|reported| reported.environment),
            directory,
            executable: executable.map(Executable::of),
            arguments: arguments.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect(),
            unit: unit(&cgroups),
            cgroup: cgroups.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from),
            files: open_files.zip(file_limit(&limits)).map(|(count, limit)| OpenFiles { count, limit }),
        })
    }

    /// Whether it belongs to this systemd unit.
    pub(super) fn is_of(&self, unit: &str) -> bool {
        self.unit.as_deref() == Some(unit)
    }
}

impl Executable {
    fn of(link: PathBuf) -> Self {
        let text = link.to_string_lossy();
        match text.strip_suffix(DELETED) {
            Some(path) => Self { path: path.into(), is_deleted: true },
            None => Self { path: link, is_deleted: false },
        }
    }
}

/// Whether a process listens on the socket `path`. Unlike a connection, this check does not activate a systemd socket.
pub(super) fn is_listened_on(path: &Path) -> bool {
    fs::read_to_string("/proc/net/unix").is_ok_and(|text| listens(&text, &path.to_string_lossy()))
}

/// The state in `/proc/PID/stat`. It follows the name, which may contain any character.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether `/proc/PID/stat` names a controlling terminal, which is the fifth field after the name.
fn has_terminal(stat: &str) -> bool {
    let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    after.split(' ').nth(4).is_some_and(|terminal| terminal != "0")
}

/// The innermost service in `/proc/PID/cgroup`, other than the user's service manager.
fn unit(cgroup: &str) -> Option<String> {
    let parts = cgroup.lines().flat_map(|line| line.rsplit('/'));
    parts.into_iter().find(|part| part.ends_with(".service") && !part.starts_with("user@")).map(str::to_owned)
}

/// The soft limit in `/proc/PID/limits`.
fn file_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(usize::MAX) } else { soft.parse().ok() }
}

/// Whether `/proc/net/unix` has a socket at `path` that accepts (flag `SO_ACCEPTCON`).
fn listens(sockets: &str, path: &str) -> bool {
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(3);
        words.next() == Some("00010000") && line.ends_with(&format!(" {path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_proc_are_parsed() {
        assert_eq!(state("41 (a) b (c)) T 1 41 41 0"), Some('T'));
        assert!(!has_terminal("41 (a) b (c)) T 1 41 41 0 -1") && has_terminal("41 (a) S 1 41 41 34816 41"));
        let limits = "Limit    Soft Limit   Hard Limit   Units\nMax open files            1024                 524288               files\n";
        assert_eq!(file_limit(limits), Some(1024));
        for (path, expected) in [("/usr/bin/mcpd", ("/usr/bin/mcpd", false)), ("/a b (deleted)", ("/a b", true))] {
            let executable = Executable::of(PathBuf::from(path));
            assert_eq!((executable.path.to_str(), executable.is_deleted), (Some(expected.0), expected.1));
        }
    }

    #[test]
    fn a_process_is_of_the_innermost_service() {
        for (cgroup, expected) in [
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/mcpd.service\n", Some("mcpd.service")),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/mcpd.service/daemon\n", Some("mcpd.service")),
            ("0::/user.slice/user-7.slice/session-3.scope\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/term.scope\n", None),
            ("0::/\n", None),
        ] {
            assert_eq!(unit(cgroup).as_deref(), expected, "{cgroup}");
        }
    }

    #[test]
    fn a_socket_is_listened_on_if_it_accepts() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                       0000: 00000003 00000000 00000000 0001 03 81 /run/a b.sock\n\
                       0000: 00000002 00000000 00010000 0001 01 82 /run/mcp.sock\n";
        for (path, expected) in
            [("/run/mcp.sock", true), ("mcp.sock", false), ("/run/a b.sock", false), ("/run/mcp", false)]
        {
            assert_eq!(listens(sockets, path), expected, "{path}");
        }
    }
}
