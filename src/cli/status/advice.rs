//! The problems and notes of `mcpd status` for the page of `mcpd dashboard`, by server.

use super::{has_failed, notes, problems};
use crate::admin::report::{Report, ServerReport};
use crate::cli::daemon_report::with_changed_files;
use crate::cli::style::OutputStyle;
use crate::dashboard::{Advice, ServerAdvice};

const STYLE: OutputStyle = OutputStyle::PLAIN;

pub(in crate::cli) fn advice(report: &Report) -> Advice {
    let servers = report.servers.iter().filter_map(|server| Some((server.name.clone(), of_server(server)?)));
    let notes = notes::lost_reapers(report.reapers_lost).into_iter();
    let notes =
        notes.chain(notes::unenforced(&report.servers)).chain(report.profiles.iter().filter_map(notes::cut_lists));
    let configuration = problems::of_configuration(&with_changed_files(report.clone()), STYLE);
    Advice { configuration, notes: notes.collect(), servers: servers.collect() }
}

fn of_server(server: &ServerReport) -> Option<ServerAdvice> {
    // The page has the name of the server above.
    let prefix = format!("{}: ", server.name);
    let own = |text: String| text.strip_prefix(&prefix).map_or_else(|| text.clone(), str::to_owned);
    let update = server.update_error.as_ref();
    let update = update.map(|reason| format!("still runs its previous definition; the changed one failed: {reason}"));
    // The page counts down itself.
    let down = has_failed(server).then(|| ServerReport { retry_in_ms: None, ..server.clone() });
    let down = down.map(|server| problems::failures(&server, STYLE)).unwrap_or_default();
    let failures: Vec<_> = update.into_iter().chain(down.into_iter().map(own)).collect();
    let command = (!failures.is_empty()).then(|| problems::command_for(server));
    let notes: Vec<_> = notes::of_server(server, STYLE).into_iter().map(own).collect();
    (command.is_some() || !notes.is_empty()).then_some(ServerAdvice { failures, command, notes })
}
