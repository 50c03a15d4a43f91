//! What all checks look at: the daemon, if there is one, and the probe as it sees that.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::process::Seen;
use crate::admin::report::Report;
use crate::admin::{self, AskError};
use crate::cli::arguments::{Arguments, Command};
use crate::cli::{changed_files, service_env};
use crate::config::Definition;
use crate::config::interpolate::Environment;
use crate::known_clients::shell_word;
use crate::login_env::{self, Login};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// A daemon answers within milliseconds; one that takes this long is stuck.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// What all checks look at.
pub(in crate::cli) struct DaemonProbe {
    /// Where the daemon is looked for; `None` if nothing tells.
    pub(in crate::cli) directory: Option<RuntimeDir>,
    pub(super) daemon: Daemon,
    /// Who holds the lock, as far as that can be seen from here.
    pub(super) holder: Option<u32>,
    /// The environment and the files as the daemon sees them; without one, as this program does.
    pub(in crate::cli) sources: Environment,
    /// What the configuration is read from; nothing in particular: the default files.
    pub(in crate::cli) files: Vec<PathBuf>,
    /// What a command line needs for the same daemon.
    options: Vec<String>,
    /// What one needs for the same configuration, where a person has named it.
    named: Vec<String>,
    /// Where servers are configured, by their names, as far as that is known.
    pub(super) definitions: HashMap<String, Definition>,
    /// The login environment, once a check has requested it.
    login: OnceCell<Login>,
}

/// Whether there is a daemon.
pub(super) enum Daemon {
    Absent,
    /// It holds the lock, or listens, and does not answer.
    Silent {
        /// Who holds the lock.
        process: Option<Seen>,
        reason: String,
    },
    Answers {
        process: Option<Seen>,
        report: Box<Report>,
    },
}

impl DaemonProbe {
    /// Looks at the daemon in `directory`. `named` are the files of the configuration that a person has named, if any.
    pub(in crate::cli) async fn run(directory: Option<RuntimeDir>, options: Vec<String>, named: &[PathBuf]) -> Self {
        let (daemon, holder) = match &directory {
            Some(directory) => Daemon::probe(directory).await,
            None => (Daemon::Absent, None),
        };
        let process = daemon.process();
        let sources = process.map(environment_of).unwrap_or_default();
        let files = if named.is_empty() { process.map(served).unwrap_or_default() } else { named.to_vec() };
        let named = named.iter().map(|file| format!("--config {}", shell_word(&file.to_string_lossy()))).collect();
        Self {
            directory,
            daemon,
            holder,
            sources,
            files,
            options,
            named,
            definitions: HashMap::new(),
            login: OnceCell::new(),
        }
    }

    /// Whether a person has said where the daemon is.
    pub(super) fn is_told_where(&self) -> bool {
        !self.options.is_empty()
    }

    /// As [`DaemonProbe::mcpd`], for a command that reads the configuration.
    pub(super) fn mcpd_with_files(&self, words: &str) -> String {
        let files = self.named.iter().map(|file| format!(" {file}")).collect::<String>();
        self.mcpd(&format!("{words}{files}"))
    }

    /// The command line that has mcpd do this to the same daemon, in backticks.
    pub(in crate::cli) fn mcpd(&self, words: &str) -> String {
        let options = self.options.iter().map(|word| format!(" {}", shell_word(word))).collect::<String>();
        format!("`mcpd {words}{options}`")
    }

    /// The command that starts the daemon.
    pub(super) fn start(&self) -> String {
        if self.named.is_empty() { self.mcpd("start") } else { self.mcpd_with_files("serve") }
    }

    /// The commands that replace the daemon by another one.
    pub(super) fn restart(&self) -> String {
        let served = self.served_by_hand().filter(|_| self.named.is_empty());
        let start = served.map_or_else(|| self.start(), |process| format!("`{}`", command_line(&process.arguments)));
        format!("{}, then {start}", self.mcpd("stop"))
    }

    /// Whether a daemon that [`DaemonProbe::restart`] starts has the environment of this shell, not of the login.
    pub(super) fn restarts_from_this_shell(&self) -> bool {
        !self.named.is_empty() || self.served_by_hand().is_some()
    }

