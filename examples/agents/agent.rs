//! An agent in Rust, with the crate `rmcp`: lists the tools, calls one, prints its answer.
//!
//! ```sh
//! cargo run --manifest-path tests/interop/rmcp/Cargo.toml --bin agent [TOOL [ARGUMENTS-AS-JSON]]
//! ```
//!
//! A package of your own needs rmcp with the features `client` and `transport-async-rw`, serde_json, and tokio with
//! `macros`, `net` and `rt`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it finds")]

use std::env::{args, var_os};
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use tokio::net::UnixStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match agent().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn agent() -> Result<(), Box<dyn Error>> {
    let tool = args().nth(1).unwrap_or_else(|| "demo__echo".to_owned());
    let arguments = args().nth(2).unwrap_or_else(|| r#"{"text": "hello"}"#.to_owned());
    let path = socket().ok_or("neither XDG_RUNTIME_DIR nor HOME is set")?;
    let stream = UnixStream::connect(&path).await.map_err(|error| format!("{}: {error}", path.display()))?;
    let client = ().serve(stream).await?;

    let tools = client.list_all_tools().await?;
    println!("tools: {}", tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" "));
    let call = CallToolRequestParams::new(tool.clone()).with_arguments(serde_json::from_str(&arguments)?);
    let result = client.call_tool(call).await?;
    let texts = result.content.iter().map(|block| match block {
        ContentBlock::Text(text) => Ok(text.text.clone()),
        other => serde_json::to_string(other),
    });
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n");
    if result.is_error == Some(true) {
        return Err(format!("{tool} failed: {text}").into());
    }
    println!("{text}");
    client.cancel().await?;
    Ok(())
}

/// Where mcpd listens unless it was told otherwise.
fn socket() -> Option<PathBuf> {
    let absolute = |name| var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let login = || {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        Some(PathBuf::from(format!("/run/user/{user}"))).filter(|session| session.is_dir())
    };
    let session = absolute("XDG_RUNTIME_DIR").or_else(login).map(|session| session.join("mcpd"));
    Some(session.or_else(|| Some(absolute("HOME")?.join(".local/state/mcpd/run")))?.join("mcp.sock"))
}
