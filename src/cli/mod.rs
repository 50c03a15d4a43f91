//! The command line: arguments, one file per command, what is printed.
//!
//! Knows: everything below it. The only place that prints, and the only one where errors become sentences and exit
//! codes: 0 fine, 1 a server or a call failed, 2 usage or configuration, 3 no daemon.

#[macro_use]
mod outcome;

mod add;
mod agent;
mod arguments;
mod call;
mod calls;
mod changed_files;
mod check;
mod completions;
mod config_edit;
mod connect;
mod connect_print;
mod control;
mod demo;
mod doctor;
mod health;
mod help;
mod import;
mod json;
mod local_time;
mod log_level;
mod login;
mod logout;
mod logs;
mod man;
mod poll;
#[cfg(test)]
mod printed;
mod profile;
mod reload;
mod remove;
mod schema;
mod screen;
mod serve;
mod service;
mod service_env;
mod spinner;
mod start;
mod status;
mod stop;
mod style;
mod text;
mod tips;
mod tool_names;
mod tools;
mod top;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use self::arguments::{Arguments, Command};
use self::outcome::{FAILED, NOT_RUNNING, RESTART, USAGE, admin_failure, connect_failure, fail, print, try_print};
use self::reload::Scope;
use crate::admin::{CallsWanted, LogsWanted};
use crate::sockets::{RuntimeDir, SocketError};

/// Parses the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(done) = crate::detach::run_if_apart().or_else(completions::answer) {
        return done;
    }
    let Arguments { runtime_dir, command } = help::parse();
    let var = |name: &str| std::env::var_os(name);
    let found = RuntimeDir::resolve(runtime_dir.clone(), var);
    run(command, runtime_dir, found)
}

/// Runs the command. `given` is the runtime directory that was named, `directory` the one that was found.
fn run(command: Command, given: Option<PathBuf>, directory: Result<RuntimeDir, SocketError>) -> ExitCode {
    match command {
        Command::DemoServer => crate::demo_server::run(),
        Command::Demo => block_on(demo::run()),
        Command::Serve(wanted) => with(directory, |directory| serve::run(&wanted, &directory)),
        Command::Start => with(directory, |directory| block_on(start::run(&directory))),
        Command::Stop(stop) => with(directory, |directory| block_on(stop::run(&directory, &stop))),
        Command::Status { watch: true, json, .. } => {
            with(directory, |directory| block_on(status::watch(&directory, json)))
        }
        Command::Status { check, json, .. } => {
            with(directory, |directory| block_on(status::run(&directory, check, json)))
        }
        Command::Tools(tools) => with(directory, |directory| block_on(tools::run(&directory, &tools))),
        Command::Call(call) => with(directory, |directory| block_on(call::run(&directory, &call))),
        Command::Top(top) => with(directory, |directory| block_on(top::run(&directory, &top))),
        Command::Calls { follow, server, tool, json, last } => {
            let wanted = CallsWanted { last, server, follow, tool: None };
            with(directory, |directory| block_on(calls::run(&directory, wanted, tool, json)))
        }
        Command::Logs { server, follow, json, last } => {
            let wanted = LogsWanted { last, server, follow };
            with(directory, |directory| block_on(logs::run(&directory, wanted, json)))
        }
        Command::Control(command) => with(directory, |directory| block_on(control::run(&directory, &command))),
        Command::Add(add) => add::run(&add, directory.ok()),
        Command::Remove(remove) => remove::run(&remove, directory.ok()),
        Command::Import(import) => import::run(&import, directory.ok()),
        Command::Reload { environment, json } => {
            with(directory, |directory| block_on(reload::run(&directory, environment, json, Scope::All)))
        }
        Command::LogLevel { filter, json } => {
            with(directory, |directory| block_on(log_level::run(&directory, filter.as_deref(), json)))
        }
        Command::Doctor(wanted) => block_on(doctor::run(&wanted, given, directory.ok())),
        Command::Login(wanted) => block_on(login::run(&wanted, given, directory.ok())),
        Command::Logout(wanted) => block_on(logout::run(&wanted, given, directory.ok())),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions { shell } => completions::run(shell),
        Command::Man(pages) => man::run(&pages),
        Command::Service(arguments) => service::run(&arguments, directory),
        Command::Schema => print(crate::config::SCHEMA),
        Command::Connect { profile, print: Some(client) } => {
            let options = [connect_print::options(given.as_deref()), profile.options()].concat();
            connect_print::run(client, &options, directory.ok().as_ref())
        }
        Command::Connect { profile, print: None } => {
            with(directory, |directory| block_on(connect::run(&directory, &profile)))
        }
    }
}

fn with(directory: Result<RuntimeDir, SocketError>, run: impl FnOnce(RuntimeDir) -> ExitCode) -> ExitCode {
    match directory {
        Ok(directory) => run(directory),
        Err(error) => fail(USAGE, error),
    }
}

/// Threads for what would hold up the one that moves all data. They stay once they were needed: when the next large
/// message comes, the system may have no thread to give, and waiting for one that is busy is then all there is.
const HELPERS: usize = 4;
/// How long helpers are waited for at the end.
const LAST_HELP: Duration = Duration::from_secs(1);

/// Runs `future` on the one thread that moves all data.
fn block_on(future: impl Future<Output = ExitCode>) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    match runtime.enable_all().max_blocking_threads(HELPERS).thread_keep_alive(Duration::MAX).build() {
        Ok(runtime) => {
            let code = runtime.block_on(future);
            // A helper may wait for a dead disk.
            runtime.shutdown_timeout(LAST_HELP);
            code
        }
        Err(error) => fail(FAILED, error),
    }
}
