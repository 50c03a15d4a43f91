//! `mcpd setup --undo`: gives back what `mcpd setup` has changed.

use std::process::ExitCode;

use super::daemon::{self, DaemonOutcome};
use super::record::Record;
use super::report::JsonReport;
use crate::cli::client_changes::{Action, FileReport, WriteOptions, carry_out};
use crate::cli::reload::{Scope, reload_after_edit};
use crate::cli::text::count;
use crate::cli::{CommandResult, FAILED, USAGE, block_on, fail, link, prompt, unlink};
use crate::config::interpolate::Process;
use crate::sockets::RuntimeDir;

pub(super) fn run(write: WriteOptions, directory: &RuntimeDir, report: &mut JsonReport) -> CommandResult {
    let record = Record::earlier(&Process).map_err(|error| fail(FAILED, error))?;
    let links = link::links()?;
    let changes = unlink::plan(&[], &links).map_err(|error| fail(FAILED, error))?;
    if record.is_none() && changes.is_empty() {
        print_note!("mcpd: there is nothing to undo: no client is linked, and `mcpd setup` has changed nothing");
        return Ok(ExitCode::SUCCESS);
    }
    let question = format!("Unlink {}?", count(changes.len(), "client"));
    report.clients = carry_out(changes, Action::Unlink, write, &links, Some(&question))?;
    let Some(mut record) = record else { return Ok(ExitCode::SUCCESS) };
    if write.dry_run {
        record.lines().iter().for_each(|line| print_note!("mcpd: setup would {line}"));
        return Ok(ExitCode::SUCCESS);
    }
    if !report.clients.iter().all(FileReport::is_done) {
        print_note!("mcpd: the daemon and its configuration stay, because clients are linked to them");
        return Ok(ExitCode::SUCCESS);
    }
    report.daemon = Some(daemon::undo(record.daemon(), directory)?);
    record.forget_daemon().map_err(|error| fail(FAILED, error))?;
    if !write.yes {
        if !prompt::is_possible() {
            return Err(fail(USAGE, "nothing more is done: add `--yes`, or run the command on a terminal to confirm"));
        }
        record.lines().iter().for_each(|line| print_note!("  {line}"));
        let question = "Also undo the changes to mcpd's configuration and state?";
        if !prompt::confirm(question).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: configuration and state stay; `mcpd setup --undo` asks again");
            return Ok(ExitCode::SUCCESS);
        }
    }
    report.removed = record.give_back(directory).map_err(|error| fail(FAILED, error))?;
    report.removed.iter().for_each(|path| print_note!("mcpd: {path}"));
    match report.daemon {
        // It read the configuration that is no longer there.
        Some(DaemonOutcome::Kept) if directory.is_served() => {
            block_on(reload_after_edit(directory, Scope::All, write.json))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
