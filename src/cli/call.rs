//! `mcpd call`.

use std::process::ExitCode;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::agent::Agent;
use super::profile::Door;
use super::text::printable;
use super::{FAILED, USAGE, fail, say};
use crate::sockets::RuntimeDir;

/// The arguments go out as they were typed, number spelling included.
#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}

/// What of a result is shown (MCP 2025-11-25, `server/tools`, "Tool Result").
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
}

pub(super) async fn run(directory: &RuntimeDir, door: &Door, tool: &str, arguments: &str, json: bool) -> ExitCode {
    let arguments = match serde_json::from_str::<&RawValue>(arguments) {
        Ok(raw) if raw.get().starts_with('{') => raw,
        Ok(_) => return fail(USAGE, "the arguments are not a JSON object, such as '{\"path\": \"notes.md\"}'"),
        Err(error) => return fail(USAGE, format!("the arguments are not JSON: {error}")),
    };
    let mut agent = match Agent::of(directory, door, "mcpd call").await {
        Ok(agent) => agent,
        Err(refused) => return refused,
    };
    match agent.request("tools/call", &CallParams { name: tool, arguments }).await {
        Ok(Ok(result)) => show(&result, json),
        Ok(Err(error)) => fail(FAILED, describe(&error)),
        Err(error) => fail(FAILED, error),
    }
}

/// The message of an error object, and how sure the failure is.
pub(super) fn describe(error: &Value) -> String {
    let message = error["message"].as_str().map_or_else(|| error.to_string(), printable);
    match error["data"]["outcome"].as_str() {
        Some("unknown") => format!("{message} (whether the call had an effect is unknown)"),
        Some("not_sent") => format!("{message} (the call was not sent)"),
        _ => message,
    }
}

fn show(result: &Bytes, json: bool) -> ExitCode {
    let outcome: Outcome = match serde_json::from_slice(result) {
        Ok(outcome) => outcome,
        Err(error) => return fail(FAILED, format!("the result is not one of a tool: {error}")),
    };
    let printed = match json {
        true => say([result, &b"\n"[..]].concat()),
        false if outcome.is_error => return fail(FAILED, text(&outcome)),
        false => say(text(&outcome) + "\n"),
    };
    if outcome.is_error { ExitCode::from(FAILED) } else { printed }
}

fn text(outcome: &Outcome) -> String {
    let part = |content: &Value| match content["text"].as_str() {
        Some(text) => printable(text),
        None => format!("[{}; --json shows it]", content["type"].as_str().map_or_else(String::new, printable)),
    };
    match &outcome.structured_content {
        Some(structured) if outcome.content.is_empty() => printable(structured.get()),
        _ => outcome.content.iter().map(part).collect::<Vec<_>>().join("\n"),
    }
}
