//! `mcpd service`: runs mcpd as a unit of the user's systemd.

mod install;
mod manager;
pub(super) mod status;
mod uninstall;
mod units;

use clap::{Args, Subcommand};

pub(super) use self::manager::shown;
use super::{CommandResult, FAILED, fail};
use crate::sockets::RuntimeDir;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Install systemd units for this user, and start mcpd now and at each login
    ///
    /// Run it again after an upgrade, or when the PATH of the login shell has changed; it changes only what differs. Variables that
    /// servers need are read from the login environment and saved in a file with mode 0600; only their names are printed. A unit
    /// that you have edited is saved as NAME.old.
    Install(Install),
    /// Stop mcpd and remove its units; the configuration stays
    Uninstall {
        /// Print the steps without running them
        #[arg(long)]
        dry_run: bool,
    },
    /// Show whether mcpd runs as a unit, and what is out of date
    ///
    /// Exit codes: 0 it runs and is up to date, 1 something is out of date, or the service manager does not answer,
    /// 3 it does not run.
    Status {
        /// Print the state as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Install {
    /// Print the changes and steps without applying them
    #[arg(long)]
    dry_run: bool,
    /// Also sandbox mcpd and all its servers, by a drop-in of the unit; the drop-in is removed if mcpd does not start with it
    #[arg(long)]
    hardened: bool,
    /// Remove the sandbox of --hardened
    #[arg(long, conflicts_with = "hardened")]
    no_hardened: bool,
    /// Run mcpd from boot, even while you are not logged in (loginctl enable-linger)
    #[arg(long, alias = "yes", short_alias = 'y', conflicts_with = "no_linger")]
    linger: bool,
    /// Run mcpd only while you are logged in, and do not ask
    #[arg(long)]
    no_linger: bool,
}

/// Whether the user has a service manager that answers.
pub(super) async fn is_available(directory: &RuntimeDir) -> bool {
    manager::Manager::find(directory).await.is_ok()
}

pub(super) async fn run(arguments: &Arguments, directory: &RuntimeDir) -> CommandResult {
    let outcome = match &arguments.what {
        What::Install(options) => install::run(directory, options).await,
        What::Uninstall { dry_run } => uninstall::run(directory, *dry_run).await,
        What::Status { json } => status::run(directory, *json).await,
    };
    outcome.map_err(|why| fail(FAILED, why))
}
