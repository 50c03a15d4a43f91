//! One configured server: its life, its running instance, its calls.
//!
//! Lives here: the states ([`lifecycle`], pure), the actor that owns everything of one server ([`task`]), the running
//! instance with its table of unanswered requests ([`instance`]), handshake and tool list, and the process under its
//! [`guard`]. Knows: [`crate::jsonrpc`], [`crate::transport`], [`crate::config`]. Must not touch: sessions, sockets,
//! other servers.
//!
//! ```text
//! ServerHandle ── Command ──► ServerTask ── owns ──► Instance{pending, pipes}, Process ──► guard ──► server
//!      ▲                        │   └─ publishes ─► Published (state, tools; a watch: readers never wait)
//!      └── Control (watches) ───┘
//! ```

mod alarm;
pub mod call;
mod control;
mod ending;
pub mod guard;
mod handshake;
mod hold;
mod instance;
pub mod lifecycle;
pub mod listing;
mod process;
mod publish;
mod request;
mod serve;
pub mod stderr;
mod subtree;
mod task;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::call::{Call, CallKey, Cancellation, Failure};
pub use self::control::{Control, Stop, StopOrder};
pub use self::publish::{Changed, Counter, Published, Stats};
pub(crate) use self::subtree::{is_unrelated, kill_strays, present};
use crate::config::ServerConfig;

/// Calls one instance may have unanswered; one more is refused with −31003.
pub const MAX_IN_FLIGHT: usize = 256;
/// Commands waiting for a server's task. It empties the queue at every turn; when it is full, a call is refused with
/// −31003, and a cancellation waits.
const COMMAND_PLACES: usize = 1024;

/// What ends a server's whole subtree when the program that owns it does not, or cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// This program, whose `main` calls [`guard::run_if_guard`] first.
    ThisProgram,
    /// Another executable that does so, such as `mcpd`.
    Program(PathBuf),
    /// None: servers run in plain process groups. A descendant that leaves its group then survives its server, and
    /// servers that do not leave at end-of-file survive the death of this program.
    None,
}

impl Guard {
    /// [`Guard::ThisProgram`] if its `main` has called [`guard::run_if_guard`], else [`Guard::None`].
    #[must_use]
    pub fn available() -> Self {
        if guard::is_hooked() { Self::ThisProgram } else { Self::None }
    }
}

/// What a program changed of its own process and hands to its servers as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherited {
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
}

/// What every server of one owner is run with.
#[derive(Debug, Clone)]
pub struct Host {
    /// What keeps their processes.
    pub guard: Guard,
    /// What is put back for them.
    pub inherited: Inherited,
    /// Message cap in bytes, each way.
    pub max_message: usize,
    /// Whether a server that has ended is started again.
    pub restarts: bool,
}

/// What a session asks of a server's task.
#[derive(Debug)]
pub enum Command {
    /// Have the server do this; exactly one answer follows, unless it is cancelled first.
    Call(Box<Call>),
    /// The agent wants no answer any more.
    Cancel {
        /// The call.
        key: CallKey,
        /// The agent's own words, if it did not just leave.
        words: Option<Cancellation>,
    },
}

/// The way to one server; cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    name: Arc<str>,
    commands: mpsc::Sender<Command>,
    published: watch::Receiver<Published>,
    stderr: watch::Receiver<stderr::StderrRing>,
    stats: Arc<Stats>,
    /// Requests that this program itself has made of it.
    own_requests: Arc<AtomicU64>,
}

/// A server's task, as its owner holds it.
#[derive(Debug)]
pub struct Running {
    /// The way to it.
    pub handle: ServerHandle,
    /// Tells it what it is to do.
    pub control: Control,
    /// Ends when no process of the server is left.
    pub task: JoinHandle<()>,
}

/// Starts the task of one server. `changed` is notified whenever what it publishes has changed.
#[must_use]
pub fn start(config: Arc<ServerConfig>, host: Host, changed: Changed) -> Running {
    let name = Arc::clone(&config.name);
    let (command_sender, commands) = mpsc::channel(COMMAND_PLACES);
    let (control, orders) = control::channel(config);
    let (publisher, published) = publish::channel(changed);
    let (ring, stderr) = watch::channel(stderr::StderrRing::default());
    let stats = Arc::clone(&publisher.stats);
    let task = tokio::spawn(task::run(host, orders, commands, publisher, ring));
    let own_requests = Arc::default();
    let handle = ServerHandle { name, commands: command_sender, published, stderr, stats, own_requests };
    Running { handle, control, task }
}

impl ServerHandle {
    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Has the server do `call`. Exactly one answer follows, if only that the server is overloaded or stopped.
    pub fn call(&self, call: Call) {
        match self.commands.try_send(Command::Call(Box::new(call))) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(Command::Call(call))) => {
                call.refuse(Failure::Overloaded { what: "its queue is full" });
            }
            Err(mpsc::error::TrySendError::Closed(Command::Call(call))) => {
                call.refuse(Failure::ShuttingDown);
            }
            Err(_) => {}
        }
    }

    /// Tells the server that nobody waits for this call any more. No answer follows.
    pub async fn cancel(&self, key: CallKey, words: Option<Cancellation>) {
        // A task that is gone has no calls.
        let _ = self.commands.send(Command::Cancel { key, words }).await;
    }

    /// The same, for whoever cannot wait.
    pub(crate) fn cancel_soon(&self, key: CallKey) {
        let cancel = Command::Cancel { key, words: None };
        if let Err(mpsc::error::TrySendError::Full(cancel)) = self.commands.try_send(cancel) {
            let commands = self.commands.clone();
            tokio::spawn(async move { commands.send(cancel).await });
        }
    }

    /// Waits until what it publishes fulfils `condition`; `false` if its task ended first.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&Published) -> bool) -> bool {
        self.published.clone().wait_for(condition).await.is_ok()
    }

    /// What it publishes, as one who looks for the first time.
    pub(crate) fn watch(&self) -> watch::Receiver<Published> {
        self.published.clone()
    }

    /// Waits until its task has ended: then no process of it is left.
    pub(crate) async fn ended(&self) {
        self.wait_for(|_| false).await;
    }

    /// Whether its task has ended: then no process of it is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.published.has_changed().is_err()
    }

    /// What it published last.
    pub fn published(&self) -> watch::Ref<'_, Published> {
        self.published.borrow()
    }

    /// Counters since the daemon started.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The last lines of its stderr, oldest first.
    #[must_use]
    pub fn stderr(&self, count: usize) -> Vec<String> {
        self.stderr.borrow().last(count)
    }
}
