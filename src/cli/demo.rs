//! `mcpd demo`: starts a daemon with a built-in server in a temporary directory, and shows what it does.

use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::agent::Agent;
use super::call::error_message;
use super::style::OutputStyle;
use super::{CommandResult, FAILED, fail, status, tools};
use crate::admin;
use crate::admin::report::Report;
use crate::demo_server::ARGUMENT;
use crate::sockets::{ADMIN_SOCKET, AGENT_SOCKET, ExpectedListener, RuntimeDir};

/// For the daemon to accept connections, and to stop.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

pub(super) async fn run() -> CommandResult {
    match show().await {
        Ok(true) => Ok(ExitCode::SUCCESS),
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Ok(false) => Err(fail(FAILED, "the demonstration failed: see the output above")),
        Err(error) => Err(fail(FAILED, error)),
    }
}

async fn show() -> io::Result<bool> {
    let temp_dir = tempfile::Builder::new().prefix("mcpd-demo-").tempdir()?;
    let directory = RuntimeDir::resolve(Some(temp_dir.path().join("run")), |_| None).map_err(io::Error::other)?;
    let config = temp_dir.path().join("config.toml");
    let text = configuration(&std::env::current_exe()?);
    std::fs::write(&config, &text)?;
    writeln!(io::stdout(), "── a daemon with this configuration ──\n{text}")?;

    let mut daemon = start(&config, &directory, temp_dir.path())?;
    let (mut first, mut second) = connect_two(&directory.socket(AGENT_SOCKET)).await?;
    writeln!(io::stdout(), "── two agents see the same tools, without the denied one ──")?;
    for (name, agent) in [("first", &mut first), ("second", &mut second)] {
        let names: Vec<_> = tools::list(agent).await?.into_iter().map(|tool| tool.name).collect();
        writeln!(io::stdout(), "{name} agent: {}", names.join(", "))?;
    }
    let is_denied = show_calls(&mut first, &mut second).await?;
    let report = admin::status(&directory.socket(ADMIN_SOCKET)).await.map_err(io::Error::other)?;
    writeln!(
        io::stdout(),
        "\n── mcpd status: one copy of the server serves both ──\n{}",
        status::render(&report, OutputStyle::of_stdout())
    )?;
    drop((first, second));

    let ended = stop(&mut daemon).await?;
    let left = processes_left(&report);
    writeln!(io::stdout(), "── after SIGTERM the daemon has ended ({ended}) ──")?;
    writeln!(io::stdout(), "processes left: {}", if left.is_empty() { "none".to_owned() } else { left.join(", ") })?;
    Ok(is_denied && ended.success() && left.is_empty())
}

fn configuration(mcpd: &Path) -> String {
    // TOML strings may be written like JSON strings.
    let command = Value::from(mcpd.to_string_lossy());
    format!("[servers.demo]\ncommand = {command}\nargs = [\"{ARGUMENT}\"]\ndeny = [\"delete_*\"]\n")
}

/// Starts the daemon, which keeps all its files in `home`.
fn start(config: &Path, directory: &RuntimeDir, home: &Path) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--config").arg(config).arg("--runtime-dir").arg(directory.path());
    command.env("XDG_CACHE_HOME", home.join("cache")).env("XDG_STATE_HOME", home.join("state"));
    command.env("RUST_LOG", "warn").kill_on_drop(true).spawn()
}

async fn connect_two(socket: &Path) -> io::Result<(Agent, Agent)> {
    let deadline = Instant::now() + DAEMON_TIMEOUT;
    let first = loop {
        match Agent::connect(socket, ExpectedListener::OwnDaemon, "first agent").await {
            Err(_) if Instant::now() < deadline => sleep(CONNECT_INTERVAL).await,
            connected => break connected?,
        }
    };
    Ok((first, Agent::connect(socket, ExpectedListener::OwnDaemon, "second agent").await?))
}

/// Each agent calls a tool, and one calls a denied tool. `true` if only the last call failed.
async fn show_calls(first: &mut Agent, second: &mut Agent) -> io::Result<bool> {
    writeln!(io::stdout(), "\n── each of them calls ──")?;
    let echoed = call(first, "demo__echo", json!({ "text": "hello" })).await?;
    writeln!(io::stdout(), "first agent:  demo__echo {{\"text\":\"hello\"}} → {}", describe(&echoed))?;
    let added = call(second, "demo__add", json!({ "a": 2, "b": 3 })).await?;
    writeln!(io::stdout(), "second agent: demo__add {{\"a\":2,\"b\":3}} → {}", describe(&added))?;
    let denied = call(first, "demo__delete_everything", json!({})).await?;
    writeln!(io::stdout(), "first agent:  demo__delete_everything {{}} → {}", describe(&denied))?;
    Ok(echoed.is_ok() && added.is_ok() && denied.is_err())
}

async fn call(agent: &mut Agent, tool: &str, arguments: Value) -> io::Result<Result<Value, Value>> {
    let answer = agent.request("tools/call", &json!({ "name": tool, "arguments": arguments })).await?;
    answer.map_or_else(|error| Ok(Err(error)), |result| Ok(Ok(serde_json::from_slice(&result)?)))
}

fn describe(answer: &Result<Value, Value>) -> String {
    match answer {
        Ok(result) => result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
        Err(error) => format!("refused: {}", error_message(error)),
    }
}

async fn stop(daemon: &mut Child) -> io::Result<ExitStatus> {
    let pid = daemon.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.ok_or(io::ErrorKind::NotFound)?, Signal::TERM)?;
    timeout(DAEMON_TIMEOUT, daemon.wait()).await?
}

/// Processes in the report that still exist.
fn processes_left(report: &Report) -> Vec<String> {
    let servers = report.servers.iter().flat_map(|server| [server.pid, server.guard_pid]).flatten();
    let all = servers.chain([report.pid]);
    all.map(|pid| pid.to_string()).filter(|pid| Path::new("/proc").join(pid).exists()).collect()
}
