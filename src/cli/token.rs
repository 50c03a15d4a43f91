//! `mcpd token`: prints the token that agents need at the loopback address of a profile.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::connect::warn_unknown;
use super::{CommandResult, FAILED, USAGE, completions, fail, print};
use crate::admin::{self, AdminError};
use crate::config::{Profile, is_profile_name};
use crate::http_listener::token;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Profile of the token [default: default]
    #[arg(long, value_name = "NAME", default_value = Profile::DEFAULT, hide_default_value = true, add = ArgValueCandidates::new(completions::profiles))]
    profile: String,
    /// Replace the token first; sessions and connections that use the old one end at once
    #[arg(long)]
    rotate: bool,
}

/// Prints the token alone on stdout. Needs no daemon.
pub(super) async fn run(Arguments { profile, rotate }: &Arguments, directory: Option<&RuntimeDir>) -> CommandResult {
    if !is_profile_name(profile) {
        return Err(fail(USAGE, format!("`{}` cannot name a profile", profile.escape_debug())));
    }
    let token = if *rotate { token::rotate(profile) } else { token::read_or_create(profile) };
    let token = token.map_err(|error| fail(FAILED, error))?;
    let printed = print(format!("{token}\n"));
    warn_unknown(profile, directory);
    let Some(directory) = directory.filter(|_| *rotate) else { return Ok(printed) };
    match admin::read_tokens(&directory.socket(ADMIN_SOCKET)).await {
        Ok(_) | Err(AdminError::NotRunning(_)) => Ok(printed),
        Err(error) => Err(fail(FAILED, format!("the daemon accepts the old token until it restarts: {error}"))),
    }
}
