//! The command line: one variant for each command, and the text of `--help`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, CommandFactory, Parser, Subcommand, value_parser};

use super::completions::Shell;
use crate::known_clients::{CLIENTS, Client};

/// One daemon that owns your MCP servers and serves them to all your agents.
#[derive(Debug, Parser)]
#[command(name = "mcpd", version, max_term_width = 100, after_help = EXIT_CODES, subcommand_value_name = "COMMAND")]
pub(super) struct Arguments {
    /// Directory of the sockets and the lock [default: $XDG_RUNTIME_DIR/mcpd, else /run/user/UID/mcpd, else ~/.local/state/mcpd/run]
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) runtime_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Commands that connect to no daemon. They refuse `--runtime-dir`.
pub(super) const WITHOUT_DAEMON: [&str; 4] = ["completions", "demo", "schema", "service"];

/// The definition of the command line.
pub fn command_line() -> clap::Command {
    // It replaces the global option below these commands, so that their `--help` does not list it.
    let hidden =
        Arg::new("runtime_dir").long("runtime-dir").value_parser(value_parser!(PathBuf)).global(true).hide(true);
    let hide = |program: clap::Command, name| program.mut_subcommand(name, |command| command.arg(hidden.clone()));
    WITHOUT_DAEMON.into_iter().fold(Arguments::command(), hide)
}

/// Parses the name of a known client. Errors, `--help` and completions list all of them.
pub(super) fn client() -> impl TypedValueParser<Value = &'static Client> {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.word))
        .try_map(|word| Client::named(&word).ok_or_else(|| format!("unknown client `{word}`")))
}

const EXIT_CODES: &str = "Exit codes: 0 success · 1 the command failed, or a server is down · 2 wrong usage or \
    configuration · 3 the daemon is not running";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon in the foreground
    Serve(super::serve::Serve),
    /// Start the daemon, unless it runs
    ///
    /// If the units of `mcpd service install` are installed, systemd starts it. Otherwise it runs detached from this terminal. Exits
    /// with 2 if the configuration is not valid.
    #[command(alias = "up")]
    Start(super::start::Start),
    /// Stop the daemon, and wait until it and all servers have ended
    ///
    /// If systemd runs it, its units are stopped, including the sockets. The next `mcpd connect`, `mcpd start` or login starts it
    /// again. Exits with 3 if no daemon runs.
    #[command(alias = "down")]
    Stop(super::stop::Stop),
    /// Show servers and agents, problems first
    #[command(aliases = ["ps", "list", "ls"])]
    Status(super::status::Status),
    /// List the tools that agents see, with their cost in tokens; or describe one tool
    Tools(super::tools::Tools),
    /// Call a tool as an agent would; Ctrl-C cancels the call
    Call(super::call::Call),
    /// Show call rates, errors and latency of the last minute, by server and tool
    Top(super::top::Top),
    /// Show recorded calls, oldest first
    Calls(super::calls::Calls),
    /// Show what servers write to stderr, oldest first
    Logs(super::logs::Logs),
    #[command(flatten)]
    Control(super::control::ControlCommand),
    /// Add a server to the configuration; the rest of the file stays as it is
    Add(super::add::Add),
    /// Edit the configuration in your editor; it is saved only if it is valid, and applied
    ///
    /// The editor is $VISUAL, else $EDITOR, with its options; without both, `sensible-editor`, `nano` or `vi`. If there are mistakes, they
    /// are shown at their lines as comments, which are never saved.
    Edit(super::edit::Edit),
    /// Remove a server from the configuration; the rest of the file stays as it is
    #[command(aliases = ["rm", "delete"])]
    Remove(super::remove::Remove),
    /// Add the servers of other clients to the configuration; the rest of the file stays as it is
    Import(super::import::Import),
    /// Apply the changed configuration; unchanged servers keep running
    ///
    /// SIGHUP does the same. A new server is started. For a changed server, the new process is started first, and the old one is
    /// stopped only if the new one is ready. Exits with 2 if the configuration is not valid, and changes nothing. Exits with 1 if a new or changed server does not start.
    Reload(super::reload::Arguments),
    /// Find problems and print their solutions: runtime directory, daemon, configuration, servers and clients
    ///
    /// Changes nothing without `--fix`. If no daemon runs, each server is started for the test and stopped again. Exits with 1 if there is a problem.
    Doctor(super::doctor::Arguments),
    /// Run a command in the sandbox of a server; needs no daemon
    ///
    /// The command gets the environment, the working directory and the restrictions of the server, in a session of its own: a shell has no
    /// job control. Exits with the code of the command, or with 128 and the number of the signal that ended it.
    Sandbox(super::sandbox::Arguments),
    /// Log in to a server with a URL, in a browser; or list all logins
    ///
    /// After the login, the browser is redirected to a port of this machine. If the browser runs on another machine, paste the address of
    /// that page here.
    Login(super::login::Arguments),
    /// Revoke the login of a server and delete its tokens
    Logout(super::logout::Arguments),
    /// Validate the configuration; needs no daemon and starts nothing
    Check(super::check::Arguments),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Run the daemon as a systemd user service, from each login on
    Service(super::service::Arguments),
    /// Print the token for agents on the loopback address of a profile; `--rotate` replaces it
    Token(super::token::Arguments),
    /// Connect an agent: agents launch it as their MCP server; with the name of a client it prints the entry to add there
    Connect(super::connect::Arguments),
    /// Print the completion script of a shell; it completes commands, servers and tools
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Show what mcpd does, with a built-in server; needs no configuration
    Demo,
}
