//! `mcpd serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use sd_notify::NotifyState;

use super::outcome::print_styled_note;
use super::style::OutputStyle;
use super::{FAILED, USAGE, block_on, fail};
use crate::config;
use crate::config::interpolate::Process;
use crate::daemon;
use crate::logging::{self, Filter, Format, LogFile};
use crate::server::Cgroups;
use crate::sockets::RuntimeDir;

/// What the daemon is told.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Configuration, TOML or JSON with `mcpServers`; repeatable [default: /etc/mcpd/config.toml, ~/.config/mcpd/config.toml and config.d/*.toml beside it]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Vec<PathBuf>,
    /// What is logged: a level, or parts such as `info,mcpd::session=debug` [default: $RUST_LOG, else info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How it looks on stderr [default: human; if stderr is the journal, entries with fields of the journal's own]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// Write it, and all else that is printed, to this file, which becomes FILE.1 when it has 4 MiB
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Divide the cgroup that mcpd is started in among servers with limits: it is mcpd's own (systemd's `Delegate=`)
    #[arg(long)]
    own_cgroup: bool,
}

pub(super) fn run(wanted: &Serve, directory: &RuntimeDir) -> ExitCode {
    // What `mcpd connect` has started was executed under another name.
    let _ = rustix::thread::set_name(c"mcpd");
    let log_file = match wanted.log_file.as_deref().map(LogFile::open).transpose() {
        Ok(opened) => opened,
        Err(error) => return fail(USAGE, format!("--log-file: {error}")),
    };
    let cgroups = if wanted.own_cgroup { Cgroups::of_own() } else { Cgroups::default() };
    let filter = match chosen(wanted.log.as_deref()) {
        Ok(filter) => filter,
        Err(refused) => return fail(USAGE, refused),
    };
    let colour = OutputStyle::of_stderr().has_colour();
    let loaded = match config::load(&wanted.config, &Process) {
        Ok(loaded) => loaded,
        Err(error) => {
            print_styled_note(&(error.render(colour) + "\n"));
            tell_service_manager(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    for warning in &loaded.warnings {
        print_styled_note(&(warning.render(colour) + "\n"));
    }
    if let Some(hint) = &loaded.hint {
        print_note!("{hint}");
    }
    // The log is written by a thread, and so are files: without any there is no daemon.
    if let Err(error) = std::thread::Builder::new().spawn(|| {}) {
        return fail(FAILED, format!("cannot start a thread: {error}; raise the limit on processes (`ulimit -u`)"));
    }
    let (log, _flush) = logging::start(filter, wanted.log_format, log_file);
    block_on(async {
        // The first helper, while it can still be had.
        tokio::task::spawn_blocking(|| {});
        match daemon::run(loaded, wanted.config.clone(), directory, log, cgroups).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tell_service_manager(&error.to_string());
                fail(FAILED, error)
            }
        }
    })
}

/// Has `systemctl status` say why: the message, and the place if there is one. Without a service manager there is nobody
/// to tell.
fn tell_service_manager(error: &str) {
    let message: Vec<_> = error.lines().take(2).map(str::trim).collect();
    let _ = sd_notify::notify(&[NotifyState::Status(&message.join(" "))]);
}

/// The filter that was given, else what the environment says, else the default.
fn chosen(given: Option<&str>) -> Result<Filter, String> {
    if let Some(given) = given {
        return Filter::parse(given).map_err(|error| format!("--log: {error}"));
    }
    let Some(said) = std::env::var_os("RUST_LOG").filter(|said| !said.is_empty()) else { return Ok(Filter::default()) };
    Ok(Filter::parse(&said.to_string_lossy()).unwrap_or_else(|error| {
        // It may be meant for another program.
        let filter = Filter::default();
        print_note!("mcpd: RUST_LOG is passed over, and `{}` logged: {error}", filter.text());
        filter
    }))
}
