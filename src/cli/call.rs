//! `mcpd call`: calls a tool as an agent does, and shows its progress.
//!
//! Source: MCP 2025-11-25, `basic/utilities/progress`.

mod arg_forms;
mod result;

use std::cell::RefCell;
use std::io::{IsTerminal, Read, stderr, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCompleter;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::time::{Instant, sleep_until, timeout};

use self::arg_forms::{ArgForm, TextSource};
use super::agent::{Agent, ProfileArg};
use super::outcome::signal_exit;
use super::terminal::with_spinner;
use super::text::lines;
use super::tool_schema::Schema;
use super::tools::{self, Tool};
use super::{CommandResult, FAILED, USAGE, completions, fail, tool_names};
use crate::duration;
use crate::naming::is_server_name;
use crate::sockets::RuntimeDir;

const PROGRESS_TOKEN: u64 = 1;
/// For writing the cancellation, because the daemon may not read.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
const HIDDEN_HINT: &str = "`mcpd tools --all` also lists the tools that are hidden from agents";

#[derive(Debug, Args)]
pub(super) struct Call {
    #[command(flatten)]
    profile: ProfileArg,
    /// Exposed name, as printed by `mcpd tools`, or SERVER/TOOL; `mcpd tools TOOL` describes its arguments
    #[arg(add = ArgValueCompleter::new(completions::tools))]
    tool: String,
    /// Arguments: `key=value` (converted to the type in the tool's schema), `key:=JSON`, `key=@FILE` (`@@` for a text that begins
    /// with @), one JSON object, or `-` to read one from stdin
    #[arg(value_name = "ARGUMENT", add = ArgValueCompleter::new(completions::arguments))]
    arguments: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// Save images, audio and blobs to this file, or to numbered files in a directory (`DIR/`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Cancel the call after this time, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

/// Arguments are sent as typed, including the spelling of numbers.
#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

enum CallEnd {
    Response(std::io::Result<Result<Bytes, Value>>),
    TimedOut,
    Signal(i32),
}

pub(super) async fn run(directory: &RuntimeDir, call: &Call) -> CommandResult {
    let form = ArgForm::parse(&call.arguments, &Process);
    let form = form.map_err(|error| fail(USAGE, format!("{error}{}", separate_name_hint(call))))?;
    let deadline = call.timeout.map(|limit| Instant::now() + limit);
    let (mut agent, tool) = tokio::select! {
        found = connect_and_find(directory, call) => found?,
        () = reached(deadline) => {
            return Err(fail(FAILED, format!("{}: the call was not sent", timeout_message(call))));
        }
    };
    let arguments = form.convert(&Schema::parse(&tool.definition["inputSchema"]), &Process).map_err(|error| {
        // The error quotes names and choices of the server.
        let error = lines(&error);
        fail(USAGE, format!("{}: {error}\n`mcpd tools {}` describes its arguments", tool.name, tool.name))
    })?;
    // From here on Ctrl-C cancels the call at the server.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| fail(FAILED, error))?;
    let progress = Progress::new(&tool.name);
    let end = tokio::select! {
        response = with_spinner(|| progress.text(), send(&mut agent, &tool, &arguments, &progress)) => CallEnd::Response(response),
        () = reached(deadline) => CallEnd::TimedOut,
        Some(signal) = signals.next() => CallEnd::Signal(signal),
    };
    Ok(match end {
        CallEnd::Response(Ok(Ok(result))) => result::show(&result, &tool.name, call.json, call.output.as_deref())?,
        CallEnd::Response(Ok(Err(error))) => fail(FAILED, error_message(&error)),
        CallEnd::Response(Err(error)) => fail(FAILED, error),
        CallEnd::TimedOut => {
            cancel(&mut agent, "timeout of the caller").await;
            fail(FAILED, format!("{}: the call is cancelled, and may have had an effect", timeout_message(call)))
        }
        CallEnd::Signal(signal) => {
            cancel(&mut agent, "cancelled by the user").await;
            signal_exit(signal)
        }
    })
}

/// Arguments for a tool whose schema is not known: values are texts, or JSON after `:=`.
pub(super) fn untyped(words: &[String]) -> Result<Value, String> {
    let arguments = ArgForm::parse(words, &Process)?.convert(&Schema::default(), &Process)?;
    serde_json::from_str(arguments.get()).map_err(|error| error.to_string())
}

/// Connects as an agent, and finds the tool in its list. An error is printed.
async fn connect_and_find(directory: &RuntimeDir, call: &Call) -> Result<(Agent, Tool), ExitCode> {
    let (mut agent, profile) = Agent::connect_to(directory, &call.profile, "mcpd call").await?;
    let listed = with_spinner(|| "waiting for the list of tools".to_owned(), tools::list(&mut agent)).await;
    let mut listed = listed.map_err(|error| fail(FAILED, error))?;
    let name = exposed_name(directory, call, profile.name()).await?;
    match listed.iter().position(|tool| name.as_ref() == Some(&tool.name)) {
        Some(index) => Ok((agent, listed.swap_remove(index))),
        None => Err(unknown_tool(directory, call, profile.name(), &listed).await),
    }
}

/// The exposed name; `None` if agents of the profile do not see the tool.
async fn exposed_name(directory: &RuntimeDir, call: &Call, profile: &str) -> Result<Option<String>, ExitCode> {
    if !call.tool.contains('/') {
        return Ok(Some(call.tool.clone()));
    }
    match tool_names::find(directory, Some(profile), &call.tool).await {
        Ok((found, _)) => Ok(found.into_iter().find_map(|tool| tool.name)),
        Err(error) => {
            let name = lines(&call.tool);
            Err(fail(
                FAILED,
                format!(
                    "cannot look up `{name}`: {error}\nuse the name that `mcpd tools` prints, which needs no look-up"
                ),
            ))
        }
    }
}

/// Calls the tool. If it requires a task (MCP 2025-11-25, `basic/utilities/tasks`), creates one and waits for its result.
async fn send(
    agent: &mut Agent,
    tool: &Tool,
    arguments: &RawValue,
    progress: &Progress,
) -> std::io::Result<Result<Bytes, Value>> {
    let is_task = tool.definition["execution"]["taskSupport"] == "required";
    let meta = stderr().is_terminal().then(|| json!({ "progressToken": PROGRESS_TOKEN }));
    let params = CallParams { name: &tool.name, arguments, task: is_task.then(|| json!({})), meta };
    let on_notification = |method: &[u8], params: &[u8]| progress.update(method, params);
    let response = agent.request_with_notifications("tools/call", &params, on_notification).await?;
    let Some(created) = response.as_ref().ok().filter(|_| is_task) else { return Ok(response) };
    let created: Value = serde_json::from_slice(created)?;
    let id = json!({ "taskId": created["task"]["taskId"] });
    agent.request_with_notifications("tasks/result", &id, on_notification).await
}

/// The hint for a server and a tool as two words, after an error about the second one.
fn separate_name_hint(Call { tool, arguments, .. }: &Call) -> String {
    match arguments.first().filter(|word| is_server_name(tool) && is_plain_word(word)) {
        Some(word) => format!("\nif `{tool}` is a server, write the tool as one word: `mcpd call {tool}/{word}`"),
        None => String::new(),
    }
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) && !word.starts_with('-')
}

async fn cancel(agent: &mut Agent, reason: &str) {
    // If writing fails, the end of the connection cancels the call and its task.
    let _ = timeout(CANCEL_TIMEOUT, agent.cancel(reason)).await;
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn timeout_message(call: &Call) -> String {
    format!("no response within {}", duration::format(call.timeout.unwrap_or_default()))
}

/// Prints why the tool cannot be called: what hides it, or the name of a similar tool that agents see.
async fn unknown_tool(directory: &RuntimeDir, call: &Call, profile: &str, listed: &[Tool]) -> ExitCode {
    let name = &call.tool;
    let origins = tools::origins(directory, profile).await;
    let known = listed.iter().map(|tool| (&*tool.name, origins.qualified(tool)));
    if let Some(server) = tool_names::server_of(name, &origins.servers).filter(|server| server.missing) {
        let (server, state) = (&server.name, &server.state);
        let reason = format!("{server} has not listed its tools, its state is {state}; `mcpd status` shows why");
        return fail(FAILED, format!("{}: the call was not sent: {reason}", lines(name)));
    }
    if origins.servers.iter().any(|server| server.name == *name) {
        let tool = call.arguments.first().filter(|word| is_plain_word(word)).map_or("TOOL", String::as_str);
        let message =
            format!("`{name}` is a server: write its tool as `{name}/{tool}`; `mcpd tools {name}` lists them");
        return fail(USAGE, message);
    }
    if let Some(error) = tool_names::hidden(directory, profile, name).await {
        return fail(FAILED, error);
    }
    let servers = origins.servers.iter().map(|server| &*server.name);
    fail(
        FAILED,
        format!("Unknown tool: {}{}\n{HIDDEN_HINT}", lines(name), tool_names::suggestion(name, known, servers)),
    )
}

struct Process;

impl TextSource for Process {
    fn stdin(&self) -> Result<String, String> {
        let mut text = String::new();
        stdin().lock().read_to_string(&mut text).map(|_| text).map_err(|error| format!("stdin: {error}"))
    }

    fn file(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
    }
}

/// The message of an error object, with its outcome.
pub(super) fn error_message(error: &Value) -> String {
    let message = error["message"].as_str().map_or_else(|| error.to_string(), lines);
    match error["data"]["outcome"].as_str() {
        Some("unknown") => format!("{message} (whether the call had an effect is unknown)"),
        Some("not_sent") => format!("{message} (the call was not sent)"),
        _ => message,
    }
}

struct Progress {
    text: RefCell<String>,
    tool: String,
}

impl Progress {
    fn new(tool: &str) -> Self {
        Self { text: RefCell::new(format!("waiting for {tool}")), tool: tool.to_owned() }
    }

    fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// Ignores notifications that do not report progress.
    fn update(&self, method: &[u8], params: &[u8]) {
        if method == b"notifications/progress"
            && let Ok(params) = serde_json::from_slice::<Value>(params)
        {
            self.text.replace(format!("{}: {}", self.tool, describe(&params)));
        }
    }
}

fn describe(params: &Value) -> String {
    let progress = match (params["progress"].as_f64(), params["total"].as_f64()) {
        (Some(progress), Some(total)) if total > 0.0 => {
            Some(format!("{:.0} %", (progress / total * 100.0).clamp(0.0, 100.0)))
        }
        (Some(_), _) => Some(params["progress"].to_string()),
        _ => None,
    };
    let message = params["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned);
    [progress, message].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_notifications_are_described() {
        for (params, expected) in [
            (json!({ "progress": 1, "total": 3, "message": "reading" }), "t: 33 % · reading"),
            (json!({ "progress": 7, "total": 3 }), "t: 100 %"),
            (json!({ "progress": 12 }), "t: 12"),
            (json!({ "progress": 12, "total": 0, "message": "" }), "t: 12"),
            (json!({ "message": "x" }), "t: x"),
        ] {
            let progress = Progress::new("t");
            progress.update(b"notifications/other", b"{}");
            assert_eq!(progress.text(), "waiting for t");
            progress.update(b"notifications/progress", params.to_string().as_bytes());
            assert_eq!(progress.text(), expected, "{params}");
        }
    }
}
