//! The server of `mcpd demo`: an MCP server with four tools and one resource.
//!
//! `mcpd demo` and the examples of the library use it, so that they need no installed server. It uses no part of the daemon.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::config::ServerConfig;
use crate::era;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::jsonrpc::{Message, parse};

/// The argument that starts a program as the server.
pub(crate) const ARGUMENT: &str = "demo-server";
const GUIDE_URI: &str = "demo://guide";
/// MCP 2025-11-25, `server/resources`, "Error Handling".
const RESOURCE_NOT_FOUND: i32 = -32002;

/// Configures the server as a copy of this program. Its `main` must call [`run_if_server`] first.
///
/// # Errors
/// If the path of this program is unknown or not UTF-8.
pub fn config(name: &str) -> io::Result<ServerConfig> {
    let program = std::env::current_exe()?;
    let program = program
        .into_os_string()
        .into_string()
        .map_err(|_| io::Error::other("the path of this program is not UTF-8"))?;
    Ok(ServerConfig::new(name, program).args([ARGUMENT]))
}

/// Runs the server and returns its exit code, if [`config()`] started this process.
#[must_use]
pub fn run_if_server() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == ARGUMENT).then(run)
}

/// Serves standard input and output until the input ends.
fn run() -> ExitCode {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        let answer = match parse(&Bytes::from(line)) {
            Ok(Message::Request { id, method, params }) => Some(answer(&id, &method, params.as_ref())),
            Ok(_) => None,
            Err(_) => Some(reply::error(None, &ErrorObject::new(PARSE_ERROR, "not a JSON-RPC message"))),
        };
        if answer.is_some_and(|answer| stdout.write_all(&answer).and_then(|()| stdout.flush()).is_err()) {
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::SUCCESS
}

fn answer(id: &Bytes, method: &Bytes, params: Option<&Bytes>) -> Bytes {
    let params = params.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or(Value::Null);
    let result = match &method[..] {
        b"initialize" => Ok(json!({
            "protocolVersion": era::negotiate(params["protocolVersion"].as_str().unwrap_or_default()),
            "capabilities": { "tools": {}, "resources": {} },
            "serverInfo": { "name": "mcpd demo", "version": env!("CARGO_PKG_VERSION") },
        })),
        b"ping" => Ok(json!({})),
        b"tools/list" => Ok(json!({ "tools": tools() })),
        b"tools/call" => call(&params),
        b"resources/list" => {
            Ok(json!({ "resources": [{ "uri": GUIDE_URI, "name": "guide", "mimeType": "text/plain" }] }))
        }
        b"resources/read" if params["uri"] == GUIDE_URI => {
            let text = "Ask it to add two numbers.";
            Ok(json!({ "contents": [{ "uri": GUIDE_URI, "mimeType": "text/plain", "text": text }] }))
        }
        b"resources/read" => Err(ErrorObject::new(RESOURCE_NOT_FOUND, "unknown resource")),
        _ => Err(ErrorObject::new(METHOD_NOT_FOUND, "unknown method")),
    };
    match result {
        Ok(result) => reply::result(id, result.to_string().as_bytes()),
        Err(error) => reply::error(Some(id), &error),
    }
}

fn tools() -> Value {
    let number = json!({ "type": "number" });
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    json!([
        { "name": "echo", "description": "Returns its text.", "inputSchema": text },
        {
            "name": "add",
            "description": "Adds two numbers.",
            "inputSchema": { "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] },
        },
        {
            "name": "variables",
            "description": "Lists the names of its environment variables.",
            "inputSchema": { "type": "object" },
        },
        { "name": "delete_everything", "description": "Deletes nothing.", "inputSchema": { "type": "object" } },
    ])
}

/// Only names, because a value could be a secret.
fn variables() -> String {
    let mut names: Vec<_> = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names.join(" ")
}

fn call(params: &Value) -> Result<Value, ErrorObject> {
    let arguments = &params["arguments"];
    let text = match params["name"].as_str() {
        Some("echo") => arguments["text"].as_str().map(str::to_owned),
        Some("add") => arguments["a"].as_f64().zip(arguments["b"].as_f64()).map(|(a, b)| (a + b).to_string()),
        Some("variables") => Some(variables()),
        Some("delete_everything") => Some("Nothing was deleted.".to_owned()),
        _ => return Err(ErrorObject::new(INVALID_PARAMS, "unknown tool")),
    };
    let is_error = text.is_none();
    let text = text.unwrap_or_else(|| "An argument is missing or has the wrong type.".to_owned());
    Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}
