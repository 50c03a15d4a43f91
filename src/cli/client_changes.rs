//! Changes of clients' files: shown as a difference, confirmed, written, and reported. `mcpd link`, `mcpd unlink` and `mcpd setup` make them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::outcome::try_print_report;
use super::style::OutputStyle;
use super::text::{count, join_limited, one_line};
use super::{FAILED, USAGE, diff, fail, prompt, try_print};
use crate::config::interpolate::Process;
use crate::known_clients::Client;
use crate::links::{EditorCommand, FileChange, Links, Scope};

/// Names that one line has.
const MAX_NAMED: usize = 8;

// A doc comment here would replace the help text of the commands.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct WriteOptions {
    /// Write without confirmation
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Show the changes, and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print the result as JSON instead of the differences
    #[arg(long)]
    pub(super) json: bool,
}

/// What is done to the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Link,
    Unlink,
}

/// The changes for one client.
pub(super) struct ClientChange {
    pub(super) client: &'static Client,
    /// The changes of its files, or the file that cannot be changed and why.
    pub(super) planned: Result<Vec<FileChange>, (PathBuf, String)>,
    /// What the user adds by hand if mcpd cannot write.
    pub(super) by_hand: Option<String>,
}

/// What happened to one file of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum FileOutcome {
    /// It was written.
    Written,
    /// It is already as wanted.
    Unchanged,
    /// With `--dry-run`: it would be written.
    Planned,
    /// The user declined.
    Declined,
    /// It is as it was: `reason` says why.
    Failed,
}

/// One file of a client, and what happened to it.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FileReport {
    /// The client, as on the command line.
    client: &'static str,
    /// Path of the file.
    file: PathBuf,
    /// What happened to it.
    pub(super) outcome: FileOutcome,
    /// Names of mcpd's entries in the file; with `mcpd unlink`, of those that go.
    entries: Vec<String>,
    /// Servers that the client does not start any more.
    taken_over: Vec<String>,
    /// Why it failed.
    reason: Option<String>,
}

/// Files of clients, and what happened to each.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// The files.
    files: &'a [FileReport],
}

impl FileReport {
    pub(super) fn is_written(&self) -> bool {
        self.outcome == FileOutcome::Written
    }

    /// Whether the file is as wanted.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, FileOutcome::Written | FileOutcome::Unchanged)
    }
}

impl Action {
    /// The sentence for a change that was made.
    fn done(self, client: &Client, change: &FileChange) -> String {
        let (title, file) = (client.title, change.path.display());
        let names = join_limited(change.names(), MAX_NAMED);
        match self {
            Self::Unlink if change.deletes() => format!("{title} is unlinked: {file}, which mcpd had made, is removed"),
            Self::Unlink if change.restores() => format!("{title} is unlinked: {file} is as it was"),
            Self::Unlink => format!("{title} is unlinked: {names} is removed from {file}"),
            Self::Link if change.names().is_empty() => format!("{title}: {file} is written"),
            Self::Link => format!("{title} is linked: {names} is in {file}"),
        }
    }

    /// The sentence for a client without a change.
    fn unchanged(self, client: &Client) -> String {
        match self {
            Self::Link => format!("{} is linked already", client.title),
            Self::Unlink => format!("{} is not linked", client.title),
        }
    }

    fn question(self, client: &Client, changes: &[FileChange]) -> String {
        let verb = if self == Self::Link { "Link" } else { "Unlink" };
        let file = |change: &FileChange| {
            let path = one_line(&change.path.display().to_string());
            if change.is_read_only() { format!("{path}, which is read-only") } else { path }
        };
        let files: Vec<_> = changes.iter().filter(|change| change.is_due()).map(file).collect();
        format!("{verb} {} ({})?", client.title, files.join("; "))
    }
}

