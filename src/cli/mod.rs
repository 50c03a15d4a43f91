//! The command line: arguments, one file per command, what is printed.
//!
//! Knows: everything below it. The only place that prints, and the only one where errors become sentences and exit
//! codes: 0 fine, 1 a server or a call failed, 2 usage or configuration, 3 no daemon.

#[macro_use]
mod outcome;

mod add;
mod agent;
mod call;
mod calls;
mod check;
mod connect;
mod connect_print;
mod demo;
mod edited;
mod health;
mod import;
mod log_level;
mod logs;
mod order;
mod profile;
mod reload;
mod remove;
mod serve;
mod status;
mod text;
mod tools;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use self::health::Health;
use self::outcome::{FAILED, NOT_RUNNING, USAGE, fail, no_connection, put, refused, say};
use self::profile::Door;
use crate::admin::{CallsWanted, LogsWanted, Order};
use crate::logging::Format;
use crate::manager::Toggle;
use crate::server::Cgroups;
use crate::sockets::{RuntimeDir, SocketError};

/// One daemon that owns your MCP servers and serves them to all your agents.
///
/// Exit codes: 0 fine · 1 a server is failed or in backoff, or what was asked for failed · 2 usage or configuration · 3 the
/// daemon is not running.
#[derive(Debug, Parser)]
#[command(name = "mcpd", version, max_term_width = 100)]
struct Arguments {
    /// Directory of sockets and lock [default: $XDG_RUNTIME_DIR/mcpd, else ~/.local/state/mcpd/run]
    #[arg(long, global = true, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground
    Serve {
        /// Configuration, TOML or JSON with `mcpServers`; repeatable [default: /etc/mcpd/config.toml, ~/.config/mcpd/config.toml and config.d/*.toml beside it]
        #[arg(long, value_name = "FILE")]
        config: Vec<PathBuf>,
        /// What is logged: a level, or parts such as `info,mcpd::session=debug` [default: $RUST_LOG, else info]
        #[arg(long, value_name = "FILTER")]
        log: Option<String>,
        /// How it looks on stderr [default: human; if stderr is the journal, entries with fields of the journal's own]
        #[arg(long, value_enum, value_name = "FORMAT")]
        log_format: Option<Format>,
        /// Divide the cgroup that mcpd is started in among servers with limits: it is mcpd's own (systemd's `Delegate=`)
        #[arg(long)]
        own_cgroup: bool,
    },
    /// Show servers, agents and sockets of the running daemon
    Status {
        /// Ask every server that runs how it is first; exit 1 also if one does not answer within its `health_timeout`
        #[arg(long)]
        check: bool,
        /// Print the whole report as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tools that agents see
    Tools {
        #[command(flatten)]
        door: Door,
        /// Print them as the daemon lists them, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool as an agent would
    Call {
        #[command(flatten)]
        door: Door,
        /// Its exposed name, as `mcpd tools` prints it
        tool: String,
        /// Its arguments, a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print the whole result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show who called what, oldest first
    Calls {
        /// Show also the calls that end from now on
        #[arg(short, long)]
        follow: bool,
        /// Show only the calls of this server
        #[arg(long, value_name = "SERVER")]
        server: Option<String>,
        /// Print each call as a line of JSON
        #[arg(long)]
        json: bool,
        /// How many of the calls that have ended
        #[arg(short = 'n', long = "last", value_name = "N", default_value_t = 20)]
        last: usize,
    },
    /// Show what servers write to stderr, oldest first
    Logs {
        /// Show only what this server writes
        server: Option<String>,
        /// Show also the lines that are written from now on
        #[arg(short, long)]
        follow: bool,
        /// Print each line as a line of JSON
        #[arg(long)]
        json: bool,
        /// How many of the lines that are kept, 256 KiB of each server
        #[arg(short = 'n', long = "last", value_name = "N", default_value_t = 100)]
        last: usize,
    },
    /// Start a server again, at once, and wait until it is ready or has failed
    Restart {
        /// Its name, as `mcpd status` prints it
        server: String,
    },
    /// Hide what a server offers, or one of its tools, until it is enabled again or the daemon is started again
    Disable {
        /// The server, as `mcpd status` prints it, or one of its tools
        #[arg(value_name = "SERVER[/TOOL]")]
        what: String,
        /// Stop the server, too
        #[arg(long)]
        stop: bool,
    },
    /// Show again what was disabled; a server that was stopped is started and waited for
    Enable {
        /// The server, as `mcpd status` prints it, or one of its tools
        #[arg(value_name = "SERVER[/TOOL]")]
        what: String,
    },
    /// Say how a server is, whatever it answers when it is asked
    Health {
        /// Its name, as `mcpd status` prints it
        server: String,
        /// How it is
        #[arg(value_enum)]
        health: Health,
    },
    /// Add a server to the configuration, and leave all else in it as it is
    Add(add::Add),
    /// Take a server out of the configuration, and leave all else in it as it is
    Remove(remove::Remove),
    /// Add the servers of other clients on this machine to the configuration, and leave all else in it as it is
    Import(import::Import),
    /// Read the configuration again, as SIGHUP does; servers that do not differ go on undisturbed
    ///
    /// What is new or changed is started beside what runs, which goes on if that fails. Exits with 1 if a server failed, with 2
    /// if the configuration does not hold: then nothing has changed.
    Reload {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what the running daemon logs, or change it until it ends
    LogLevel {
        /// A level, or parts such as `info,mcpd::session=debug`
        filter: Option<String>,
    },
    /// Say what is wrong with the configuration, without starting anything and without a daemon
    Check(check::Arguments),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Join standard input and output to the daemon, for agents that can only launch commands
    Connect {
        #[command(flatten)]
        door: Door,
        /// Print instead what has this client do so, ready to be pasted: claude-code, claude-desktop, codex, cursor, gemini,
        /// vscode, windsurf or zed
        #[arg(long, value_name = "CLIENT")]
        print: Option<String>,
    },
    /// Show what mcpd does, with a built-in server and nothing configured
    Demo,
    /// Run the demonstration's MCP server on standard input and output
    DemoServer,
}

/// Parses the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let Arguments { runtime_dir, command } = Arguments::parse();
    let options = connect_print::options(runtime_dir.as_deref());
    let directory = || RuntimeDir::resolve(runtime_dir, |name| std::env::var_os(name));
    match command {
        Command::DemoServer => crate::demo_server::run(),
        Command::Demo => block_on(demo::run()),
        Command::Serve { config, log, log_format, own_cgroup } => {
            let cgroups = if own_cgroup { Cgroups::of_own() } else { Cgroups::default() };
            with(directory(), |directory| serve::run(&config, &directory, log.as_deref(), log_format, cgroups))
        }
        Command::Status { check, json } => {
            with(directory(), |directory| block_on(status::run(&directory, check, json)))
        }
        Command::Tools { door, json } => with(directory(), |directory| block_on(tools::run(&directory, &door, json))),
        Command::Call { door, tool, arguments, json } => {
            with(directory(), |directory| block_on(call::run(&directory, &door, &tool, &arguments, json)))
        }
        Command::Calls { follow, server, json, last } => {
            let wanted = CallsWanted { last, server, follow };
            with(directory(), |directory| block_on(calls::run(&directory, wanted, json)))
        }
        Command::Logs { server, follow, json, last } => {
            let wanted = LogsWanted { last, server, follow };
            with(directory(), |directory| block_on(logs::run(&directory, wanted, json)))
        }
        Command::Restart { server } => order(directory(), Order::Restart, &server),
        Command::Disable { what, stop: true } if what.contains('/') => {
            fail(USAGE, "`--stop` is for a whole server: a tool has no process of its own")
        }
        Command::Disable { what, stop } => {
            let (wanted, server) =
                order::switch(&what, if stop { Toggle::Stop } else { Toggle::Disable }, Toggle::DisableTool);
            order(directory(), wanted, server)
        }
        Command::Enable { what } => {
            let (wanted, server) = order::switch(&what, Toggle::Enable, Toggle::EnableTool);
            order(directory(), wanted, server)
        }
        Command::Health { server, health } => order(directory(), Order::Vouch(health.into()), &server),
        Command::Add(add) => add::run(&add, directory().ok()),
        Command::Remove(remove) => remove::run(&remove, directory().ok()),
        Command::Import(import) => import::run(&import, directory().ok()),
        Command::Reload { json } => with(directory(), |directory| block_on(reload::run(&directory, json))),
        Command::LogLevel { filter } => {
            with(directory(), |directory| block_on(log_level::run(&directory, filter.as_deref())))
        }
        Command::Check(arguments) => check::run(&arguments),
        Command::Schema => say(crate::config::SCHEMA),
        Command::Connect { door, print: Some(client) } => {
            connect_print::run(&client, &[options, door.options()].concat())
        }
        Command::Connect { door, print: None } => with(directory(), |directory| connect::run(&directory, &door)),
    }
}

fn with(directory: Result<RuntimeDir, SocketError>, run: impl FnOnce(RuntimeDir) -> ExitCode) -> ExitCode {
    match directory {
        Ok(directory) => run(directory),
        Err(error) => fail(USAGE, error),
    }
}

fn order(directory: Result<RuntimeDir, SocketError>, order: Order, server: &str) -> ExitCode {
    with(directory, |directory| block_on(order::run(&directory, order, server)))
}

/// Threads for what would hold up the one that moves all data. They stay once they were needed: when the next large
/// message comes, the system may have no thread to give, and waiting for one that is busy is then all there is.
const HELPERS: usize = 4;

/// Runs `future` on the one thread that moves all data.
fn block_on(future: impl Future<Output = ExitCode>) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    match runtime.enable_all().max_blocking_threads(HELPERS).thread_keep_alive(Duration::MAX).build() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => fail(FAILED, error),
    }
}
