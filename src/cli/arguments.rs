//! The command line: one variant for each command, the text of `--help`, and the overviews of `mcpd --help` (commands of daily use) and of
//! `mcpd help --all` (all commands).

use std::ffi::OsString;
use std::fmt::Write;
use std::ops::Deref;
use std::path::PathBuf;

use anstyle::Style;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, CommandFactory, Error, FromArgMatches, Parser, Subcommand, value_parser};

use super::completions::Shell;
use super::tips::with_tip;
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
const WITHOUT_DAEMON: [&str; 5] = ["completions", "demo", "schema", "service", "skill"];

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
    Serve(Deferred<super::serve::Serve>),
    /// Start the daemon, unless it runs
    ///
    /// If the units of `mcpd service install` are installed, systemd starts it. Otherwise it runs detached from this terminal. Exits
    /// with 2 if the configuration is not valid.
    #[command(alias = "up")]
    Start(Deferred<super::start::Start>),
    /// Stop the daemon, and wait until it and all servers have ended
    ///
    /// If systemd runs it, its units are stopped, including the sockets. The next `mcpd connect`, `mcpd start` or login starts it
    /// again. Exits with 3 if no daemon runs.
    #[command(alias = "down")]
    Stop(Deferred<super::stop::Stop>),
    /// Show servers and agents, problems first
    #[command(aliases = ["ps", "list", "ls"])]
    Status(Deferred<super::status::Status>),
    /// List the tools that agents see, with their cost in tokens; or describe one tool
    Tools(Deferred<super::tools::Tools>),
    /// Call a tool as an agent would; Ctrl-C cancels the call
    Call(Deferred<super::call::Call>),
    /// Show call rates, errors and latency of the last minute, by server and tool
    Top(Deferred<super::top::Top>),
    /// Print metrics in the text format of Prometheus: durations, states, memory
    ///
    /// `GET /metrics` at the loopback address of a profile returns the metrics of its servers.
    Metrics,
    /// Open a page with servers, agents, calls and tools in a browser
    ///
    /// A separate process serves the page on a loopback address, for your browser only. The page is read-only. The process ends 10 minutes
    /// after the last page was closed, or with the daemon.
    Dashboard(Deferred<super::dashboard::Dashboard>),
    /// Show recorded calls, oldest first
    Calls(Deferred<super::calls::Calls>),
    /// Show what servers write to stderr, oldest first
    Logs(Deferred<super::logs::Logs>),
    /// Show the messages of agents and servers as they pass, from now on
    ///
    /// `→` marks messages towards servers: from an agent to mcpd, or from mcpd to a server. `←` marks the other direction. `…` replaces the
    /// secrets of the configuration, and the text of members with names such as `password`. Ctrl-C ends the command.
    Tap(Deferred<super::tap::Tap>),
    /// Show what servers have changed since your last approval, word by word
    ///
    /// mcpd compares tools, prompts, resource templates and instructions each time a server lists them. Invisible characters are shown as
    /// escapes. On a terminal, long texts are cut to the changed parts; a pipe gets everything.
    Diff(Deferred<super::changes::Diff>),
    /// Approve changed or new definitions of a server, after showing them
    ///
    /// Approves exactly the definitions that it has shown. If one has changed again in the meantime, it is not approved, and the exit code is 1.
    Approve(Deferred<super::approve::Approve>),
    /// Hide tools of a server for good: adds them to `deny`
    Reject(Deferred<super::reject::Reject>),
    #[command(flatten)]
    Control(super::control::ControlCommand),
    /// Set everything up: import the servers of your clients, run the daemon, link the clients
    ///
    /// Each step shows what it changes, and asks. Run it again at any time: it does only what is left to do. Without systemd, the daemon
    /// is started without a service. Exits with 1 if a client could not be linked; the others are.
    Setup(Deferred<super::setup::Setup>),
    /// Add a server to the configuration; the rest of the file stays as it is
    Add(Deferred<super::add::Add>),
    /// Run a server that is not configured, and show what it touches. `--keep` adds it to the configuration
    ///
    /// The server runs in a sandbox with a temporary home directory, without your files and secrets. It sees copies of the directories that
    /// its command line names, and nothing is left behind. Needs no daemon. With `strace`, the receipt lists the programs, files and hosts
    /// that the server has used. Exits with 1 if the server did not get ready, or if the call failed.
    Try(Deferred<super::try_server::TryServer>),
    /// Edit the configuration in your editor; it is saved only if it is valid, and applied
    ///
    /// The editor is $VISUAL, else $EDITOR, with its options; without both, `sensible-editor`, `nano` or `vi`. If there are mistakes, they
    /// are shown at their lines as comments, which are never saved.
    Edit(Deferred<super::edit::Edit>),
    /// Remove a server from the configuration; the rest of the file stays as it is
    #[command(aliases = ["rm", "delete"])]
    Remove(Deferred<super::remove::Remove>),
    /// Add the servers of other clients to the configuration; the rest of the file stays as it is
    Import(Deferred<super::import::Import>),
    /// Connect clients to mcpd: write its entry into their own files; `mcpd unlink` undoes it
    ///
    /// Each difference is shown and confirmed. Comments, order and line ends of a file stay as they are. With `--take-over` the servers that
    /// mcpd runs go from the file, so that the client does not start its own copies. Exits with 1 if one client failed; the others are
    /// linked.
    Link(Deferred<super::link::Link>),
    /// Undo `mcpd link`: the clients' files are as they were
    ///
    /// A file that nobody has changed since gets its old bytes back. From a changed one, mcpd's entry is removed, and the servers come back that
    /// were taken over. Without a record, an entry that runs `mcpd connect` is removed.
    Unlink(Deferred<super::unlink::Unlink>),
    /// Apply the changed configuration; unchanged servers keep running
    ///
    /// SIGHUP does the same. A new server is started. For a changed server, the new process is started first, and the old one is
    /// stopped only if the new one is ready. Exits with 2 if the configuration is not valid, and changes nothing. Exits with 1 if a new or changed server does not start.
    Reload(Deferred<super::reload::Arguments>),
    /// Find problems and print their solutions: runtime directory, daemon, configuration, servers and clients
    ///
    /// Changes nothing without `--fix`. If no daemon runs, each server is started for the test and stopped again. Exits with 1 if there is a problem.
    Doctor(Deferred<super::doctor::Arguments>),
    /// Write an archive for a bug report: versions, configuration, status and logs, without secrets
    ///
    /// Works without a daemon, and starts no server. Prints what the archive contains. `--tap` also records the messages of agents and servers.
    Bugreport(Deferred<super::bugreport::Bugreport>),
    /// Run a command in the sandbox of a server; needs no daemon
    ///
    /// The command gets the environment, the working directory and the restrictions of the server, in a session of its own: a shell has no
    /// job control. Exits with the code of the command, or with 128 and the number of the signal that ended it.
    Sandbox(Deferred<super::sandbox::Arguments>),
    /// Write the versions that servers run into the configuration; `--check` reports what is not locked
    ///
    /// The versions are those in the caches of npx, pnpm dlx, bunx, uvx, pipx run, docker run and podman run, so no network is needed. Shows the
    /// difference, and asks. Prints the reason for each server that cannot be locked. `--check` exits with 1 if a version is not exact, or if
    /// definitions differ from the approved ones.
    Lock(Deferred<super::lock::Lock>),
    /// Log in to a server with a URL, in a browser; or list all logins
    ///
    /// After the login, the browser is redirected to a port of this machine. If the browser runs on another machine, paste the address of
    /// that page here.
    Login(Deferred<super::login::Arguments>),
    /// Revoke the login of a server and delete its tokens
    Logout(Deferred<super::login::LogoutArguments>),
    /// Validate the configuration; needs no daemon and starts nothing
    Check(Deferred<super::check::Arguments>),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print a skill for agents that have a shell: how to find and call tools without a list of them in the context
    Skill,
    /// Run the daemon as a systemd user service, from each login on
    Service(Deferred<super::service::Arguments>),
    /// Print the token for the loopback address of a profile; `--rotate` replaces it
    Token(Deferred<super::token::Arguments>),
    /// Connect an agent: agents launch it as their MCP server; with the name of a client it prints the entry to add there
    Connect(Deferred<super::connect::Arguments>),
    /// Print the completion script of a shell; it completes commands, servers and tools
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Show what mcpd does, with a built-in server; needs no configuration
    Demo,
}

