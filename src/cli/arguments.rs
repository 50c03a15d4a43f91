//! What can be asked on the command line: the text of `--help`, one variant for each command.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};

use super::completions::{self, Shell};
use super::profile::ProfileArg;
use crate::known_clients::{CLIENTS, Client};

/// One daemon that owns your MCP servers and serves them to all your agents.
#[derive(Debug, Parser)]
#[command(name = "mcpd", version, max_term_width = 100, after_help = EXIT_CODES, subcommand_value_name = "COMMAND")]
pub(super) struct Arguments {
    /// Directory of sockets and lock [default: $XDG_RUNTIME_DIR/mcpd, else /run/user/UID/mcpd, else ~/.local/state/mcpd/run]
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) runtime_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Takes the clients that mcpd knows, and lists them in errors, `--help` and completions.
fn client() -> impl TypedValueParser<Value = &'static Client> {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.word))
        .try_map(|word| Client::named(&word).ok_or_else(|| format!("unknown client `{word}`")))
}

const EXIT_CODES: &str = "Exit codes: 0 fine · 1 a server is failed or in backoff, or what was asked for failed · 2 usage or \
    configuration · 3 the daemon is not running";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon in the foreground
    Serve(super::serve::Serve),
    /// Start the daemon, unless it runs
    ///
    /// By the units of `mcpd service install` where they are installed, else detached, as `mcpd connect` starts it. Exits with 2 if
    /// the configuration is not valid.
    Start,
    /// Stop the daemon, and wait until no process of it or of its servers is left
    ///
    /// Where systemd runs it, its units are stopped, sockets included. It starts again with the next `mcpd connect`, `mcpd start` or
    /// login. Exits with 3 if no daemon runs.
    Stop(super::stop::Stop),
    /// Show what runs: servers, agents and sockets of the daemon
    Status {
        /// Ask every server that runs how it is first; exit 1 also if one does not answer within its `health_timeout`
        #[arg(long)]
        check: bool,
        /// Show it as it changes, until `q` or Ctrl-C; piped, print it again whenever anything happens
        #[arg(long, conflicts_with = "check")]
        watch: bool,
        /// Print the whole report as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tools that agents see, by server, with what they cost in tokens; or tell what one tool takes
    Tools(super::tools::Tools),
    /// Call a tool as an agent would; Ctrl-C cancels the call
    Call(super::call::Call),
    /// Show what is called now, by server and tool, and how long it takes
    Top(super::top::Top),
    /// Show who called what, oldest first
    Calls {
        /// Show also the calls that end from now on
        #[arg(short, long)]
        follow: bool,
        /// Show only the calls of this server
        #[arg(long, value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
        server: Option<String>,
        /// Show only the calls of this tool: its exposed name, or SERVER/TOOL
        #[arg(long, value_name = "TOOL", add = ArgValueCompleter::new(completions::tools))]
        tool: Option<String>,
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
        #[arg(add = ArgValueCandidates::new(completions::servers))]
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
    #[command(flatten)]
    Control(super::control::ControlCommand),
    /// Add a server to the configuration, and leave all else in it as it is
    Add(super::add::Add),
    /// Take a server out of the configuration, and leave all else in it as it is
    Remove(super::remove::Remove),
    /// Add the servers of other clients to the configuration, and leave all else in it as it is
    Import(super::import::Import),
    /// Read the configuration again, as SIGHUP does; servers that do not differ go on undisturbed
    ///
    /// What is new or changed is started beside what runs, which goes on if that fails. Exits with 1 if a server failed, with 2
    /// if the configuration is not valid: then nothing has changed.
    Reload {
        /// Take the variables that servers need from the login environment first, into the file of the unit; servers with other
        /// values are replaced
        #[arg(long)]
        environment: bool,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what the running daemon logs, or change it until it ends
    LogLevel {
        /// A level, or parts such as `info,mcpd::session=debug`
        filter: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Find what is wrong, and say what to do: the runtime directory, the daemon, the configuration, each server, other clients
    ///
    /// Changes nothing. Where no daemon runs, each server is started to be looked at, and ended again. Exits with 1 if there is a
    /// problem.
    Doctor(super::doctor::Wanted),
    /// Log in to a server that is reached by a URL, in a browser; or show how logins stand
    ///
    /// The browser ends up at a port of this machine that listens as long as this runs. If it is on another machine, paste here the
    /// address that it ends up at.
    Login(super::login::Wanted),
    /// Forget the login of a server, here and where it was given
    Logout(super::logout::Wanted),
    /// Say what is wrong with the configuration, without starting anything and without a daemon
    Check(super::check::Arguments),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Have the user's systemd run the daemon, from each login on
    Service(super::service::Arguments),
    /// Join standard input and output to the daemon, for agents that can only launch commands
    Connect {
        #[command(flatten)]
        profile: ProfileArg,
        /// Print the configuration entry for this client instead
        #[arg(long, value_name = "CLIENT", value_parser = client())]
        print: Option<&'static Client>,
    },
    /// Print what has a shell complete commands, and the names of servers and tools as they are
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of mcpd, or write those of all commands
    Man(super::man::Pages),
    /// Show what mcpd does, with a built-in server and nothing configured
    Demo,
    /// Run the demonstration's MCP server on standard input and output
    DemoServer,
}
