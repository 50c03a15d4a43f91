//! `mcpd setup`: imports the servers of the clients, has a daemon run, and links the clients; `--undo` gives everything back.
//!
//! Each step is also a separate command, and does nothing if its work is already done. `record` stores what was there before.

mod daemon;
mod record;
pub(super) mod report;
mod undo;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use self::record::{Before, Record};
use self::report::JsonReport;
use super::agent::ProfileArg;
use super::client_changes::{Action, FileOutcome, FileReport, WriteOptions, carry_out};
use super::client_entries::{Entries, EntryOptions};
use super::import::{self, Import, Imported};
use super::link::{self, Request, TakeOver};
use super::outcome::try_print_report;
use super::text::count;
use super::{CommandResult, FAILED, fail};
use crate::config::Profile;
use crate::config::interpolate::Process;
use crate::links::Scope;
use crate::sockets::RuntimeDir;

#[derive(Debug, Args)]
pub(super) struct Setup {
    /// Undo it: unlink all clients, remove the unit or stop the daemon, and, after a question, remove what setup wrote of configuration and
    /// state
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    write: WriteOptions,
}

pub(super) fn run(setup: &Setup, given: Option<&Path>, directory: &RuntimeDir) -> CommandResult {
    let mut report = JsonReport::default();
    let done = match setup.undo {
        true => undo::run(setup.write, directory, &mut report),
        false => set_up(setup.write, given, directory, &mut report),
    };
    if setup.write.json {
        try_print_report(&report)?;
    }
    let code = done?;
    let failed = report.clients.iter().any(|client| client.outcome == FileOutcome::Failed);
    Ok(if failed { ExitCode::from(FAILED) } else { code })
}

fn set_up(write: WriteOptions, given: Option<&Path>, directory: &RuntimeDir, report: &mut JsonReport) -> CommandResult {
    let before = Before::look(directory).map_err(|error| fail(FAILED, error))?;
    let mut record = Record::open(&Process, before).map_err(|error| fail(FAILED, error))?;

    print_note!("servers:");
    let import = Import::all(write);
    let imported = import::import_servers(&import, |text, secrets| record.imports(text, secrets))?;
    let Imported { code, config, .. } = &imported;
    let (mut code, take_over) =
        (*code, config.as_ref().map(|config| TakeOver::of(config, Profile::DEFAULT)).transpose()?);
    if imported.report.written {
        let applied = imported.apply(&import, directory)?;
        code = if applied == ExitCode::SUCCESS { code } else { applied };
    }
    report.import = Some(imported.report);

    print_note!("\ndaemon:");
    let daemon = daemon::run(write, directory, given, |outcome| record.served(outcome))?;
    report.daemon = Some(daemon);

    print_note!("\nclients:");
    let profile = ProfileArg::default();
    let options =
        EntryOptions { profile: &profile, server: None, each: false, http: false, given, directory: Some(directory) };
    let (entries, served) = (Entries::new(options)?, link::served(&profile, Some(directory)));
    let request = Request { clients: &[], entries, served, scope: Scope::User, take_over };
    let links = link::links()?;
    let changes = link::plan(&request, &links)?;
    let clients = changes.len();
    let question = format!("Link {}?", count(clients, "client"));
    report.clients = carry_out(changes, Action::Link, write, &links, Some(&question))?;
    let changed = report.clients.iter().any(FileReport::is_written);
    match (write.dry_run, changed) {
        (true, _) => {}
        (false, true) => print_note!(
            "\nnext: start your clients again; `mcpd status` shows them, `mcpd setup --undo` gives everything back"
        ),
        (false, false) => {
            print_note!("\nnext: `mcpd status` shows servers and agents, `mcpd setup --undo` gives everything back")
        }
    }
    Ok(code)
}
