//! The command line: arguments, one file per command, and all output.
//!
//! This is the only module that prints, and the only one that turns errors into sentences and exit codes. It may import every other
//! module. 0 is success, 1 a command that failed or a server that is down, 2 usage or configuration, 3 no daemon, and 4, of
//! `mcpd serve`, another daemon in the directory.

#[macro_use]
mod outcome;

mod add;
mod agent;
mod approve;
mod arguments;
mod browser;
mod bugreport;
mod call;
mod calls;
mod changes;
mod check;
mod client_changes;
mod client_entries;
mod completions;
mod config_edit;
mod connect;
mod control;
mod daemon_report;
mod dashboard;
mod demo;
mod diff;
mod doctor;
mod edit;
mod import;
mod keep;
mod link;
mod lock;
mod login;
mod logs;
mod metrics;
mod prompt;
mod reject;
mod reload;
mod remove;
mod restart;
mod sandbox;
mod scroll;
mod serve;
mod service;
mod service_env;
mod setup;
mod skill;
mod start;
mod status;
mod stop;
mod style;
mod tap;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod tips;
mod token;
mod tool_names;
mod tool_schema;
mod tools;
mod top;
mod try_server;
mod unlink;

use std::path::PathBuf;
use std::process::ExitCode;

pub use self::arguments::command_line;
use self::arguments::{Arguments, Command, parse_arguments};
pub(in crate::cli) use self::outcome::{
    CommandResult, FAILED, NOT_RUNNING, RESTART, USAGE, admin_failure, block_on, connect_failure, fail, not_running,
    print, start_failure, try_print,
};
use crate::sockets::{RuntimeDir, SocketError};

/// Parses the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = crate::detach::run_if_detached().or_else(completions::answer) {
        return code;
    }
    let Arguments { runtime_dir, command } = parse_arguments();
    let directory = RuntimeDir::resolve(runtime_dir.clone(), |name: &str| std::env::var_os(name));
    run(command, runtime_dir, directory).unwrap_or_else(|code| code)
}

/// `given` is the value of `--runtime-dir`, `directory` the resolved one.
fn run(command: Command, given: Option<PathBuf>, directory: Result<RuntimeDir, SocketError>) -> CommandResult {
    match command {
        Command::Demo => block_on(demo::run()),
        Command::Serve(serve) => serve::run(&serve, &usable(directory)?),
        Command::Start(start) => run_in(directory, async |directory| start::run(directory, &start).await),
        Command::Stop(stop) => run_in(directory, async |directory| stop::run(directory, &stop).await),
        Command::Status(status) => run_in(directory, async |directory| status::run(directory, &status).await),
        Command::Tools(tools) => run_in(directory, async |directory| tools::run(directory, &tools).await),
        Command::Call(call) => run_in(directory, async |directory| call::run(directory, &call).await),
        Command::Top(top) => run_in(directory, async |directory| top::run(directory, &top).await),
        Command::Metrics => run_in(directory, async |directory| metrics::run(directory).await),
        Command::Dashboard(dashboard) => {
            run_in(directory, async |directory| dashboard::run(directory, dashboard.0).await)
        }
        Command::Calls(calls) => run_in(directory, async |directory| calls::run(directory, calls.0).await),
        Command::Tap(tap) => run_in(directory, async |directory| tap::run(directory, tap.0).await),
        Command::Logs(logs) => run_in(directory, async |directory| logs::run(directory, logs.0).await),
        Command::Diff(diff) => run_in(directory, async |directory| changes::run(directory, &diff).await),
        Command::Approve(approve) => run_in(directory, async |directory| approve::run(directory, &approve).await),
        Command::Reject(reject) => run_in(directory, async |directory| reject::run(directory, reject.0).await),
        Command::Control(command) => run_in(directory, async |directory| control::run(directory, &command).await),
        Command::Add(add) => add::run(&add, directory.ok()),
        Command::Try(server) => try_server::run(server.0, directory.ok()),
        Command::Edit(edit) => edit::run(edit.0, directory.ok()),
        Command::Remove(remove) => remove::run(&remove, directory.ok()),
        Command::Import(import) => import::run(&import, directory.ok()),
        Command::Setup(setup) => setup::run(&setup, given.as_deref(), &usable(directory)?),
        Command::Link(link) => link::run(&link, given.as_deref(), directory.ok().as_ref()),
        Command::Unlink(unlink) => unlink::run(&unlink),
        Command::Reload(reload) => run_in(directory, async |directory| reload::run_command(directory, reload.0).await),
        Command::Doctor(doctor) => block_on(doctor::run(&doctor, given, directory.ok())),
        Command::Bugreport(report) => block_on(bugreport::run(report.0, given, directory.ok())),
        Command::Login(login) => block_on(login::run(&login, given, directory.ok())),
        Command::Logout(logout) => block_on(login::run_logout(&logout, given, directory.ok())),
        Command::Lock(lock) => lock::run(&lock, given.as_deref(), directory.ok()),
        Command::Sandbox(arguments) => block_on(sandbox::run(arguments.0, given, directory.ok())),
        Command::Check(arguments) => block_on(check::run(&arguments, directory.ok())),
        Command::Completions { shell } => completions::run(shell),
        Command::Service(arguments) => block_on(service::run(&arguments, &usable(directory)?)),
        Command::Schema => Ok(print(crate::config::SCHEMA)),
        Command::Skill => skill::run(),
        Command::Token(arguments) => block_on(token::run(&arguments, directory.ok().as_ref())),
        Command::Connect(arguments) => match arguments.print() {
            Some(client) => connect::print_entries(client, &arguments, given.as_deref(), directory.ok().as_ref()),
            None => run_in(directory, async |directory| connect::run(directory, &arguments).await),
        },
    }
}

fn run_in(
    directory: Result<RuntimeDir, SocketError>,
    command: impl AsyncFnOnce(&RuntimeDir) -> CommandResult,
) -> CommandResult {
    block_on(command(&usable(directory)?))
}

fn usable(directory: Result<RuntimeDir, SocketError>) -> Result<RuntimeDir, ExitCode> {
    directory.map_err(|error| fail(USAGE, error))
}
