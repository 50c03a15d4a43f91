//! `mcpd restart`, `mcpd enable`, `mcpd disable`, `mcpd health`.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use serde::Serialize;

use super::completions;
use super::health::Health;
use super::spinner::with_spinner;
use super::text::{one_line, with_override};
use super::{FAILED, USAGE, admin_failure, changed_files, fail, json, print, tool_names, tools};
use crate::admin::report::ServerTold;
use crate::admin::{self, Order};
use crate::manager::Toggle;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// What is wanted of a server.
#[derive(Debug, Subcommand)]
pub(super) enum ControlCommand {
    /// Start a server again, at once, and wait until it is ready or has failed
    Restart {
        /// Its name, as `mcpd status` prints it
        #[arg(add = ArgValueCandidates::new(completions::servers))]
        server: String,
        /// Print what came of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Hide what a server offers, or one of its tools, until it is enabled again or the daemon is started again
    Disable {
        /// The server, as `mcpd status` prints it, or one of its tools: SERVER/TOOL, or the exposed name
        #[arg(value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        what: String,
        /// Stop the server, too
        #[arg(long)]
        stop: bool,
        /// Print what came of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show again what was disabled; a server that was stopped is started and waited for
    Enable {
        /// The server, as `mcpd status` prints it, or one of its tools: SERVER/TOOL, or the exposed name
        #[arg(value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        what: String,
        /// Print what came of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how a server is, whatever it answers when it is asked
    Health {
        /// Its name, as `mcpd status` prints it
        #[arg(add = ArgValueCandidates::new(completions::servers))]
        server: String,
        /// How it is
        #[arg(value_enum)]
        health: Health,
        /// Print what came of it as JSON
        #[arg(long)]
        json: bool,
    },
}

impl ControlCommand {
    /// The order, of which server, and whether its end is told as JSON. `named` is the `SERVER/TOOL` of an exposed name.
    fn parts<'w>(&'w self, named: Option<&'w str>) -> (Order, &'w str, bool) {
        let (order, server, json) = match self {
            Self::Restart { server, json } => (Order::Restart, &**server, json),
            Self::Disable { what, stop, json } => {
                let (order, server) = switch(
                    named.unwrap_or(what),
                    if *stop { Toggle::Stop } else { Toggle::Disable },
                    Toggle::DisableTool,
                );
                (order, server, json)
            }
            Self::Enable { what, json } => {
                let (order, server) = switch(named.unwrap_or(what), Toggle::Enable, Toggle::EnableTool);
                (order, server, json)
            }
            Self::Health { server, health, json } => (Order::Vouch((*health).into()), &**server, json),
        };
        (order, server, *json)
    }
}

/// Of `SERVER`, or of `SERVER/TOOL`.
fn switch(what: &str, of_server: Toggle, of_tool: fn(String) -> Toggle) -> (Order, &str) {
    match what.split_once('/') {
        None => (Order::Toggle(of_server), what),
        Some((server, tool)) => (Order::Toggle(of_tool(tool.to_owned())), server),
    }
}

/// `SERVER/TOOL`, if `what` is the exposed name of a tool; what is a server, or nothing, is the daemon's matter.
async fn own_form(directory: &RuntimeDir, what: &str) -> Result<Option<String>, ExitCode> {
    if what.contains('/') {
        return Ok(None);
    }
    let Ok((found, told)) = tool_names::find(directory, None, what).await else { return Ok(None) };
    if told.servers.iter().any(|server| server.name == what) {
        return Ok(None);
    }
    let mut forms: Vec<_> = found.iter().map(|tool| tool_names::own_form(&tool.server, &tool.tool)).collect();
    forms.dedup();
    match &mut forms[..] {
        [] => Ok(None),
        [form] => Ok(Some(std::mem::take(form))),
        several => Err(fail(USAGE, format!("several tools may be exposed as `{what}`: {}", several.join(", ")))),
    }
}

/// Prints that a restart does not apply what has changed on disk.
async fn note_changed_files(socket: &Path) {
    // If no daemon answers, the order itself fails with the reason.
    let Ok(report) = admin::status(socket).await else { return };
    let changed = changed_files::compared(report).files_changed;
    if let Some(said) = changed_files::sentence(&changed) {
        let what = if changed.len() == 1 { "it" } else { "them" };
        print_note!("note: {said} since mcpd read the configuration; `mcpd reload` applies {what}");
    }
}

/// Prints why agents still do not see a tool that was enabled.
async fn note_still_hidden(directory: &RuntimeDir, server: &str, tool: &str) {
    let name = tool_names::own_form(server, tool);
    let Ok((found, _)) = tool_names::find(directory, None, &name).await else { return };
    if let Some((report, hidden)) = found.iter().find_map(|report| Some((report, report.hidden.as_ref()?))) {
        print_note!("note: agents still do not see it: {}", tools::all::why(report, Some(hidden)));
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shape<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vouched: Option<&'static str>,
    #[serde(flatten)]
    told: &'a ServerTold,
}

pub(super) async fn run(directory: &RuntimeDir, command: &ControlCommand) -> ExitCode {
    let named = match command {
        ControlCommand::Enable { what, .. } | ControlCommand::Disable { what, .. } => {
            match own_form(directory, what).await {
                Ok(named) => named,
                Err(code) => return code,
            }
        }
        ControlCommand::Restart { .. } | ControlCommand::Health { .. } => None,
    };
    if matches!(command, ControlCommand::Disable { what, stop: true, .. } if named.is_some() || what.contains('/')) {
        return fail(USAGE, "`--stop` is for a whole server: a tool has no process of its own");
    }
    let (order, server, as_json) = command.parts(named.as_deref());
    let vouched = if let Order::Vouch(vouched) = order { vouched.word() } else { None };
    let what = match &order {
        Order::Restart => format!("restarting {server}"),
        Order::Toggle(Toggle::Enable | Toggle::EnableTool(_)) => format!("enabling {server}"),
        Order::Toggle(_) => format!("disabling {server}"),
        Order::Vouch(_) => format!("telling {server}"),
    };
    let socket = directory.socket(ADMIN_SOCKET);
    if let Order::Restart = order {
        note_changed_files(&socket).await;
    }
    match with_spinner(|| what.clone(), admin::order(&socket, order, server)).await {
        Ok(told) if as_json => {
            let said = json::page(&Shape { server, vouched, told: &told }).map_or_else(|code| code, print);
            if told.done { said } else { ExitCode::from(FAILED) }
        }
        Ok(ServerTold { tool, state, done: true, .. }) => {
            let shown = tool.as_ref().map(|tool| format!("/{}", one_line(tool))).unwrap_or_default();
            let said = print(format!("{server}{shown}: {}\n", with_override(&state, vouched)));
            if let (ControlCommand::Enable { .. }, Some(tool)) = (command, &tool) {
                note_still_hidden(directory, server, tool).await;
            }
            said
        }
        Ok(ServerTold { state, reason, .. }) => {
            let reason = reason.map(|reason| format!(": {}", one_line(&reason))).unwrap_or_default();
            fail(FAILED, format!("{server}: {state}{reason}"))
        }
        Err(error) => admin_failure(&error),
    }
}
