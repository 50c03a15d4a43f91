//! `mcpd serve`: runs the daemon in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use sd_notify::NotifyState;

use super::outcome::{config_failure, print_styled_note};
use super::style::OutputStyle;
use super::{CommandResult, FAILED, USAGE, block_on, fail};
use crate::autostart::OTHER_DAEMON_EXIT_CODE;
use crate::config::interpolate::Process;
use crate::daemon::DaemonLifetime;
use crate::logging::{self, Filter, Format, LogFile};
use crate::server::Cgroups;
use crate::sockets::RuntimeDir;
use crate::{config, daemon};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Configuration file: TOML, or JSON with `mcpServers`; repeatable [default: /etc/mcpd/config.toml;
    /// $XDG_CONFIG_HOME/mcpd/config.toml, else ~/.config/mcpd/config.toml; and config.d/*.toml beside it]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Vec<PathBuf>,
    /// Log filter: a level, or directives such as `info,mcpd::session=debug` [default: $RUST_LOG, else info]
    #[arg(long, alias = "log-level", value_name = "FILTER")]
    log: Option<String>,
    /// Log format on stderr [default: human; if stderr is the journal, entries with journal fields]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// Write the log and all other output to this file; at 4 MiB it is renamed to FILE.1
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,
    /// Put each server into a cgroup of its own, below the cgroup of mcpd; needs `Delegate=yes` in the unit
    #[arg(long)]
    own_cgroup: bool,
    /// A client has started this daemon, which ends after `idle_exit` without agents
    #[arg(long, hide = true)]
    while_used: bool,
    /// Its standard input has the descriptors of the program before this one in the same process
    #[arg(long, hide = true)]
    inherit: bool,
}

pub(super) fn run(serve: &Serve, directory: &RuntimeDir) -> CommandResult {
    // `mcpd connect` starts the daemon under another name.
    let _ = rustix::thread::set_name(c"mcpd");
    let log_file = serve.log_file.as_deref().map(LogFile::open).transpose();
    let log_file = log_file.map_err(|error| fail(USAGE, format!("--log-file: {error}")))?;
    let cgroups = if serve.own_cgroup { Cgroups::of_own(serve.inherit) } else { Cgroups::default() };
    let filter = log_filter(serve.log.as_deref())?;
    let loaded = config::load(&serve.config, &Process).map_err(|error| {
        let code = config_failure(&error);
        notify_service_manager(&error.to_string());
        code
    })?;
    let colour = OutputStyle::of_stderr().has_colour();
    for warning in &loaded.warnings {
        print_styled_note(&(warning.render(colour) + "\n"));
    }
    if let Some(hint) = &loaded.hint {
        print_note!("{hint}");
    }
    // The log and files are written by threads, so the daemon needs at least one.
    if let Err(error) = std::thread::Builder::new().spawn(|| {}) {
        let advice = "raise the limit on processes (`ulimit -u`)";
        return Err(fail(FAILED, format!("cannot start a thread: {error}; {advice}")));
    }
    let (log, flush) = logging::start(filter, serve.log_format, log_file);
    let successor = block_on(async {
        // Starts the first blocking thread while the system still grants one.
        tokio::task::spawn_blocking(|| {});
        let lifetime = if serve.while_used { DaemonLifetime::WhileUsed } else { DaemonLifetime::UntilStopped };
        let files = serve.config.clone();
        let ended = daemon::run(loaded, files, directory, log, cgroups, lifetime, serve.inherit).await;
        ended.map_err(|error| {
            notify_service_manager(&error.to_string());
            fail(if error.is_other_daemon() { OTHER_DAEMON_EXIT_CODE } else { FAILED }, error)
        })
    })?;
    // Writes the rest of the log.
    drop(flush);
    let Some(successor) = successor else { return Ok(ExitCode::SUCCESS) };
    let error = successor.start(|program, error| {
        print_note!("error: cannot run {}: {error}; the former program runs again", program.display());
    });
    Err(fail(FAILED, format!("cannot restart: {error}")))
}

/// Shows the error and its place in `systemctl status`.
fn notify_service_manager(error: &str) {
    let message: Vec<_> = error.lines().take(2).map(str::trim).collect();
    let _ = sd_notify::notify(&[NotifyState::Status(&message.join(" "))]);
}

/// `--log`, else `RUST_LOG`, else the default.
fn log_filter(given: Option<&str>) -> Result<Filter, ExitCode> {
    if let Some(given) = given {
        return Filter::parse(given).map_err(|error| fail(USAGE, format!("--log: {error}")));
    }
    let Some(text) = std::env::var_os("RUST_LOG").filter(|text| !text.is_empty()) else { return Ok(Filter::default()) };
    Ok(Filter::parse(&text.to_string_lossy()).unwrap_or_else(|error| {
        // The variable may be meant for another program.
        let filter = Filter::default();
        print_note!("mcpd: RUST_LOG is ignored, and `{}` is logged: {error}", filter.text());
        filter
    }))
}
