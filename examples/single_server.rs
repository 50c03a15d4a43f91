//! One server, owned by this program: its tools, a call, a ping, the end.

#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

mod support;

use std::error::Error;
use std::process::ExitCode;

use mcpd::{Client, demo_server};
use serde_json::json;

fn main() -> ExitCode {
    support::run(example())
}

async fn example() -> Result<(), Box<dyn Error>> {
    // Yours would be `ServerConfig::new("time", "uvx").args(["mcp-server-time"])`.
    let client = Client::spawn(demo_server::config("demo")?)?;
    client.initialize().await?;
    for tool in client.list_tools().await? {
        println!("{}", tool.name());
    }
    let result = client.call_tool("add", &json!({ "a": 40, "b": 2 })).await?;
    println!("40 + 2 = {}", result.value()?["content"][0]["text"]);
    println!("it answers a ping: {}", client.ping().await.is_ok());
    client.close().await;
    Ok(())
}
