//! State, health and counters of servers, and what becomes of one that crashes or cannot be started.

#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

mod support;

use std::error::Error;
use std::process::ExitCode;

use mcpd::{Manager, ManagerError, ServerConfig, demo_server};
use serde_json::json;

fn main() -> ExitCode {
    support::run(example())
}

async fn example() -> Result<(), Box<dyn Error>> {
    let manager = Manager::start([demo_server::config("good")?, ServerConfig::new("bad", "no-such-program")])?;
    manager.call_tool("good__add", &json!({ "a": 1, "b": 1 })).await?;
    // The list waits until each server has been started once, or could not be.
    manager.all_tools().await;
    manager.restart("good").await?;
    // A call waits for a server that is on its way up.
    manager.call_tool("good__add", &json!({ "a": 2, "b": 2 })).await?;
    for server in manager.servers() {
        println!("{}: {} tools, {} calls", server.name, server.tools_exposed, server.calls);
        if server.uptime_ms.is_some() {
            println!("  {} after {} restarts", server.state, server.restarts);
        } else if let Some(error) = &server.last_error {
            // It is tried again and again: `state` and `retry_in_ms` say when.
            println!("  {}", error.split(';').next().unwrap_or(error));
        }
    }
    if let Err(error @ ManagerError::UnknownServer { .. }) = manager.restart("gone").await {
        println!("error: {error}");
    }
    manager.close().await;
    Ok(())
}
