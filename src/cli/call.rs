//! `mcpd call`: one call of a tool, as an agent makes it.
//!
//! `forms` reads the arguments, `media` saves what is no text, `result` shows the rest.

mod forms;
mod media;
mod progress;
mod result;

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

use self::forms::{Form, Texts};
use self::progress::Progress;
use super::agent::Agent;
use super::profile::ProfileArg;
use super::schema::Schema;
use super::spinner::with_spinner;
use super::text::lines;
use super::tools::{self, Tool};
use super::{FAILED, USAGE, completions, fail, tool_names};
use crate::duration;
use crate::sockets::RuntimeDir;

/// What the call's progress is told under.
const TOKEN: u64 = 1;
/// For the cancellation to be written to a daemon that may read nothing.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Where to look for a tool that agents do not see.
const HIDDEN: &str = "`mcpd tools --all` also has the tools that are hidden from agents, and why";
/// Exit codes after a signal, as shells have them.
const SIGNALLED: i32 = 128;

/// What is called, and how.
#[derive(Debug, Args)]
pub(super) struct Call {
    #[command(flatten)]
    profile: ProfileArg,
    /// Its exposed name, as `mcpd tools` prints it, or SERVER/TOOL; `mcpd tools TOOL` tells what it takes
    #[arg(add = ArgValueCompleter::new(completions::tools))]
    tool: String,
    /// Its arguments: `key=value` (of the type that the tool wants), `key:=JSON`, `key=@FILE` (`@@` for a text that begins with @),
    /// one JSON object, or `-` for one on stdin
    #[arg(value_name = "ARGUMENT", add = ArgValueCompleter::new(completions::arguments))]
    arguments: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// Save images, sounds and blobs in this file, several in numbered ones; with a directory (`DIR/`), there
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Give up after so long, such as 30s, however the daemon is, and have the server told
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

/// The arguments go out as they were typed, number spelling included.
#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

/// How waiting for an answer ends.
enum End {
    Answered(std::io::Result<Result<Bytes, Value>>),
    TimedOut,
    Signalled(i32),
}

pub(super) async fn run(directory: &RuntimeDir, call: &Call) -> ExitCode {
    let form = match Form::of(&call.arguments, &Process) {
        Ok(form) => form,
        Err(error) => return fail(USAGE, error),
    };
    let deadline = call.timeout.map(|limit| Instant::now() + limit);
    let (mut agent, tool) = tokio::select! {
        found = found(directory, call) => match found {
            Ok(found) => found,
            Err(refused) => return refused,
        },
        () = passed(deadline) => return fail(FAILED, format!("{}: the call was not sent", unanswered(call))),
    };
    let arguments = match form.fitted(&Schema::of(&tool.said["inputSchema"]), &Process) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Names and choices are the server's.
            let error = lines(&error);
            return fail(USAGE, format!("{}: {error}\n`mcpd tools {}` tells what it takes", tool.name, tool.name));
        }
    };
    // Ctrl-C from here on has the server told.
    let mut signals = match Signals::new([SIGINT, SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, error),
    };
    let progress = Progress::of(&tool.name);
    let end = tokio::select! {
        answered = with_spinner(|| progress.words(), made(&mut agent, &tool, &arguments, &progress)) => End::Answered(answered),
        () = passed(deadline) => End::TimedOut,
        Some(signal) = signals.next() => End::Signalled(signal),
    };
    match end {
        End::Answered(Ok(Ok(result))) => result::show(&result, &tool.name, call.json, call.output.as_deref()),
        End::Answered(Ok(Err(error))) => fail(FAILED, describe(&error)),
        End::Answered(Err(error)) => fail(FAILED, error),
        End::TimedOut => {
            give_up(&mut agent, "it took too long").await;
            fail(FAILED, format!("{}: the call is cancelled, and may have had an effect", unanswered(call)))
        }
        End::Signalled(signal) => {
            give_up(&mut agent, "the person who called has cancelled").await;
            ExitCode::from(u8::try_from(SIGNALLED + signal).unwrap_or(FAILED))
        }
    }
}

