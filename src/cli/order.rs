//! `mcpd restart`, `mcpd enable`, `mcpd disable`, `mcpd health`.

use std::process::ExitCode;

use super::text::{marked, one_line};
use super::waiting::waiting;
use super::{FAILED, fail, refused, say};
use crate::admin::report::ServerTold;
use crate::admin::{self, Order};
use crate::manager::Toggle;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// What `disable` asks for, and of which server.
pub(super) fn disable(what: &str, stop: bool) -> (Order, &str) {
    switch(what, if stop { Toggle::Stop } else { Toggle::Disable }, Toggle::DisableTool)
}

/// What `enable` asks for, and of which server.
pub(super) fn enable(what: &str) -> (Order, &str) {
    switch(what, Toggle::Enable, Toggle::EnableTool)
}

/// Of `SERVER`, or of `SERVER/TOOL`.
fn switch(what: &str, of_server: Toggle, of_tool: fn(String) -> Toggle) -> (Order, &str) {
    match what.split_once('/') {
        None => (Order::Toggle(of_server), what),
        Some((server, tool)) => (Order::Toggle(of_tool(tool.to_owned())), server),
    }
}

pub(super) async fn run(directory: &RuntimeDir, order: Order, server: &str) -> ExitCode {
    let vouched = if let Order::Vouch(vouched) = order { vouched.word() } else { None };
    let what = match &order {
        Order::Restart => format!("restarting {server}"),
        Order::Toggle(Toggle::Enable | Toggle::EnableTool(_)) => format!("enabling {server}"),
        Order::Toggle(_) => format!("disabling {server}"),
        Order::Vouch(_) => format!("telling {server}"),
    };
    let socket = directory.socket(ADMIN_SOCKET);
    match waiting(|| what.clone(), admin::order(&socket, order, server)).await {
        Ok(ServerTold { tool, state, done: true, .. }) => {
            let tool = tool.map(|tool| format!("/{}", one_line(&tool))).unwrap_or_default();
            say(format!("{server}{tool}: {}\n", marked(&state, vouched)))
        }
        Ok(ServerTold { state, reason, .. }) => {
            let reason = reason.map(|reason| format!(": {}", one_line(&reason))).unwrap_or_default();
            fail(FAILED, format!("{server}: {state}{reason}"))
        }
        Err(error) => refused(&error),
    }
}
