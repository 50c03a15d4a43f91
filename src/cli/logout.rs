//! `mcpd logout`: deletes a server's login, and revokes it at the authorization server.

use std::path::PathBuf;

use clap_complete::ArgValueCandidates;

use super::login::{Files, LoginContext, after_logout};
use super::terminal::with_spinner;
use super::text::one_line;
use super::{CommandResult, FAILED, USAGE, completions, fail, print, try_print};
use crate::oauth::Logout;
use crate::sockets::RuntimeDir;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Server to log out of, even if it is no longer configured
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    #[command(flatten)]
    files: Files,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run(arguments: &Arguments, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> CommandResult {
    let name = &*arguments.server;
    let context = LoginContext::load(&arguments.files, given, directory).await?;
    let login = match context.login(name).await {
        Ok(login) => login,
        Err(reason) => context.stored(name).await.ok_or_else(|| fail(USAGE, format!("{name}: {reason}")))?,
    };
    let logged_out = with_spinner(|| format!("logging out of {name}"), login.log_out()).await;
    let Logout { was_logged_in, logs_in_again, not_revoked } =
        logged_out.map_err(|reason| fail(FAILED, format!("{name}: {}", one_line(&reason.to_string()))))?;
    if let Some(reason) = not_revoked {
        print_note!("{name}: forgotten here only: {}", one_line(&reason.to_string()));
    }
    if !was_logged_in {
        return Ok(print(format!("{name}: nobody was logged in\n")));
    }
    let again = if logs_in_again { ", until its client credentials let mcpd in again" } else { "" };
    try_print(format!("{name}: logged out{again}\n"))?;
    Ok(after_logout(&context.probe, name).await)
}
