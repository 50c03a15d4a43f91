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

mod agents;
mod audience;
mod cache;
pub mod call;
pub mod cancellation;
mod checkup;
mod command_queue;
mod control;
mod deadline;
mod ending;
mod era_cache;
mod exit;
mod failure_log;
mod fair_queue;
mod followers;
mod group;
pub mod guard;
mod handle;
mod handshake;
mod health;
mod hold;
mod instance;
pub mod lifecycle;
mod link;
pub mod listing;
mod opening;
mod places;
mod process;
mod program;
mod publish;
pub mod question;
mod remote;
mod request;
pub mod role;
mod serve;
mod share;
mod sleep;
mod start;
mod start_failure;
mod start_limit;
mod stats;
pub mod stderr;
mod subscriptions;
mod subtree;
mod task;
pub mod tasks;
mod told;
mod turn;
pub mod unasked;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

pub use self::agents::{Agent, User};
pub use self::cache::last_known;
use self::call::{Call, CallKey};
use self::cancellation::Cancellation;
pub use self::control::{Control, Stop, StopOrder, Vouched};
pub(crate) use self::control::{raise, stop_all};
pub use self::fair_queue::MAX_WAITING_PER_SESSION;
pub use self::followers::{Following, Interest};
pub use self::handle::{Attachment, ServerHandle};
pub use self::health::Silence;
pub(crate) use self::hold::{START_WAIT, login_needed};
pub use self::process::cgroup::{Cgroups, Enforcement};
pub use self::publish::{Changed, OwnLists, Published, RemoteTransport};
use self::role::Role;
pub use self::start::{Record, Running, start};
pub use self::stats::{Counter, Lately, Stats, Totals};
pub use self::subscriptions::Subscription;
pub(crate) use self::subscriptions::is_part;
pub(crate) use self::subtree::{below, is_unrelated, kill_strays, present};
pub use self::turn::Turns;
use crate::config::DaemonConfig;
pub use crate::net::client::Clients;
pub use crate::oauth::Logins;

/// Calls one instance may have unanswered. When there are so many, one more waits ([`fair_queue`]), unless its agent has less than
/// its equal share of them ([`share`]). Of what the instance has not read yet there are at most as many bytes as in one largest
/// message: a call beyond is refused with −31003, with the same exception.
pub const MAX_IN_FLIGHT: usize = 256;
/// Commands waiting for a server's task. It empties the queue at every turn, whatever its server does; when it is full,
/// whoever brings one waits for that.
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
    /// How many start at once.
    pub turns: Turns,
    /// Where those with limits are put under them.
    pub cgroups: Cgroups,
    /// Directory where what servers offer is kept, as they last told it. Without one, a server that is started by its first
    /// call is started once to learn it.
    pub cache: Option<PathBuf>,
    /// Who speaks HTTP for them.
    pub clients: Clients,
    /// Logins, as `mcpd login` leaves them. Without any no server is logged in to.
    pub logins: Option<Logins>,
    /// Whether there are agents that may be asked what servers ask. Without any they are told so.
    pub serves_agents: bool,
}

impl Host {
    /// One with this guard and otherwise what [`DaemonConfig`] has as default, which hands nothing on and keeps nothing.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        let DaemonConfig { max_message_bytes: max_message, max_starting, .. } = DaemonConfig::default();
        let turns = Turns::new(max_starting);
        Self {
            guard,
            inherited: Inherited::default(),
            max_message,
            restarts: true,
            turns,
            cgroups: Cgroups::default(),
            cache: None,
            clients: Clients::default(),
            logins: None,
            serves_agents: false,
        }
    }

    /// For whom an instance is that is not one agent's own.
    fn role(&self) -> Role {
        if self.serves_agents { Role::Any } else { Role::Nobody }
    }
}

/// What a session asks of a server's task. Small: the queue of each server has room for 32 from its first moment.
#[derive(Debug)]
pub enum Command {
    /// An agent is there, and may have calls.
    Attach {
        /// Which one, and what it wants to be told.
        agent: Box<Agent>,
        /// Its working directory, if that is known.
        cwd: Option<Arc<str>>,
        /// Dropped when its tools are known, as far as they will be.
        unlisted: oneshot::Sender<Infallible>,
    },
    /// An agent is there no more.
    Detach {
        /// Number of its connection.
        session: u64,
    },
    /// An agent is to hear of something from now on, or no more, and waits for no answer to that.
    Hear {
        /// Which one.
        agent: Box<Agent>,
        /// Of what.
        interest: Box<Interest>,
    },
    /// The roots of an agent have changed.
    RootsChanged {
        /// Number of its connection.
        session: u64,
        /// The whole notification, without its newline.
        line: Bytes,
    },
    /// Have the server do this; exactly one answer follows, unless it is cancelled first.
    Call(Box<Call>),
    /// Ask the instance how it is: this is answered if it does, and dropped if there is none.
    Check(oneshot::Sender<()>),
    /// Lists of the server have changed, as another instance has found out.
    Relist,
    /// The agent never heard of a task that was made for it, and will not ask for it.
    DropTask {
        /// Number of its connection.
        session: u64,
        /// The task's id, as text.
        id: Bytes,
    },
    /// The agent wants no answer any more.
    Cancel {
        /// The call.
        key: CallKey,
        /// The agent's own words, if it did not just leave.
        words: Option<Box<Cancellation>>,
    },
}
