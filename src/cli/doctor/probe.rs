//! A probe of the daemon, with the environment and the configuration files that the daemon sees.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::process::ProcessInfo;
use super::unit::RELOAD_ENVIRONMENT;
use crate::admin::report::Report;
use crate::admin::{self, AdminError};
use crate::cli::arguments::{Arguments, Command};
use crate::cli::{changed_files, service_env};
use crate::config::diagnostic::Edit;
use crate::config::interpolate::Environment;
use crate::config::{DaemonConfig, Definition, Program, ServerConfig};
use crate::known_clients::shell_word;
use crate::login_env::{self, Login};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// Until a daemon has to answer. It normally takes milliseconds.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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
                Self::Answers { process, report: Box::new(changed_files::compared(report)) }
            }
            Ok(Err(AdminError::NotRunning(_))) if holder.is_none() => Self::Absent,
            Ok(Err(AdminError::NotRunning(_))) => {
                Self::Silent { process: process(holder), reason: format!("no process listens on {ADMIN_SOCKET}") }
            }
            Ok(Err(
                AdminError::Untrusted(reason)
                | AdminError::NotPermitted(reason)
                | AdminError::NoAnswer { reason, .. }
                | AdminError::Refused(reason),
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
    let words = arguments.iter().skip(1).filter(|word| !word.is_empty());
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
