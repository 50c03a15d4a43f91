//! `mcpd approve`: shows definitions that are not approved, asks, and approves exactly these.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use serde::Serialize;

use super::changes::page::{Extent, item};
use super::changes::{note_problems, request, show};
use super::outcome::try_print_report;
use super::text::{count, one_line};
use super::{CommandResult, FAILED, USAGE, admin_failure, completions, fail, prompt, tool_names};
use crate::admin::report::{ApprovalReport, ChangeReport};
use crate::admin::{self, ApprovedDefinition, ToolsRequest};
use crate::pins::{Digest, PinnedKind};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::hint;

#[derive(Debug, Args)]
pub(super) struct Approve {
    /// The server, as printed by `mcpd status`
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    /// A tool, by its own or its exposed name; `prompt:NAME`, `template:URI` or `instructions`; or a digest that `mcpd diff --json` prints
    #[arg(value_name = "ITEM", required_unless_present = "all", add = ArgValueCompleter::new(completions::unapproved))]
    items: Vec<String>,
    /// Approve all definitions of the server that are not approved
    #[arg(long, conflicts_with = "items")]
    all: bool,
    /// Approve without confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print the result as JSON instead of the differences
    #[arg(long, requires = "yes")]
    json: bool,
}

/// What is approved now. The exit code is 1 if something had changed again.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// Configured name of the server.
    server: &'a str,
    /// What is approved now.
    approved: Vec<JsonItem<'a>>,
    /// What the server did not list any more. It is not approved.
    changed_again: Vec<JsonItem<'a>>,
}

/// A definition.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonItem<'a> {
    /// `tool`, `prompt`, `template` (of resources) or `instructions`.
    kind: &'a str,
    /// The server's own name for it, or the URI template; empty for instructions.
    name: &'a str,
    /// SHA-256 of the definition in canonical form, in hexadecimal.
    digest: &'a str,
}