/// The arguments of a command. clap learns them when the command is used: to build those of all commands takes a fifth of the time of
/// `mcpd call`.
#[derive(Debug)]
pub(super) struct Deferred<T>(pub(super) T);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// A heading, its commands of daily use, and its other commands.
const GROUPS: [(&str, &[&str], &[&str]); 3] = [
    (
        "Set up",
        &["setup", "import", "link", "add"],
        &[
            "try",
            "edit",
            "unlink",
            "connect",
            "remove",
            "check",
            "lock",
            "service",
            "login",
            "logout",
            "token",
            "demo",
            "completions",
            "schema",
            "skill",
        ],
    ),
    (
        "Look",
        &["status", "tools", "call", "logs", "doctor"],
        &["diff", "calls", "top", "dashboard", "metrics", "tap", "bugreport", "sandbox"],
    ),
    ("Control", &["start", "stop", "restart"], &["approve", "reject", "reload", "enable", "disable", "serve"]),
];
const HEADING: Style = Style::new().bold();
const EXAMPLES: [(&str, &str); 5] = [
    ("mcpd demo", "see what mcpd does, without a configuration"),
    ("mcpd setup", "import servers, run the daemon, link clients"),
    ("mcpd setup --undo", "give everything back as it was"),
    ("mcpd link claude-code", "connect one more client"),
    ("mcpd status --watch", "watch servers and agents"),
];
/// Requests for help.
const HELP: [&str; 3] = ["help", "--help", "-h"];
/// Words after one of [`HELP`] for the overview of all commands.
const ALL: [&str; 3] = ["--all", "-a", "all"];
/// Words for `--version`.
const VERSION: [&str; 2] = ["version", "-v"];

