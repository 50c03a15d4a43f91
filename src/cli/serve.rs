//! `mcpd serve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sd_notify::NotifyState;

use super::look::Look;
use super::{FAILED, USAGE, block_on, fail};
use crate::config::interpolate::Process;
use crate::config::{self, Loaded};
use crate::daemon;
use crate::logging::{self, Filter, Format, LogFile};
use crate::server::Cgroups;
use crate::sockets::RuntimeDir;

pub(super) fn run(
    files: &[PathBuf],
    directory: &RuntimeDir,
    filter: Option<&str>,
    (format, log_file): (Option<Format>, Option<&Path>),
    cgroups: Cgroups,
) -> ExitCode {
    // What `mcpd connect` has started was executed under another name.
    let _ = rustix::thread::set_name(c"mcpd");
    let log_file = match log_file.map(LogFile::open).transpose() {
        Ok(opened) => opened,
        Err(error) => return fail(USAGE, format!("--log-file: {error}")),
    };
    let filter = match chosen(filter) {
        Ok(filter) => filter,
        Err(refused) => return fail(USAGE, refused),
    };
    let colour = Look::of_stderr().has_colour();
    let Loaded { config, warnings, hint, files: read, .. } = match config::load(files, &Process) {
        Ok(loaded) => loaded,
        Err(error) => {
            tell!("{}", error.render(colour));
            tell_service_manager(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    for warning in warnings {
        tell!("{}", warning.render(colour));
    }
    if let Some(hint) = hint {
        tell!("{hint}");
    }
    let (log, _flush) = logging::start(filter, format, log_file);
    block_on(async {
        // The first helper, while it can still be had.
        tokio::task::spawn_blocking(|| {});
        match daemon::run(config, daemon::Files { named: files.to_vec(), read }, directory, log, cgroups).await {
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
        tell!("mcpd: RUST_LOG is passed over, and `{}` logged: {error}", filter.text());
        filter
    }))
}
