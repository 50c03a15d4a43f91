//! The command line, so that a test's config shows how its server behaves.

use std::path::PathBuf;

/// How it speaks.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
    /// In each as it is asked.
    Both,
    /// In the era of its first request; it refuses the other one from then on, as the Python SDK does.
    Dual,
}

/// How it takes `server/discover`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// As its era has it.
    Served,
    /// Without an answer.
    Silent,
    /// It ends.
    Fatal,
    /// With a result that is none.
    Garbage,
}

/// A scripted MCP server.
#[derive(clap::Parser, Clone, Debug)]
pub(crate) struct Flags {
    /// Answer `initialize` after this many milliseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) init_delay: u64,
    /// Speak as of this era.
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    pub(crate) era: Era,
    /// A version of the modern era that it has.
    #[arg(long, default_value = "2026-07-28")]
    pub(crate) supported_version: Vec<String>,
    /// Take `server/discover` so.
    #[arg(long, value_enum, default_value_t = Probe::Served)]
    pub(crate) probe: Probe,
    /// Answer `server/discover` with an error of this code.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) discover_error: Option<i64>,
    /// Answer `server/discover` after this many milliseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) discover_delay: u64,
    /// In the modern era, for how many milliseconds its lists and resources may be kept.
    #[arg(long, default_value_t = 0)]
    pub(crate) ttl: u64,
    /// In the modern era, for whom they may be kept.
    #[arg(long, default_value = "private")]
    pub(crate) cache_scope: String,
    /// Refuse `subscriptions/listen`.
    #[arg(long)]
    pub(crate) no_subscriptions: bool,
    /// Refuse each `subscriptions/listen` that has this resource among others.
    #[arg(long)]
    pub(crate) refuse_uri: Option<String>,
    /// Never acknowledge a `subscriptions/listen`.
    #[arg(long)]
    pub(crate) no_acknowledgement: bool,
    /// Never answer `initialize`.
    #[arg(long)]
    pub(crate) init_never: bool,
    /// Answer `initialize` with a result that is none.
    #[arg(long)]
    pub(crate) init_garbage: bool,
    /// End at `initialize`.
    #[arg(long)]
    pub(crate) init_fatal: bool,
    /// Answer `initialize` with an error of this code.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) init_error: Option<i64>,
    /// Answer `initialize` with this version, whatever was asked for.
    #[arg(long)]
    pub(crate) protocol: Option<String>,
    /// The name to introduce itself with.
    #[arg(long, default_value = "scripted")]
    pub(crate) server_name: String,
    /// What to tell a model when introduced.
    #[arg(long)]
    pub(crate) instructions: Option<String>,
    /// Leave with this code before a word is said.
    #[arg(long)]
    pub(crate) exit_at_start: Option<u8>,
    /// Leave with code 3 before a word is said, for as long as this file is missing.
    #[arg(long)]
    pub(crate) exit_unless: Option<PathBuf>,
    /// Write prose and other lines that are no messages first.
    #[arg(long)]
    pub(crate) banner: bool,
    /// Do nothing else while a call sleeps.
    #[arg(long)]
    pub(crate) one_at_a_time: bool,
    /// Answer each call of `sleep` with the parameters of the last one that has begun.
    #[arg(long)]
    pub(crate) mix_up_replies: bool,
    /// Leave pings unanswered.
    #[arg(long)]
    pub(crate) no_pings: bool,
    /// Ask the client with this method when it is introduced.
    #[arg(long)]
    pub(crate) ask_at_start: Option<String>,
    /// End each line with `\r\n`.
    #[arg(long)]
    pub(crate) crlf: bool,
    /// Tools, prompts or resources on one page of a list; 0 is all of them.
    #[arg(long, default_value_t = 0)]
    pub(crate) page_size: usize,
    /// Answer what asks for any page of a list but the first with an error, as long as this file is missing.
    #[arg(long)]
    pub(crate) one_page_unless: Option<PathBuf>,
    /// Every page has a next one.
    #[arg(long)]
    pub(crate) endless_cursor: bool,
    /// Every page names the same next one.
    #[arg(long)]
    pub(crate) repeat_cursor: bool,
    /// Announce a changed list whenever the list is asked for.
    #[arg(long)]
    pub(crate) announce_on_list: bool,
    /// Stay after the end of stdin.
    #[arg(long)]
    pub(crate) ignore_eof: bool,
    /// Leave so many milliseconds after the end of stdin, and say so in the journal.
    #[arg(long)]
    pub(crate) leave_delay: Option<u64>,
    /// Block SIGTERM, SIGINT and SIGHUP.
    #[arg(long)]
    pub(crate) ignore_term: bool,
    /// Run as the grandchild of this process, below a shell, as npx does it.
    #[arg(long)]
    pub(crate) wrap: bool,
    /// Leave a stubborn process behind in a session of its own.
    #[arg(long)]
    pub(crate) double_fork: bool,
    /// Leave the process group it was started in for that of its parent.
    #[arg(long)]
    pub(crate) join_parents_group: bool,
    /// Start a child that keeps stdout open.
    #[arg(long)]
    pub(crate) hold_stdout: bool,
    /// Register the tool `late` this many milliseconds after the handshake and announce it.
    #[arg(long)]
    pub(crate) late_tools: Option<u64>,
    /// One more tool, which does what `echo` does.
    #[arg(long = "tool")]
    pub(crate) tools: Vec<String>,
    /// List only what `--tool` names.
    #[arg(long)]
    pub(crate) bare: bool,
    /// Answer `tools/list` with the contents of this file.
    #[arg(long)]
    pub(crate) tool_list: Option<PathBuf>,
    /// Offer the prompts, resources and templates in this file too, and echo what asks for one of them.
    #[arg(long)]
    pub(crate) library: Option<PathBuf>,
    /// Make tasks of calls that ask for one.
    #[arg(long)]
    pub(crate) tasks: bool,
    /// One more tool, which does what `echo` does, but as a task only.
    #[arg(long)]
    pub(crate) task_only: Vec<String>,
    /// Do not declare that tasks can be cancelled.
    #[arg(long)]
    pub(crate) no_task_cancel: bool,
    /// Declare no tools, and take the question for them as an error.
    #[arg(long)]
    pub(crate) no_tools_capability: bool,
    /// Declare no tools if this file is there at the start.
    #[arg(long)]
    pub(crate) no_tools_if: Option<PathBuf>,
    /// Take so many questions for the tools as an error first.
    #[arg(long, default_value_t = 0)]
    pub(crate) list_errors: u64,
    /// Write a line of a JSON log at the start, and one with its id before each request is looked at.
    #[arg(long)]
    pub(crate) json_log: bool,
    /// Append each line received to this file, and `# start PID`, `# eof` and `# left`.
    #[arg(long)]
    pub(crate) journal: Option<PathBuf>,
    /// Be the process in the middle of a double fork.
    #[arg(long, hide = true)]
    pub(crate) daemonize: bool,
    /// Ask on this socket, leave the connection to `cat`, and go.
    #[arg(long, hide = true)]
    pub(crate) hand_over: Option<PathBuf>,
    /// Be a process that only stays.
    #[arg(long, hide = true)]
    pub(crate) stay_alive: bool,
}
