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

mod audience;
mod cache;
mod checkup;
pub mod client_capabilities;
mod context;
mod control;
mod deadline;
mod ending;
mod era_cache;
mod exit;
mod failure_log;
mod fair_queue;
mod group;
pub mod guard;
mod handshake;
mod health;
mod hold;
mod instance;
pub mod lifecycle;
mod link;
pub mod listing;
pub mod messages;
mod opening;
mod places;
mod process;
mod program;
mod publish;
pub mod question;
mod remote;
mod request;
mod role;
mod running;
mod serve;
mod share;
mod shared_state;
mod sleep;
mod start;
mod start_failure;
mod start_limit;
mod stats;
pub mod stderr;
mod stop_order;
mod subtree;
mod task;
mod told;
mod turn;

pub use self::cache::last_known;
pub use self::context::{Guard, Inherited, ServerContext};
pub use self::control::{Control, HealthOverride};
pub use self::fair_queue::MAX_WAITING_PER_SESSION;
pub use self::health::Silence;
pub(crate) use self::hold::{START_WAIT, login_needed};
pub use self::link::RemoteTransport;
pub use self::messages::agents::{Agent, User};
pub use self::messages::command::Command;
pub use self::messages::handle::{Attachment, ServerHandle};
pub use self::messages::subscriptions::Subscription;
pub(crate) use self::messages::subscriptions::is_part;
pub use self::messages::task_subscribers::{Following, Interest};
pub use self::process::cgroup::{Cgroups, Enforcement};
pub use self::publish::{Changed, OwnLists, Published};
pub use self::running::Running;
pub(crate) use self::running::stop_all;
pub(crate) use self::share::MAX_IN_FLIGHT;
pub use self::shared_state::SharedState;
pub use self::start::start;
pub use self::stats::{Counter, Lately, Stats, Totals};
pub(crate) use self::stop_order::raise;
pub use self::stop_order::{Stop, StopOrder};
pub(crate) use self::subtree::{below, is_unrelated, kill_strays, present};
pub use self::turn::Turns;
pub use crate::net::client::Clients;
pub use crate::oauth::Logins;
