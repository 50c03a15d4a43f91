//! `mcpd restart SERVER…`, `mcpd enable`, `mcpd disable`: each acts on any number of servers at once.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use futures_util::{StreamExt, stream};
use serde::Serialize;

use super::daemon_report::{changed_sentence, with_changed_files};
use super::keep::{Keep, WrittenToggle};
use super::outcome::print_report;
use super::terminal::with_spinner;
use super::text::one_line;
use super::{CommandResult, FAILED, USAGE, admin_failure, completions, fail, print, restart, tool_names};
use crate::admin::report::{ControlReport, StateName};
use crate::admin::{self, AdminError, ServerAction, ToolsRequest};
use crate::manager::Toggle;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Actions in progress at a time. The daemon refuses more long requests than it has places for.
const MAX_AT_ONCE: usize = 8;

#[derive(Debug, Subcommand)]
pub(super) enum ControlCommand {
    /// Restart the daemon with the installed program, or only servers
    ///
    /// Without a server, the daemon is restarted with the program that is installed now. Nothing changes if that program refuses the
    /// configuration. Calls have the time `restart_wait` to finish. Agents behind `mcpd connect` stay connected, and later calls wait
    /// there for the new daemon. With servers, the command waits until they are ready or have failed.
    Restart {
        /// Restart only these servers, as printed by `mcpd status`
        #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
        servers: Vec<String>,
        /// Restart every enabled server
        #[arg(long, conflicts_with = "servers")]
        all: bool,
        /// Restart the daemon only if its program was replaced since its start
        #[arg(long, conflicts_with_all = ["servers", "all"])]
        if_replaced: bool,
        /// Print each result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Hide servers or single tools from agents, until you enable them or the daemon stops
    ///
    /// With `--keep`, a server is also stopped: it gets `enabled = false`. A tool is added to `deny` of its server.
    Disable {
        /// Servers, as printed by `mcpd status`, or tools: SERVER/TOOL or the exposed name
        #[arg(required = true, value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        targets: Vec<String>,
        /// Stop the servers, too
        #[arg(long)]
        stop: bool,
        #[command(flatten)]
        keep: Keep,
        /// Print each result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable disabled servers or tools; a stopped server is started and waited for
    Enable {
        /// Servers, as printed by `mcpd status`, or tools: SERVER/TOOL or the exposed name
        #[arg(required = true, value_name = "SERVER[/TOOL]", add = ArgValueCompleter::new(completions::servers_or_their_tools))]
        targets: Vec<String>,
        #[command(flatten)]
        keep: Keep,
        /// Print each result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl ControlCommand {
    /// The option `--keep`, if it is given.
    fn keep(&self) -> Option<&Keep> {
        match self {
            Self::Disable { keep, .. } | Self::Enable { keep, .. } => Some(keep).filter(|keep| keep.keep),
            Self::Restart { .. } => None,
        }
    }

    fn prints_json(&self) -> bool {
        match self {
            Self::Restart { json, .. } | Self::Disable { json, .. } | Self::Enable { json, .. } => *json,
        }
    }

    /// What the spinner shows before the name of the server.
    fn activity(&self) -> &'static str {
        match self {
            Self::Restart { .. } => "restarting",
            Self::Disable { .. } => "disabling",
            Self::Enable { .. } => "enabling",
        }
    }

    /// The action on each named server or tool.
    async fn orders(&self, directory: &RuntimeDir) -> Result<Vec<Order>, ExitCode> {
        let mut orders = Vec::new();
        match self {
            Self::Restart { all: true, .. } => {
                let report = admin::status(&directory.socket(ADMIN_SOCKET)).await;
                let servers = report.map_err(|error| admin_failure(&error))?.servers;
                let enabled = servers.into_iter().filter(|server| !server.disabled);
                orders.extend(enabled.map(|server| Order { action: ServerAction::Restart, server: server.name }));
                if orders.is_empty() {
                    print_note!("mcpd: no server is enabled");
                }
            }
            Self::Restart { servers, .. } => {
                orders.extend(servers.iter().cloned().map(|server| Order { action: ServerAction::Restart, server }));
            }
            Self::Disable { targets, stop, keep, .. } => {
                let of_server = if *stop || keep.keep { Toggle::Stop } else { Toggle::Disable };
                for target in targets {
                    orders.push(Order::toggle(directory, target, &of_server, Toggle::DisableTool).await?);
                }
                if *stop
                    && orders.iter().any(|order| matches!(order.action, ServerAction::Toggle(Toggle::DisableTool(_))))
                {
                    let why = "`--stop` stops a whole server: write the server without a tool, or leave out `--stop`";
                    return Err(fail(USAGE, why));
                }
            }
            Self::Enable { targets, .. } => {
                for target in targets {
                    orders.push(Order::toggle(directory, target, &Toggle::Enable, Toggle::EnableTool).await?);
                }
            }
        }
        Ok(orders)
    }
}

/// An action on one server.
struct Order {
    action: ServerAction,
    server: String,
}

impl Order {
    /// The order for `SERVER`, for `SERVER/TOOL` or for the exposed name of a tool.
    async fn toggle(
        directory: &RuntimeDir,
        target: &str,
        of_server: &Toggle,
        of_tool: fn(String) -> Toggle,
    ) -> Result<Self, ExitCode> {
        let qualified = qualify(directory, target).await?;
        refuse_pattern(directory, target).await?;
        let target = qualified.as_deref().unwrap_or(target);
        let (server, toggle) = match target.split_once('/') {
            None => (target, of_server.clone()),
            Some((server, tool)) => (server, of_tool(tool.to_owned())),
        };
        Ok(Self { action: ServerAction::Toggle(toggle), server: server.to_owned() })
    }

    async fn carry_out(&self, socket: &Path) -> Result<ControlReport, AdminError> {
        admin::control(socket, self.action.clone(), &self.server).await
    }

    /// Writes the decision into the configuration. The error is the exit code of a failure that is printed already.
    async fn write(&self, directory: &RuntimeDir, keep: &Keep) -> Result<WrittenToggle, ExitCode> {
        match &self.action {
            ServerAction::Toggle(toggle) => keep.write(directory, &self.server, toggle).await,
            ServerAction::Restart => Err(fail(USAGE, "a restart is not kept")),
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
        [] => match of_any_server(directory, target).await {
            Some(tool) => Err(fail(USAGE, format!("there is no server `{target}`: did you mean `{tool}`?"))),
            None => Ok(None),
        },
        [name] => Ok(Some(std::mem::take(name))),
        several => Err(fail(USAGE, format!("`{target}` is the name of several tools: write {}", several.join(" or ")))),
    }
}

/// The first tool with this own name, as `SERVER/TOOL`.
async fn of_any_server(directory: &RuntimeDir, tool: &str) -> Option<String> {
    let (all, _) = tool_names::request(directory, ToolsRequest::default()).await.ok()?;
    all.iter().find(|known| known.tool == tool).map(|known| tool_names::qualified(&known.server, &known.tool))
}

/// Refuses a pattern that is not the name of a tool.
async fn refuse_pattern(directory: &RuntimeDir, target: &str) -> Result<(), ExitCode> {
    if !target.contains(['*', '?', '[', '{']) {
        return Ok(());
    }
    match tool_names::find(directory, None, target).await {
        Ok((found, _)) if found.is_empty() => {
            let target = one_line(target);
            Err(fail(USAGE, format!("`{target}` is a pattern: patterns belong in `deny` of the server (`mcpd edit`)")))
        }
        _ => Ok(()),
    }
}

/// Warns that a restart does not apply changed configuration files.
async fn note_changed_files(socket: &Path) {
    // Without an answer, the command itself fails with the reason.
    let Ok(report) = admin::status(socket).await else { return };
    let changed = with_changed_files(report).files_changed;
    if let Some(sentence) = changed_sentence(&changed) {
        let them = if changed.len() == 1 { "it" } else { "them" };
        print_note!("note: {sentence} since mcpd read the configuration; `mcpd reload` applies {them}");
    }
}

/// Prints how long a decision without `--keep` holds.
fn note_temporary(command: &ControlCommand, is_tool: bool, temporary: bool) {
    let until = match command {
        ControlCommand::Disable { .. } if temporary => "until you enable it or the daemon stops",
        ControlCommand::Enable { .. } if temporary => "until you disable it or the daemon stops",
        _ => return,
    };
    let stop = match command {
        ControlCommand::Disable { stop: false, .. } if !is_tool => ", `--stop` also stops its process",
        _ => "",
    };
    print_note!("note: {until}; `--keep` makes it permanent{stop}");
}

/// Prints why agents still do not see an enabled tool.
async fn note_still_hidden(directory: &RuntimeDir, command: &ControlCommand, server: &str, tool: Option<&str>) {
    let (ControlCommand::Enable { .. }, Some(tool)) = (command, tool) else { return };
    let name = tool_names::qualified(server, tool);
    let Ok((found, _)) = tool_names::find(directory, None, &name).await else { return };
    if let Some((report, hidden)) = found.iter().find_map(|report| Some((report, report.hidden.as_ref()?))) {
        print_note!("note: agents still do not see it: {}", tool_names::hidden_reason(report, Some(hidden)));
    }
}

/// The state that the server or tool has reached. The exit code is 1 unless `done`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Name of the server.
    server: &'a str,
    #[serde(flatten)]
    result: &'a ControlReport,
    /// The file that has the decision, with `--keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
}

pub(super) async fn run(directory: &RuntimeDir, command: &ControlCommand) -> CommandResult {
    if let ControlCommand::Restart { servers, all: false, if_replaced, json } = command
        && servers.is_empty()
    {
        return restart::run(directory, *if_replaced, *json).await;
    }
    let orders = command.orders(directory).await?;
    let socket = directory.socket(ADMIN_SOCKET);
    if let ControlCommand::Restart { .. } = command {
        note_changed_files(&socket).await;
    }
    let mut results = stream::iter(orders.iter().map(|order| order.carry_out(&socket))).buffered(MAX_AT_ONCE);
    let mut code = ExitCode::SUCCESS;
    for order in &orders {
        let activity = || format!("{} {}", command.activity(), order.server);
        let (result, file) = match command.keep() {
            None => match with_spinner(activity, results.next()).await {
                Some(result) => (result, None),
                None => break,
            },
            Some(keep) => match order.write(directory, keep).await {
                Ok(WrittenToggle { file, result: Some(result) }) => (Ok(result), Some(file)),
                Ok(WrittenToggle { file, result: None }) => {
                    (with_spinner(activity, order.carry_out(&socket)).await, Some(file))
                }
                Err(failure) => {
                    code = if code == ExitCode::SUCCESS { failure } else { code };
                    continue;
                }
            },
        };
        let is_running = !matches!(result, Err(AdminError::NotRunning(_)));
        let printed = show(directory, command, &order.server, result, file.as_deref()).await;
        code = if code == ExitCode::SUCCESS { printed } else { code };
        if !is_running {
            break;
        }
    }
    Ok(code)
}

async fn show(
    directory: &RuntimeDir,
    command: &ControlCommand,
    server: &str,
    result: Result<ControlReport, AdminError>,
    file: Option<&Path>,
) -> ExitCode {
    match result {
        Ok(result) if command.prints_json() => {
            let printed = print_report(&JsonReport { server, result: &result, file });
            if result.done { printed } else { ExitCode::from(FAILED) }
        }
        Ok(ControlReport { tool, state, done: true, temporary, .. }) => {
            let suffix = tool.as_ref().map(|tool| format!("/{}", one_line(tool))).unwrap_or_default();
            let printed = print(format!("{server}{suffix}: {state}\n"));
            note_temporary(command, tool.is_some(), temporary);
            note_still_hidden(directory, command, server, tool.as_deref()).await;
            printed
        }
        Ok(ControlReport { state, reason, .. }) => {
            let reason = reason.as_deref().map(one_line);
            let details: Vec<_> = reason.into_iter().chain(next_command(server, state)).collect();
            let separator = if details.is_empty() { "" } else { ": " };
            fail(FAILED, format!("{server}: {state}{separator}{}", details.join("; ")))
        }
        Err(error) => admin_failure(&error),
    }
}

/// What to do about a server that has not reached the requested state.
fn next_command(server: &str, state: StateName) -> Option<String> {
    match state {
        StateName::Disabled => Some(format!("`mcpd enable {server}` enables it")),
        StateName::NeedsLogin => Some(format!("run `mcpd login {server}`")),
        StateName::Starting => Some("`mcpd status` shows its state".to_owned()),
        _ => None,
    }
}