pub(super) async fn run(directory: &RuntimeDir, approve: &Approve) -> CommandResult {
    let Approve { server, items, all, yes, json } = approve;
    let (changes, servers) = request(directory, Some(server)).await?;
    let selected = if *all { changes.iter().collect() } else { select(directory, server, items, &changes).await? };
    // Who does not see everything on a terminal has to say yes.
    let mut is_seen = false;
    if !json {
        is_seen = !show(&selected, Extent::Whole)?.is_cut && stdout().is_terminal();
    }
    note_problems(&servers);
    if selected.is_empty() {
        print_note!("mcpd: {server}: there is nothing to approve");
        if *json {
            try_print_report(&JsonReport { server, approved: Vec::new(), changed_again: Vec::new() })?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !yes && !confirmed(server, &selected, is_seen)? {
        print_note!("mcpd: nothing is approved");
        return Ok(ExitCode::from(FAILED));
    }
    let definition = |change: &&ChangeReport| {
        let kind = PinnedKind::ALL.into_iter().find(|kind| kind.word() == change.kind)?;
        Some(ApprovedDefinition { kind, digest: change.digest.parse().ok()? })
    };
    let definitions = selected.iter().filter_map(definition).collect();
    let approved = admin::approve(&directory.socket(ADMIN_SOCKET), server, definitions).await;
    let ApprovalReport { changed_again, .. } = approved.map_err(|error| admin_failure(&error))?;
    let again: BTreeSet<_> = changed_again.iter().map(ToString::to_string).collect();
    let (changed_again, approved): (Vec<_>, Vec<_>) =
        selected.into_iter().partition(|change| again.contains(&change.digest));
    if *json {
        let [approved, changed_again] =
            [&approved, &changed_again].map(|changes| changes.iter().map(|change| json_item(change)).collect());
        try_print_report(&JsonReport { server, approved, changed_again })?;
    } else {
        print_note!("mcpd: {server}: {} approved", count(approved.len(), "definition"));
    }
    for change in &changed_again {
        print_note!("mcpd: {server}: {} has changed again, and is not approved: `mcpd diff {server}`", item(change));
    }
    Ok(if changed_again.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn json_item(ChangeReport { kind, name, digest, .. }: &ChangeReport) -> JsonItem<'_> {
    JsonItem { kind, name, digest }
}

/// Asks. No answer means yes only if everything is seen.
fn confirmed(server: &str, selected: &[&ChangeReport], is_seen: bool) -> Result<bool, ExitCode> {
    if !prompt::is_possible() {
        let why = "nothing is approved: add `--yes`, or run the command on a terminal to confirm";
        return Err(fail(USAGE, why));
    }
    let question = format!("Approve {} of {server}?", count(selected.len(), "definition"));
    let answer = if is_seen { prompt::confirm_default(&question) } else { prompt::confirm(&question) };
    answer.map_err(|error| fail(FAILED, error))
}

/// The changes of these items.
async fn select<'c>(
    directory: &RuntimeDir,
    server: &str,
    items: &[String],
    changes: &'c [ChangeReport],
) -> Result<Vec<&'c ChangeReport>, ExitCode> {
    let mut selected: Vec<&ChangeReport> = Vec::new();
    for word in items {
        let mut found = named(word, server, changes);
        if found.is_empty() {
            let tool = own_name(directory, server, word, changes).await?;
            found = changes.iter().filter(|change| change.kind == "tool" && change.name == tool).collect();
        }
        if found.is_empty() {
            print_note!("mcpd: {server}: `{}` is approved already", one_line(word));
        }
        let is_known = |change: &&ChangeReport| selected.iter().any(|known| std::ptr::eq(*known, *change));
        found.retain(|change| !is_known(change));
        selected.extend(found);
    }
    Ok(selected)
}

/// The changes that an ITEM of the command line names by a digest, a kind or a tool's own name. The first of these that fits counts, so that no
/// server can choose a name that makes it mean more.
fn named<'c>(word: &str, server: &str, changes: &'c [ChangeReport]) -> Vec<&'c ChangeReport> {
    let is_tool = |change: &ChangeReport, name: &str| change.kind == "tool" && change.name == name;
    let by_kind = |change: &ChangeReport| match word.split_once(':') {
        None => change.kind == "instructions" && word == change.kind,
        Some((kind, name)) => change.kind == kind && change.name == name,
    };
    let qualified = word.strip_prefix(server).and_then(|rest| rest.strip_prefix('/'));
    let criteria: [&dyn Fn(&ChangeReport) -> bool; 4] =
        [&|change| change.digest == word, &by_kind, &|change| is_tool(change, word), &|change| {
            qualified.is_some_and(|name| is_tool(change, name))
        }];
    let found = criteria.iter().map(|is_named| changes.iter().filter(|change| is_named(change)).collect::<Vec<_>>());
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// The server's own name of a tool that has no change under this name. It may be an exposed name.
///
/// # Errors
/// If the server has no such tool.
async fn own_name(
    directory: &RuntimeDir,
    server: &str,
    word: &str,
    changes: &[ChangeReport],
) -> Result<String, ExitCode> {
    let qualified = tool_names::qualified(server, word);
    for name in [word, &qualified] {
        let (found, _) = tool_names::find(directory, None, name).await.map_err(|error| admin_failure(&error))?;
        if let Some(found) = found.into_iter().find(|found| found.server == server) {
            return Ok(found.tool);
        }
    }
    if word.parse::<Digest>().is_ok() {
        let why =
            format!("{server}: no unapproved definition has this digest: `mcpd diff {server}` shows what there is now");
        return Err(fail(FAILED, why));
    }
    if word == PinnedKind::Instructions.word() || word.contains(':') {
        let known = changes.iter().map(|change| match &*change.kind {
            "instructions" => change.kind.clone(),
            kind => format!("{kind}:{}", change.name),
        });
        let known: Vec<_> = known.collect();
        let hint = hint(word, known.iter().map(String::as_str));
        return Err(fail(
            FAILED,
            format!("{server}: nothing called `{}` differs from what is approved{hint}", one_line(word)),
        ));
    }
    let (all, _) = tool_names::request(directory, ToolsRequest::default()).await.unwrap_or_default();
    let known = all.iter().filter(|one| one.server == server).map(|one| &*one.tool);
    Err(fail(FAILED, format!("server `{server}` offers no tool `{}`{}", one_line(word), hint(word, known))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_named_by_own_names_kinds_and_digests() {
        let change = |kind: &str, name: &str| ChangeReport {
            server: "files".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            digest: format!("{kind}{}", "0".repeat(40)),
            new: false,
            withheld: None,
            since: String::new(),
            approved: Vec::new(),
            current: String::new(),
        };
        let all = [
            change("tool", "read"),
            change("tool", "instructions"),
            change("tool", "a/b"),
            change("tool", "prompt:x"),
            change("prompt", "read"),
            change("prompt", "x"),
            change("template", "file:///{path}"),
            change("instructions", ""),
        ];
        for (word, expected) in [
            ("read", &[0][..]),
            ("files/read", &[0]),
            ("tool:read", &[0]),
            ("prompt:read", &[4]),
            ("instructions", &[7]),
            ("tool:instructions", &[1]),
            ("a/b", &[2]),
            ("files/a/b", &[2]),
            ("prompt:x", &[5]),
            ("tool:prompt:x", &[3]),
            ("template:file:///{path}", &[6]),
            ("file:///{path}", &[]),
            ("git/read", &[]),
            ("", &[]),
        ] {
            let expected: Vec<_> = expected.iter().map(|index| &all[*index]).collect();
            assert_eq!(named(word, "files", &all), expected, "{word}");
        }
        assert_eq!(named(&all[6].digest, "files", &all), [&all[6]]);
    }
}
