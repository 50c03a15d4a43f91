//! The command line: a test's configuration shows how its server behaves.

use std::path::PathBuf;

/// The eras that the server supports.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
    /// Both eras, per request.
    Both,
    /// The era of its first request. It refuses the other era from then on, like the Python SDK.
    Dual,
}

/// Response to `server/discover`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Normal for its era.
    Served,
    /// No response.
    Silent,
    /// Exit.
    Fatal,
    /// A malformed result.
    Garbage,
}

/// A scripted MCP server.
#[derive(clap::Parser, Clone, Debug)]
pub(crate) struct Flags {
    /// Answer `initialize` after this many milliseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) init_delay: u64,
    /// Answer `initialize` once this file exists.
    #[arg(long)]
    pub(crate) init_until: Option<PathBuf>,
    /// Support this era.
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    pub(crate) era: Era,
    /// Supported versions of the modern era.
    #[arg(long, default_value = "2026-07-28")]
    pub(crate) supported_version: Vec<String>,
    /// Response to `server/discover`.
    #[arg(long, value_enum, default_value_t = Probe::Served)]
    pub(crate) probe: Probe,
    /// Answer `server/discover` with an error of this code.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) discover_error: Option<i64>,
    /// Answer `server/discover` after this many milliseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) discover_delay: u64,
    /// Cache lifetime of lists and resources in milliseconds, in the modern era.
    #[arg(long, default_value_t = 0)]
    pub(crate) ttl: u64,
    /// Cache scope of lists and resources, in the modern era.
    #[arg(long, default_value = "private")]
    pub(crate) cache_scope: String,
    /// Refuse `subscriptions/listen`.
    #[arg(long)]
    pub(crate) no_subscriptions: bool,
    /// Refuse each `subscriptions/listen` that contains this resource.
    #[arg(long)]
    pub(crate) refuse_uri: Option<String>,
    /// Never acknowledge a `subscriptions/listen`.
    #[arg(long)]
    pub(crate) no_acknowledgement: bool,
    /// Never answer `initialize`.
    #[arg(long)]
    pub(crate) init_never: bool,
    /// Answer `initialize` with a malformed result.
    #[arg(long)]
    pub(crate) init_garbage: bool,
    /// Exit on `initialize`.
    #[arg(long)]
    pub(crate) init_fatal: bool,
    /// Answer `initialize` with an error of this code.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) init_error: Option<i64>,
    /// Answer `initialize` with this version, whatever the client requested.
    #[arg(long)]
    pub(crate) protocol: Option<String>,
    /// The name in `serverInfo`.
    #[arg(long, default_value = "scripted")]
    pub(crate) server_name: String,
    /// `instructions` for the model.
    #[arg(long)]
    pub(crate) instructions: Option<String>,
    /// Exit with this code before any message.
    #[arg(long)]
    pub(crate) exit_at_start: Option<u8>,
    /// Exit with code 3 before any message while this file is missing.
    #[arg(long)]
    pub(crate) exit_unless: Option<PathBuf>,
    /// First write lines that are not messages.
    #[arg(long)]
    pub(crate) banner: bool,
    /// Block while a call sleeps.
    #[arg(long)]
    pub(crate) one_at_a_time: bool,
    /// Answer each call of `sleep` with the parameters of the latest one.
    #[arg(long)]
    pub(crate) mix_up_replies: bool,
    /// Do not answer pings.
    #[arg(long)]
    pub(crate) no_pings: bool,
    /// Send the client a request with this method after the handshake.
    #[arg(long)]
    pub(crate) ask_at_start: Option<String>,
    /// End each line with `\r\n`.
    #[arg(long)]
    pub(crate) crlf: bool,
    /// Items on one page of a list; 0 means all.
    #[arg(long, default_value_t = 0)]
    pub(crate) page_size: usize,
    /// While this file is missing, answer requests for later pages of a list with an error.
    #[arg(long)]
    pub(crate) one_page_unless: Option<PathBuf>,
    /// Every page has a new cursor.
    #[arg(long)]
    pub(crate) endless_cursor: bool,
    /// Every page has the same cursor.
    #[arg(long)]
    pub(crate) repeat_cursor: bool,
    /// Announce a list change at each list request.
    #[arg(long)]
    pub(crate) announce_on_list: bool,
    /// Ignore the end of stdin.
    #[arg(long)]
    pub(crate) ignore_eof: bool,
    /// Exit this many milliseconds after the end of stdin, and note it in the journal.
    #[arg(long)]
    pub(crate) leave_delay: Option<u64>,
    /// Block SIGTERM, SIGINT and SIGHUP.
    #[arg(long)]
    pub(crate) ignore_term: bool,
    /// Run as a grandchild, below a shell, like npx.
    #[arg(long)]
    pub(crate) wrap: bool,
    /// Leave a process that ignores signals in a new session.
    #[arg(long)]
    pub(crate) double_fork: bool,
    /// Move to the process group of the parent.
    #[arg(long)]
    pub(crate) join_parents_group: bool,
    /// Start a child that keeps stdout open.
    #[arg(long)]
    pub(crate) hold_stdout: bool,
    /// Register the tool `late` this many milliseconds after the handshake and announce it.
    #[arg(long)]
    pub(crate) late_tools: Option<u64>,
    /// A further tool that behaves like `echo`.
    #[arg(long = "tool")]
    pub(crate) tools: Vec<String>,
    /// List only the tools that `--tool` names.
    #[arg(long)]
    pub(crate) bare: bool,
    /// Answer `tools/list` with the contents of this file.
    #[arg(long)]
    pub(crate) tool_list: Option<PathBuf>,
    /// Offer the prompts, resources and templates in this file, and echo requests for them.
    #[arg(long)]
    pub(crate) library: Option<PathBuf>,
    /// Create tasks for calls that request one.
    #[arg(long)]
    pub(crate) tasks: bool,
    /// A further tool that behaves like `echo`, as a task only.
    #[arg(long)]
    pub(crate) task_only: Vec<String>,
    /// Do not declare that tasks can be cancelled.
    #[arg(long)]
    pub(crate) no_task_cancel: bool,
    /// Declare no tools, and answer `tools/list` with an error.
    #[arg(long)]
    pub(crate) no_tools_capability: bool,
    /// Declare no tools if this file exists at the start.
    #[arg(long)]
    pub(crate) no_tools_if: Option<PathBuf>,
    /// Answer the first requests for `tools/list` with an error, this many times.
    #[arg(long, default_value_t = 0)]
    pub(crate) list_errors: u64,
    /// Write a JSON log line at the start, and one with the id before each request.
    #[arg(long)]
    pub(crate) json_log: bool,
    /// Replace text in each line that is written: `FROM=>TO`. `$ID` stands for the number of an id.
    #[arg(long)]
    pub(crate) spell: Vec<String>,
    /// Answer `initialize` with an error that names this version, unless the client proposes it.
    #[arg(long)]
    pub(crate) only_version: Option<String>,
    /// Append each line received to this file, and `# start PID`, `# eof` and `# left`.
    #[arg(long)]
    pub(crate) journal: Option<PathBuf>,
    /// Internal: the process in the middle of a double fork.
    #[arg(long, hide = true)]
    pub(crate) daemonize: bool,
    /// Internal: send a request on this socket, hand the connection to `cat`, and exit.
    #[arg(long, hide = true)]
    pub(crate) hand_over: Option<PathBuf>,
    /// Internal: stay alive and do nothing.
    #[arg(long, hide = true)]
    pub(crate) stay_alive: bool,
}
