//! `mcpd demo-server`: a small MCP server of three tools, for the demonstration and for trying out an agent.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::era;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::jsonrpc::{Message, parse};

pub(super) fn run() -> ExitCode {
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
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "mcpd demo", "version": env!("CARGO_PKG_VERSION") },
        })),
        b"ping" => Ok(json!({})),
        b"tools/list" => Ok(json!({ "tools": tools() })),
        b"tools/call" => call(&params),
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
        { "name": "echo", "description": "Says back what it is told.", "inputSchema": text },
        {
            "name": "add",
            "description": "Adds two numbers.",
            "inputSchema": { "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] },
        },
        { "name": "delete_everything", "description": "Deletes nothing.", "inputSchema": { "type": "object" } },
    ])
}

fn call(params: &Value) -> Result<Value, ErrorObject> {
    let arguments = &params["arguments"];
    let text = match params["name"].as_str() {
        Some("echo") => arguments["text"].as_str().map(str::to_owned),
        Some("add") => arguments["a"].as_f64().zip(arguments["b"].as_f64()).map(|(a, b)| (a + b).to_string()),
        Some("delete_everything") => Some("Nothing was deleted.".to_owned()),
        _ => return Err(ErrorObject::new(INVALID_PARAMS, "unknown tool")),
    };
    let is_error = text.is_none();
    let text = text.unwrap_or_else(|| "An argument is missing or of the wrong type.".to_owned());
    Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}
