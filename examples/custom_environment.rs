//! What a server is given: a few variables of this program's own, and those it is meant to have.

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
    let server = demo_server::config("demo")?.env("GREETING", "hello").cwd(std::env::temp_dir());
    // Secrets are not shown, here or in any log.
    println!("shows its value: {}", format!("{server:?}").contains("hello"));
    let client = Client::spawn(server)?;
    client.initialize().await?;
    let result = client.call_tool("variables", &json!({})).await?.value()?;
    let given = result["content"][0]["text"].as_str().unwrap_or_default().split(' ');
    for name in given.filter(|name| ["GREETING", "HOME", "CARGO_MANIFEST_DIR"].contains(name)) {
        println!("{name} was given");
    }
    client.close().await;
    Ok(())
}
