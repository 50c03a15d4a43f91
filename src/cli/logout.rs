//! `mcpd logout`: forgets what lets mcpd in at a server, here and where it was given.

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use super::login::daemon::after_logout;
use super::login::{Files, Place};
use super::spinner::with_spinner;
use super::text::one_line;
use super::{FAILED, USAGE, completions, fail, print, try_print};
use crate::oauth::Logout;
use crate::sockets::RuntimeDir;

#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// The server, even if it is not configured any more
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    #[command(flatten)]
    files: Files,
}

/// As `mcpd login` is run.
pub(super) async fn run(wanted: &Wanted, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> ExitCode {
    let name = &*wanted.server;
    let place = match Place::look(&wanted.files, given, directory).await {
        Ok(place) => place,
        Err(code) => return code,
    };
    let login = match place.login(name).await {
        Ok(login) => login,
        Err(reason) => match place.left(name).await {
            Some(login) => login,
            None => return fail(USAGE, format!("{name}: {reason}")),
        },
    };
    let Logout { was_logged_in, logs_in_again, not_revoked } =
        match with_spinner(|| format!("logging out of {name}"), login.log_out()).await {
            Ok(forgotten) => forgotten,
            Err(reason) => return fail(FAILED, format!("{name}: {}", one_line(&reason))),
        };
    if let Some(reason) = not_revoked {
        print_note!("{name}: forgotten here only: {}", one_line(&reason));
    }
    if !was_logged_in {
        return print(format!("{name}: nobody was logged in\n"));
    }
    let again = if logs_in_again { ", until its client credentials let mcpd in again" } else { "" };
    match try_print(format!("{name}: logged out{again}\n")) {
        Ok(()) => after_logout(&place.probe, name).await,
        Err(code) => code,
    }
}
