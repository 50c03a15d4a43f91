//! `mcpd reload`.

use std::process::ExitCode;

use super::{refused, say};
use crate::admin;
use crate::admin::report::ReloadReport;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir) -> ExitCode {
    match admin::reload(&directory.socket(ADMIN_SOCKET)).await {
        Ok(report) => {
            report.warnings.iter().for_each(|warning| eprintln!("{warning}"));
            say(shown(&report))
        }
        Err(error) => refused(&error),
    }
}

fn shown(ReloadReport { kept, added, changed, removed, .. }: &ReloadReport) -> String {
    let lines = [("kept", kept), ("added", added), ("changed", changed), ("removed", removed)];
    let said: String = (lines.iter().filter(|(_, names)| !names.is_empty()))
        .map(|(what, names)| format!("{what:9}{}\n", names.join(", ")))
        .collect();
    if said.is_empty() { "no server is configured\n".to_owned() } else { said }
}
