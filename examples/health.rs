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
    manager.restart("good").await?;
    // A call waits for a server that is on its way up.
    manager.call_tool("good__add", &json!({ "a": 2, "b": 2 })).await?;
    for server in manager.servers() {
        println!("{}: {}, {} tools, {} calls", server.name, server.state, server.tools_exposed, server.calls);
        println!("  {} restarts, ready for some time: {}", server.restarts, server.uptime_ms.is_some());
        if let Some(reason) = &server.reason {
            println!("  {}", reason.split(';').next().unwrap_or(reason));
        }
    }
    if let Err(error @ ManagerError::UnknownServer { .. }) = manager.restart("gone").await {
        println!("error: {error}");
    }
    manager.close().await;
    Ok(())
}
