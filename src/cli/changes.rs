//! `mcpd diff`: definitions of servers that are not approved, compared with the approved ones.

pub(super) mod page;
mod values;
mod words;

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use self::page::Extent;
use super::outcome::try_print_report;
use super::style::OutputStyle;
use super::terminal::with_spinner;
use super::text::pin_file_problem;
use super::{CommandResult, FAILED, admin_failure, completions, try_print};
use crate::admin;
use crate::admin::report::{ChangeReport, ChangesServer, ChangesSummary};
use crate::pins::canonical::canonical;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// Only this server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: Option<String>,
    /// Exit with 1 if there is a difference
    #[arg(long)]
    exit_code: bool,
    /// Print the whole definitions as JSON
    #[arg(long)]
    json: bool,
}

/// Definitions that are not approved.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// The servers that were compared, in file order.
    servers: &'a [ChangesServer],
    /// What is not approved.
    changes: &'a [ChangeReport],
}

pub(super) async fn run(directory: &RuntimeDir, diff: &Diff) -> CommandResult {
    let (changes, servers) = request(directory, diff.server.as_deref()).await?;
    if diff.json {
        try_print_report(&JsonReport { servers: &servers, changes: &changes })?;
    } else {
        let shown: Vec<_> = changes.iter().collect();
        if show(&shown, Extent::Fitting)?.is_cut {
            print_note!("mcpd: some texts are cut: in a pipe, such as `mcpd diff | less`, they are whole");
        }
        note_problems(&servers);
        note_unchanged(&changes, &servers, diff.server.is_some());
    }
    let has_changes = !changes.is_empty();
    Ok(if diff.exit_code && has_changes { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// The definitions of one server, or of all, that are not approved, and the servers.
///
/// # Errors
/// The exit code, if the daemon does not answer or does not know the server.
pub(super) async fn request(
    directory: &RuntimeDir,
    server: Option<&str>,
) -> Result<(Vec<ChangeReport>, Vec<ChangesServer>), ExitCode> {
    let socket = directory.socket(ADMIN_SOCKET);
    let requested = admin::changes(&socket, server);
    let requested = with_spinner(|| "reading definitions".to_owned(), requested).await;
    let (mut changes, ChangesSummary { servers }) = requested.map_err(|error| admin_failure(&error))?;
    for change in &mut changes {
        change.current = String::from_utf8_lossy(&canonical(change.current.as_bytes())).into_owned();
    }
    Ok((changes, servers))
}

/// What a person has got of the differences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) is_cut: bool,
}

/// Prints the differences.
///
/// # Errors
/// The exit code, if the output is closed or cannot be written.
pub(super) fn show(changes: &[&ChangeReport], extent: Extent) -> Result<Shown, ExitCode> {
    let page = page::render(changes, extent, OutputStyle::of_stdout());
    try_print(page.text)?;
    Ok(Shown { is_cut: page.is_cut })
}

/// Names the servers whose approved definitions cannot be read, and those with more changes than are reported.
pub(super) fn note_problems(servers: &[ChangesServer]) {
    for ChangesServer { name, rule, file_problem, file_problem_code, left_out } in servers {
        if let Some(problem) = file_problem {
            print_note!("mcpd: {name}: {}", pin_file_problem(rule, problem, file_problem_code.as_deref()));
        }
        if *left_out > 0 {
            print_note!("mcpd: {name}: {left_out} more definitions are not approved");
        }
    }
}

fn note_unchanged(changes: &[ChangeReport], servers: &[ChangesServer], is_one: bool) {
    let is_compared = |server: &ChangesServer| server.rule != "follow" && server.file_problem.is_none();
    match servers {
        [server] if is_one && server.rule == "follow" => {
            print_note!("mcpd: {} has `changes = \"follow\"`: nothing is compared", server.name);
        }
        _ if changes.is_empty() && servers.iter().any(is_compared) => {
            print_note!("mcpd: no definition differs from what is approved");
        }
        _ => {}
    }
}
