//! `mcpd service`: mcpd as a unit of the user's systemd.

mod files;
mod install;
mod linger;
mod manager;
mod path;
mod probe;
mod rollback;
mod status;
mod uninstall;
mod units;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(super) use self::manager::{shown, variable};
pub(super) use self::path::lasting;
use super::{USAGE, block_on, fail};
use crate::sockets::{RuntimeDir, SocketError};

/// What is to be done with the unit.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the units for this user, start mcpd by them now and at each login, and say what was done
    ///
    /// To be run again after an upgrade or when the PATH of the login shell has changed. Variables that servers need are
    /// found in the login environment and kept in a file of mode 0600; only their names are shown; what does not differ is left alone. A unit
    /// that a person has changed is kept beside the new one, as NAME.old.
    Install(Install),
    /// Stop mcpd and remove the units that were written; the configuration stays
    Uninstall {
        /// Print what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Say whether mcpd runs as a unit, and what of that is out of date
    ///
    /// Exits with 0 if it runs and nothing is, with 1 if something is, with 3 if it does not run.
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Install {
    /// Print what would be written and done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Confine mcpd and all its servers, too: systemd/hardened.conf; undone if mcpd does not start with it
    #[arg(long)]
    hardened: bool,
    /// Take the confinement of --hardened away again
    #[arg(long, conflicts_with = "hardened")]
    no_hardened: bool,
    /// Have mcpd run from the machine's start, without anybody logged in (loginctl enable-linger)
    #[arg(long, conflicts_with = "no_linger")]
    linger: bool,
    /// Have it run while somebody is logged in, and do not ask
    #[arg(long)]
    no_linger: bool,
}

pub(super) fn run(arguments: &Arguments, directory: Result<RuntimeDir, SocketError>) -> ExitCode {
    let directory = match directory {
        Ok(directory) if directory.is_given() => {
            let why =
                "units serve where agents look by themselves: leave --runtime-dir out, or run `mcpd serve` with it";
            return fail(USAGE, why);
        }
        Ok(directory) => directory,
        Err(error) => return fail(USAGE, error),
    };
    match &arguments.what {
        What::Install(wanted) => block_on(install::run(&directory, wanted)),
        What::Uninstall { dry_run } => block_on(uninstall::run(&directory, *dry_run)),
        What::Status { json } => block_on(status::run(&directory, *json)),
    }
}
