//! Several servers as one list of tools, with a deny list; their resources as two tools more.

#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

mod support;

use std::error::Error;
use std::process::ExitCode;

use mcpd::{Manager, ResourceTool, demo_server};
use serde_json::json;

fn main() -> ExitCode {
    support::run(example())
}

async fn example() -> Result<(), Box<dyn Error>> {
    let manager = Manager::start([demo_server::config("left")?, demo_server::config("right")?])?;
    manager.set_denied_tools("left", &["delete_*", "variables"]).await?;
    manager.set_denied_tools("right", &["*"]).await?;
    for tool in manager.all_tools().await {
        println!("{} leads to `{}` of {}", tool.name, tool.tool, tool.server);
    }
    let result = manager.call_tool("left__echo", &json!({ "text": "hello" })).await?;
    println!("{}", result.value()?["content"][0]["text"]);
    // Whoever asks for what is denied is told so, and the server hears nothing of it.
    if let Err(error) = manager.call_tool("left__delete_everything", &json!({})).await {
        println!("error: {error}");
    }

    println!("{}", ResourceTool::Read.definition()["name"]);
    let guide = ResourceTool::Read.call(&manager, &json!({ "server": "right", "uri": "demo://guide" })).await?;
    println!("{}", guide.value()?["content"][0]["resource"]["text"]);
    manager.close().await;
    Ok(())
}