    /// The daemon, if `mcpd serve` was run with files that `mcpd start` does not know of.
    fn served_by_hand(&self) -> Option<&Seen> {
        self.daemon.process().filter(|process| !process.is_of(SERVICE) && !served(process).is_empty())
    }

    /// Whether `mcpd.service` runs the daemon.
    pub(super) fn is_unit(&self) -> bool {
        self.daemon.process().is_some_and(|process| process.is_of(SERVICE))
    }

    /// The environment of a fresh login.
    pub(super) async fn login(&self) -> &Login {
        self.login.get_or_init(|| login_env::environment(std::env::vars_os())).await
    }

    /// What to edit to change the definition of the server `name`.
    pub(super) fn definition(&self, name: &str) -> String {
        match self.definitions.get(name) {
            Some(Definition { title, location: place, is_native: false }) => format!("`{title}` at {place}"),
            _ => format!("[servers.{name}]"),
        }
    }

    /// Whether files of the configuration have changed since the daemon read them.
    pub(super) fn has_changed_files(&self) -> bool {
        self.report().is_some_and(|report| {
            let refused = report.reload_refused.iter().flat_map(|refused| &refused.files_changed);
            report.files_changed.iter().chain(refused).next().is_some()
        })
    }

    /// What is known of the servers of a daemon that answers.
    pub(super) fn report(&self) -> Option<&Report> {
        match &self.daemon {
            Daemon::Answers { report, .. } => Some(report),
            Daemon::Absent | Daemon::Silent { .. } => None,
        }
    }
}

impl Daemon {
    /// Asks the daemon in `directory` how it is; tells also who holds the lock there.
    pub(super) async fn probe(directory: &RuntimeDir) -> (Self, Option<u32>) {
        let holder = directory.lock_holder();
        let process = |pid: Option<u32>| pid.and_then(Seen::of);
        let daemon = match timeout(ANSWER, admin::status(&directory.socket(ADMIN_SOCKET))).await {
            Ok(Ok(report)) => {
                let process = process(Some(report.pid));
                Self::Answers { process, report: Box::new(changed_files::compared(report)) }
            }
            Ok(Err(AskError::NotRunning(_))) if holder.is_none() => Self::Absent,
            Ok(Err(AskError::NotRunning(_))) => {
                Self::Silent { process: process(holder), reason: format!("nobody listens on {ADMIN_SOCKET}") }
            }
            Ok(Err(AskError::NoAnswer(reason) | AskError::Refused(reason))) => {
                Self::Silent { process: process(holder), reason }
            }
            Err(_) => {
                let reason = format!("nothing within {}", crate::duration::format(ANSWER));
                Self::Silent { process: process(holder), reason }
            }
        };
        (daemon, holder)
    }

    pub(super) fn process(&self) -> Option<&Seen> {
        match self {
            Self::Absent => None,
            Self::Silent { process, .. } | Self::Answers { process, .. } => process.as_ref(),
        }
    }
}

/// What a daemon was started with. What `mcpd reload --environment` has changed since is in the file of its unit.
fn environment_of(process: &Seen) -> Environment {
    let sources = Environment::new(process.environment.clone(), process.directory.clone());
    let is_unit = sources.is_daemons() && process.is_of(SERVICE);
    match service_env::file().filter(|_| is_unit) {
        Some(file) => sources.with(service_env::changes(&BTreeMap::new(), &service_env::read(&file))),
        None => sources,
    }
}

/// The command line of a daemon, for a shell.
fn command_line(arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(1).filter(|word| !word.is_empty());
    words.fold("mcpd".to_owned(), |line, word| line + " " + &shell_word(&word.to_string_lossy()))
}

/// The files that a daemon was told to serve, as whole paths.
fn served(process: &Seen) -> Vec<PathBuf> {
    let words = process.arguments.iter().filter(|word| !word.is_empty());
    let Ok(Arguments { command: Command::Serve(serve), .. }) = Arguments::try_parse_from(words) else {
        return Vec::new();
    };
    let directory = process.directory.clone().unwrap_or_default();
    serve.config.into_iter().map(|file| directory.join(file)).collect()
}