/// Connects as an agent, and finds the tool in its list.
async fn found(directory: &RuntimeDir, call: &Call) -> Result<(Agent, Tool), ExitCode> {
    let mut agent = Agent::of(directory, &call.profile, "mcpd call").await?;
    let listed = with_spinner(|| "waiting for the list of tools".to_owned(), tools::seen(&mut agent)).await;
    let mut listed = listed.map_err(|error| fail(FAILED, error))?;
    let exposed = exposed(directory, call).await?;
    match listed.iter().position(|tool| exposed.as_ref() == Some(&tool.name)) {
        Some(index) => Ok((agent, listed.swap_remove(index))),
        None => Err(unknown(directory, call, &listed).await),
    }
}

/// The name by which agents of the profile see the tool; `None` if they see none in `SERVER/TOOL` form.
async fn exposed(directory: &RuntimeDir, call: &Call) -> Result<Option<String>, ExitCode> {
    if !call.tool.contains('/') {
        return Ok(Some(call.tool.clone()));
    }
    match tool_names::find(directory, Some(call.profile.name()), &call.tool).await {
        Ok((found, _)) => Ok(found.into_iter().find_map(|tool| tool.name)),
        Err(error) => {
            let name = lines(&call.tool);
            Err(fail(
                FAILED,
                format!("cannot look up `{name}`: {error}\nthe name that `mcpd tools` prints needs no look-up"),
            ))
        }
    }
}

/// Makes the call; what can only be a task (MCP 2025-11-25, `basic/utilities/tasks`) is made one, and waited for.
async fn made(
    agent: &mut Agent,
    tool: &Tool,
    arguments: &RawValue,
    progress: &Progress,
) -> std::io::Result<Result<Bytes, Value>> {
    let is_task = tool.said["execution"]["taskSupport"] == "required";
    let meta = stderr().is_terminal().then(|| json!({ "progressToken": TOKEN }));
    let params = CallParams { name: &tool.name, arguments, task: is_task.then(|| json!({})), meta };
    let answered = agent.request_hearing("tools/call", &params, |method, params| progress.hear(method, params)).await?;
    let Some(task) = answered.as_ref().ok().filter(|_| is_task) else { return Ok(answered) };
    let made: Value = serde_json::from_slice(task)?;
    let id = json!({ "taskId": made["task"]["taskId"] });
    agent.request_hearing("tasks/result", &id, |method, params| progress.hear(method, params)).await
}

/// The agent leaves, which ends its tasks as well.
async fn give_up(agent: &mut Agent, reason: &str) {
    // If this cannot be written the connection ends all the same, and the call with it.
    let _ = timeout(CANCEL_TIMEOUT, agent.cancel(reason)).await;
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn unanswered(call: &Call) -> String {
    format!("no answer within {}", duration::format(call.timeout.unwrap_or_default()))
}

/// A denied tool is answered like one that does not exist: only what agents see is suggested.
async fn unknown(directory: &RuntimeDir, call: &Call, listed: &[Tool]) -> ExitCode {
    let name = &call.tool;
    let (own, servers) = tools::own_forms(directory, call.profile.name()).await;
    let known = listed.iter().map(|tool| (&*tool.name, own.get(&tool.name).cloned()));
    if let Some(server) = tool_names::server_of(name, &servers).filter(|server| server.missing) {
        let (server, state) = (&server.name, &server.state);
        let why = format!("{server} has not listed its tools: it is {state}; `mcpd status` says why");
        return fail(FAILED, format!("{}: the call was not sent: {why}", lines(name)));
    }
    let servers = servers.iter().map(|server| &*server.name);
    fail(FAILED, format!("Unknown tool: {}{}\n{HIDDEN}", lines(name), tool_names::suggestion(name, known, servers)))
}

/// What this process can read.
struct Process;

impl Texts for Process {
    fn input(&self) -> Result<String, String> {
        let mut text = String::new();
        stdin().lock().read_to_string(&mut text).map(|_| text).map_err(|error| format!("stdin: {error}"))
    }

    fn file(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
    }
}

/// The message of an error object, and how sure the failure is.
pub(super) fn describe(error: &Value) -> String {
    let message = error["message"].as_str().map_or_else(|| error.to_string(), lines);
    match error["data"]["outcome"].as_str() {
        Some("unknown") => format!("{message} (whether the call had an effect is unknown)"),
        Some("not_sent") => format!("{message} (the call was not sent)"),
        _ => message,
    }
}