/// Shows the changes, asks for each client, or once with `question`, and makes them. Prints all but the report.
///
/// # Errors
/// If it could not ask.
pub(super) fn carry_out(
    changes: Vec<ClientChange>,
    action: Action,
    options: WriteOptions,
    links: &Links,
    question: Option<&str>,
) -> Result<Vec<FileReport>, ExitCode> {
    let mut reports = Vec::new();
    let (mut due, mut may_write) = (Vec::new(), None);
    for ClientChange { client, planned, by_hand } in changes {
        match planned {
            Err((file, reason)) => reports.push(failure(client, file, reason, by_hand.as_deref())),
            Ok(planned) => match planned.iter().any(FileChange::is_due) {
                true => due.push((client, planned, by_hand)),
                false => {
                    print_note!("mcpd: {}", action.unchanged(client));
                    reports.extend(planned.iter().map(|change| report(change, FileOutcome::Unchanged)));
                    for change in planned.into_iter().filter(|change| change.is_forgotten() && !options.dry_run) {
                        change.write(links, None).map_err(|error| fail(FAILED, error))?;
                    }
                }
            },
        }
    }
    if due.is_empty() {
        return Ok(reports);
    }
    // Without a terminal, all differences are shown before the command ends.
    let asks = !options.yes && !options.dry_run;
    let shows_first = question.is_some() || asks && !prompt::is_possible();
    if shows_first {
        for (_, planned, _) in &due {
            show(planned, options)?;
        }
    }
    if asks && !prompt::is_possible() {
        return Err(fail(USAGE, "nothing is written: add `--yes`, or run the command on a terminal to confirm"));
    }
    if let (Some(question), true) = (question, asks) {
        may_write = Some(prompt::confirm_default(question).map_err(|error| fail(FAILED, error))?);
    }
    for (client, planned, by_hand) in due {
        if !shows_first {
            show(&planned, options)?;
        }
        if options.dry_run {
            reports.extend(planned.iter().map(|change| report(change, planned_outcome(change))));
            continue;
        }
        let may_write = match may_write {
            Some(may_write) => may_write,
            None if options.yes => true,
            None => prompt::confirm(&action.question(client, &planned)).map_err(|error| fail(FAILED, error))?,
        };
        if !may_write {
            print_note!("mcpd: {} stays as it is", client.title);
            reports.extend(planned.iter().map(|change| report(change, FileOutcome::Declined)));
            continue;
        }
        reports.extend(planned.into_iter().map(|change| write(change, action, links, by_hand.as_deref())));
    }
    if options.dry_run {
        print_note!("mcpd: nothing is written");
    }
    Ok(reports)
}

fn planned_outcome(change: &FileChange) -> FileOutcome {
    if change.is_due() { FileOutcome::Planned } else { FileOutcome::Unchanged }
}

/// Prints the differences of the files, without secrets.
fn show(planned: &[FileChange], options: WriteOptions) -> Result<(), ExitCode> {
    for change in planned.iter().filter(|change| change.is_due() && !options.json) {
        let (old, new) = change.texts();
        try_print(diff::masked(old, new, &change.path, OutputStyle::of_stdout().has_colour()))?;
    }
    Ok(())
}

fn report(change: &FileChange, outcome: FileOutcome) -> FileReport {
    let (entries, taken_over) = (change.names().to_vec(), change.taken_over.clone());
    FileReport { client: change.client.word, file: change.path.clone(), outcome, entries, taken_over, reason: None }
}

fn failure(client: &'static Client, file: PathBuf, reason: String, by_hand: Option<&str>) -> FileReport {
    print_note!("mcpd: {}: {reason}", client.title);
    if let Some(by_hand) = by_hand {
        print_note!("  help: add this by hand:\n{by_hand}");
    }
    let (entries, taken_over) = (Vec::new(), Vec::new());
    FileReport { client: client.word, file, outcome: FileOutcome::Failed, entries, taken_over, reason: Some(reason) }
}

fn write(change: FileChange, action: Action, links: &Links, by_hand: Option<&str>) -> FileReport {
    let (client, path) = (change.client, change.path.clone());
    let is_due = change.is_due();
    let done = action.done(client, &change);
    let taken_over = change.taken_over.clone();
    let outcome = if is_due { FileOutcome::Written } else { FileOutcome::Unchanged };
    let written = report(&change, outcome);
    // No instance of a client rewrites the file of a project.
    let command = Some(client).filter(|_| change.scope == Scope::User);
    let command = command.and_then(|client| EditorCommand::find(client, &Process));
    match change.write(links, command.as_ref()) {
        Ok(()) if is_due => {
            print_note!("mcpd: {done}");
            if !taken_over.is_empty() {
                let servers = count(taken_over.len(), "server");
                print_note!("  {servers} taken over: {}", one_line(&join_limited(&taken_over, MAX_NAMED)));
            }
            written
        }
        Ok(()) => written,
        Err(error) => failure(client, path, error.to_string(), by_hand),
    }
}

/// Prints the report as JSON if that is wanted. The exit code is 1 if a file could not be changed.
pub(super) fn finish(reports: &[FileReport], options: WriteOptions) -> Result<ExitCode, ExitCode> {
    if options.json {
        try_print_report(&JsonReport { files: reports })?;
    }
    let failed = reports.iter().any(|report| report.outcome == FileOutcome::Failed);
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// The paths without those that occur twice.
pub(super) fn distinct(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths {
        let is_known = all.iter().any(|known| is_same(known, &path));
        if !is_known {
            all.push(path);
        }
    }
    all
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