/// Which commands an overview lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Daily,
    All,
}

/// Parses the arguments of this process. Exits if they are wrong or request help.
pub(super) fn parse_arguments() -> Arguments {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let texts: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut extent = Extent::Daily;
    match &texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [help, all] if HELP.contains(help) && ALL.contains(all) => {
            extent = Extent::All;
            words.pop();
        }
        [version] if VERSION.contains(version) => words[1] = "--version".into(),
        _ => {}
    }
    let program = command_line();
    let overview = overview(&program, extent);
    let mut program = program.override_help(overview);
    let matches =
        program.try_get_matches_from_mut(words).unwrap_or_else(|error| with_tip(error, &texts, &program).exit());
    if let Some(command) = matches.subcommand_name().filter(|name| WITHOUT_DAEMON.contains(name))
        && matches.contains_id("runtime_dir")
    {
        let why = match command {
            "service" => "its units use the default runtime directory; `mcpd serve --runtime-dir DIR` uses another",
            _ => "it connects to no daemon",
        };
        let message = format!("`mcpd {command}` does not accept `--runtime-dir`: {why}");
        program.error(ErrorKind::ArgumentConflict, message).exit();
    }
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn overview(program: &clap::Command, extent: Extent) -> String {
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\n{HEADING}Usage:{HEADING:#} mcpd COMMAND\n");
    for (heading, daily, others) in GROUPS {
        let others = if extent == Extent::All { others } else { &[] };
        let _ = writeln!(text, "\n{HEADING}{heading}:{HEADING:#}");
        for name in daily.iter().chain(others) {
            let about = program.find_subcommand(name).map(short_about).unwrap_or_default();
            let _ = writeln!(text, "  {name:12} {about}");
        }
    }
    if extent == Extent::Daily {
        let _ = writeln!(text, "\n{HEADING}Examples:{HEADING:#}");
        for (line, purpose) in EXAMPLES {
            let _ = writeln!(text, "  {line:26} {purpose}");
        }
        text += "\n`mcpd help --all` lists every command, `mcpd help COMMAND` describes one.\n";
    } else {
        text += "\n`mcpd help COMMAND` describes a command. Commands that connect to a daemon\n\
                 accept `--runtime-dir DIR`, the directory of its sockets.\n";
    }
    text + "\nExit codes: 0 success · 1 the command failed, or a server is down ·\n\
            2 wrong usage or configuration · 3 the daemon is not running\n"
}

/// The first part of its description. `mcpd COMMAND --help` prints the rest.
fn short_about(command: &clap::Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.split([',', ':', ';']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that an overview lists.
    fn listed(text: &str) -> Vec<&str> {
        let lines = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  mcpd"));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    }

    #[test]
    fn overviews_list_twelve_commands_and_every_command_once_in_eighty_columns() {
        let program = command_line();
        for (extent, count) in [(Extent::Daily, 12), (Extent::All, program.get_subcommands().count())] {
            let text = anstream::adapter::strip_str(&overview(&program, extent)).to_string();
            let mut names = listed(&text);
            assert!(names.iter().all(|name| program.find_subcommand(name).is_some()), "{text}");
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
