//! `mcpd restart`, `mcpd enable`, `mcpd disable`, `mcpd health`.

use std::path::Path;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use serde::Serialize;

use super::completions;
use super::keep::{Keep, WrittenToggle};
use super::spinner::with_spinner;
use super::text::{one_line, with_override};
use super::{FAILED, USAGE, admin_failure, changed_files, fail, json, print, tool_names, tools};
use crate::admin::report::ControlReport;
use crate::admin::{self, ServerAction};
use crate::manager::Toggle;
use crate::server::HealthOverride;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

#[derive(Debug, Subcommand)]
pub(super) enum ControlCommand {
    /// Restart a server now, and wait until it is ready or has failed
    Restart {
        /// Server name, as printed by `mcpd status`
        #[arg(add = ArgValueCandidates::new(completions::servers))]
        server: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Hide a server or one of its tools from agents, until you enable it or the daemon stops
    ///
    /// With `--keep`, a server is also stopped: it gets `enabled = false`. A tool is added to `deny` of its server.
    Disable {
        /// A server, as printed by `mcpd status`, or a tool: SERVER/TOOL or its exposed name
        #[arg(value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        target: String,
        /// Stop the server, too
        #[arg(long)]
        stop: bool,
        #[command(flatten)]
        keep: Keep,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable a disabled server or tool; a stopped server is started and waited for
    Enable {
        /// A server, as printed by `mcpd status`, or a tool: SERVER/TOOL or its exposed name
        #[arg(value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        target: String,
        #[command(flatten)]
        keep: Keep,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Mark a server as healthy or unhealthy, whatever it answers to pings; `auto` removes the mark
    Health {
        /// Server name, as printed by `mcpd status`
        #[arg(add = ArgValueCandidates::new(completions::servers))]
        server: String,
        /// The mark to set
        #[arg(value_enum)]
        health: Health,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Health {
    /// Treat it as healthy: mcpd does not restart it, even if it does not answer pings
    Up,
    /// Treat it as unhealthy: calls to it fail at once
    Down,
    /// Remove the mark: its answers to pings decide
    Auto,
}

impl From<Health> for HealthOverride {
    fn from(health: Health) -> Self {
        match health {
            Health::Up => Self::ForceHealthy,
            Health::Down => Self::ForceUnhealthy,
            Health::Auto => Self::Auto,
        }
    }
}

struct ControlRequest<'a> {
    action: ServerAction,
    server: &'a str,
    as_json: bool,
}

impl ControlCommand {
    /// The option `--keep`, if it is given.
    fn keep(&self) -> Option<&Keep> {
        match self {
            Self::Disable { keep, .. } | Self::Enable { keep, .. } => Some(keep).filter(|keep| keep.keep),
            Self::Restart { .. } | Self::Health { .. } => None,
        }
    }

    /// `qualified` is the `SERVER/TOOL` form of a target that is an exposed name.
    fn request<'a>(&'a self, qualified: Option<&'a str>) -> ControlRequest<'a> {
        match self {
            Self::Restart { server, json } => ControlRequest { action: ServerAction::Restart, server, as_json: *json },
            Self::Disable { target, stop, keep, json } => {
                let of_server = if *stop || keep.keep { Toggle::Stop } else { Toggle::Disable };
                toggle(qualified.unwrap_or(target), of_server, Toggle::DisableTool, *json)
            }
            Self::Enable { target, json, .. } => {
                toggle(qualified.unwrap_or(target), Toggle::Enable, Toggle::EnableTool, *json)
            }
            Self::Health { server, health, json } => {
                ControlRequest { action: ServerAction::OverrideHealth((*health).into()), server, as_json: *json }
            }
        }
    }
}

/// The request for `SERVER` or for `SERVER/TOOL`.
fn toggle(target: &str, of_server: Toggle, of_tool: fn(String) -> Toggle, as_json: bool) -> ControlRequest<'_> {
    match target.split_once('/') {
        None => ControlRequest { action: ServerAction::Toggle(of_server), server: target, as_json },
        Some((server, tool)) => {
            ControlRequest { action: ServerAction::Toggle(of_tool(tool.to_owned())), server, as_json }
        }
    }
}

/// The `SERVER/TOOL` form of `target` if it is the exposed name of a tool. Anything else is left to the daemon.
async fn qualify(directory: &RuntimeDir, target: &str) -> Result<Option<String>, ExitCode> {
    if target.contains('/') {
        return Ok(None);
    }
    let Ok((found, list)) = tool_names::find(directory, None, target).await else { return Ok(None) };
    if list.servers.iter().any(|server| server.name == target) {
        return Ok(None);
    }
    let mut names: Vec<_> = found.iter().map(|tool| tool_names::qualified(&tool.server, &tool.tool)).collect();
    names.dedup();
    match &mut names[..] {
        [] => Ok(None),
        [name] => Ok(Some(std::mem::take(name))),
        several => Err(fail(USAGE, format!("`{target}` is the name of several tools: write {}", several.join(" or ")))),
    }
}

/// Warns that a restart does not apply changed configuration files.
async fn note_changed_files(socket: &Path) {
    // Without an answer, the command itself fails with the reason.
    let Ok(report) = admin::status(socket).await else { return };
    let changed = changed_files::compared(report).files_changed;
    if let Some(sentence) = changed_files::sentence(&changed) {
        let them = if changed.len() == 1 { "it" } else { "them" };
        print_note!("note: {sentence} since mcpd read the configuration; `mcpd reload` applies {them}");
    }
}

/// Prints how long a decision without `--keep` holds.
fn note_temporary(command: &ControlCommand, temporary: bool) {
    let until = match command {
        ControlCommand::Disable { .. } if temporary => "until you enable it or the daemon stops",
        ControlCommand::Enable { .. } if temporary => "until you disable it or the daemon stops",
        _ => return,
    };
    print_note!("note: {until}; `--keep` makes it permanent");
}

/// Prints why agents still do not see an enabled tool.
async fn note_still_hidden(directory: &RuntimeDir, command: &ControlCommand, server: &str, tool: Option<&str>) {
    let (ControlCommand::Enable { .. }, Some(tool)) = (command, tool) else { return };
    let name = tool_names::qualified(server, tool);
    let Ok((found, _)) = tool_names::find(directory, None, &name).await else { return };
    if let Some((report, hidden)) = found.iter().find_map(|report| Some((report, report.hidden.as_ref()?))) {
        print_note!("note: agents still do not see it: {}", tools::all::hidden_reason(report, Some(hidden)));
    }
}

/// The shape of `--json`.
#[derive(Serialize)]
struct Shape<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_override: Option<&'static str>,
    #[serde(flatten)]
    result: &'a ControlReport,
    /// The file that has the decision, with `--keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
}

/// What the command does while it waits.
fn activity(action: &ServerAction, server: &str) -> String {
    match action {
        ServerAction::Restart => format!("restarting {server}"),
        ServerAction::Toggle(Toggle::Enable | Toggle::EnableTool(_)) => format!("enabling {server}"),
        ServerAction::Toggle(_) => format!("disabling {server}"),
        ServerAction::OverrideHealth(_) => format!("setting the health of {server}"),
    }
}

pub(super) async fn run(directory: &RuntimeDir, command: &ControlCommand) -> ExitCode {
    let qualified = match command {
        ControlCommand::Enable { target, .. } | ControlCommand::Disable { target, .. } => {
            match qualify(directory, target).await {
                Ok(qualified) => qualified,
                Err(code) => return code,
            }
        }
        ControlCommand::Restart { .. } | ControlCommand::Health { .. } => None,
    };
    if matches!(command, ControlCommand::Disable { target, stop: true, .. } if qualified.is_some() || target.contains('/'))
    {
        return fail(USAGE, "`--stop` stops a whole server: write the server without a tool, or leave out `--stop`");
    }
    let ControlRequest { action, server, as_json } = command.request(qualified.as_deref());
    let health_override =
        if let ServerAction::OverrideHealth(health_override) = action { health_override.word() } else { None };
    let activity = activity(&action, server);
    let socket = directory.socket(ADMIN_SOCKET);
    if let ServerAction::Restart = action {
        note_changed_files(&socket).await;
    }
    let written = match (command.keep(), &action) {
        (Some(keep), ServerAction::Toggle(toggle)) => keep.write(directory, server, toggle).await.map(Some),
        _ => Ok(None),
    };
    let (file, known) = match written {
        Ok(written) => written.map(|WrittenToggle { file, result }| (file, result)).unzip(),
        Err(code) => return code,
    };
    let result = match known.flatten() {
        Some(result) => Ok(result),
        None => with_spinner(|| activity.clone(), admin::control(&socket, action, server)).await,
    };
    match result {
        Ok(result) if as_json => {
            let printed = json::print(&Shape { server, health_override, result: &result, file: file.as_deref() });
            if result.done { printed } else { ExitCode::from(FAILED) }
        }
        Ok(ControlReport { tool, state, done: true, temporary, .. }) => {
            let suffix = tool.as_ref().map(|tool| format!("/{}", one_line(tool))).unwrap_or_default();
            let printed = print(format!("{server}{suffix}: {}\n", with_override(state, health_override)));
            note_temporary(command, temporary);
            note_still_hidden(directory, command, server, tool.as_deref()).await;
            printed
        }
        Ok(ControlReport { state, reason, .. }) => {
            let reason = reason.map(|reason| format!(": {}", one_line(&reason))).unwrap_or_default();
            fail(FAILED, format!("{server}: {state}{reason}"))
        }
        Err(error) => admin_failure(&error),
    }
}
