//! `mcpd serve`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use super::{FAILED, USAGE, block_on, fail};
use crate::config::interpolate::Process;
use crate::config::{self, Loaded};
use crate::daemon;
use crate::sockets::RuntimeDir;

/// Lines of log that wait for a slow stderr; further ones are dropped, so that a full pipe does not stop the daemon.
const LOG_LINES: usize = 4096;

pub(super) fn run(files: &[PathBuf], directory: &RuntimeDir) -> ExitCode {
    let colour = std::io::stderr().is_terminal();
    let Loaded { config, warnings, hint, .. } = match config::load(files, &Process) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{}", error.render(colour));
            tell_service_manager(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    for warning in warnings {
        eprintln!("{}", warning.render(colour));
    }
    if let Some(hint) = hint {
        eprintln!("{hint}");
    }
    let _flushed = log_to_stderr(colour);
    block_on(async {
        match daemon::run(config, files, directory).await {
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

fn log_to_stderr(colour: bool) -> tracing_appender::non_blocking::WorkerGuard {
    let (writer, guard) = tracing_appender::non_blocking::NonBlockingBuilder::default()
        .buffered_lines_limit(LOG_LINES)
        .lossy(true)
        .finish(std::io::stderr());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colour).with_target(false);
    // A subscriber set before, by a program that embeds the library, stays.
    let _ = log.try_init();
    guard
}
