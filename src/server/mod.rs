//! One configured server: its lifecycle, its running instance, its calls.
//!
//! [`messages`] is what others exchange with a server. [`task`] owns everything of one server, [`group`] runs several instances of one.
//! [`instance`] is a connection to a server with everything in flight on it, [`handshake`] opens it, [`process`] runs its program
//! under a [`guard`],
//! and the [`reaper`] is above all guards. Nothing here knows sessions, sockets, the manager or other servers.
//!
//! ```text
//! ServerHandle ── Command ──► ServerTask ── owns ──► Instance, Process ──► guard ──► server
//!      ▲                        │   └─ publishes ─► ServerSnapshot (state, lists; a watch: readers never wait)
//!      └── Control (watches) ───┘
//! ```

mod agent_scope;
mod cache;
mod context;
mod control;
mod deadline;
mod embedder_request;
mod ending;
mod era_cache;
mod error;
mod evidence;
mod exit;
mod fair_queue;
mod fair_share;
mod fd_passing;
mod group;
mod guard;
mod guard_registry;
mod handshake;
mod health;
mod identity;
mod instance;
mod launch_spec;
pub mod lifecycle;
mod link;
mod list_interner;
pub mod listing;
mod memory_protection;
pub mod messages;
mod oom_score;
mod process;
mod publish;
mod reaper;
mod reexec;
mod refused_path;
mod running;
pub(crate) mod sandbox;
mod sandboxed_command;
mod secret_programs;
mod secret_runner;
pub mod server_request;
mod shared_state;
mod start;
mod start_error;
mod start_permit;
mod stats;
pub mod stderr;
mod stop_level;
mod subtree;
mod subtree_owner;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod wiring;

pub use self::cache::last_known;
pub use self::context::{GuardProgram, ProcessAttributes, ServerContext};
pub use self::control::HealthOverride;
pub(crate) use self::embedder_request::RequestFailure;
pub use self::error::ServerError;
pub use self::evidence::Cause;
pub(crate) use self::fair_share::MAX_IN_FLIGHT;
pub use self::guard_registry::GuardRegistry;
pub use self::health::{MAX_MISSES, UnansweredCounts};
pub use self::identity::{Extension, ServerIdentity};
pub use self::lifecycle::StateName;
pub(crate) use self::lifecycle::login_needed;
pub use self::link::RemoteTransport;
pub(crate) use self::memory_protection::{core_size, protect_memory};
pub use self::messages::agents::{Agent, User};
pub use self::messages::handle::{Attachment, ServerHandle};
pub use self::messages::resource_subscribers::ResourceSubscriptionChange;
pub(crate) use self::messages::resource_subscribers::is_part;
pub use self::messages::task_subscribers::{SubscriptionChange, TaskSubscriptionChange};
pub use self::process::ReaperHandle;
pub use self::process::cgroup::{Cgroups, Enforcement, LimitKey, Limits};
pub use self::publish::{AgentLists, ServerSnapshot};
pub use self::reexec::run_if_guard;
pub(crate) use self::refused_path::refused_paths;
pub use self::refused_path::{Refusal, RefusedPath};
pub use self::running::Running;
pub(crate) use self::running::stop_all;
pub use self::sandbox::init::main as init_main;
pub use self::sandbox::{NamespaceFailure, NamespaceStep, Obstacle, RestrictedAccess, SandboxHost, SandboxReport};
pub(crate) use self::sandboxed_command::run_in_sandbox;
pub use self::secret_programs::SecretPrograms;
pub use self::shared_state::SharedState;
pub use self::start::start;
pub use self::stats::{AnswerTimes, Counter, RefusedCalls};
pub(crate) use self::stop_level::raise;
pub use self::stop_level::{StopChannel, StopLevel, StopReceiver};
pub(crate) use self::subtree::{AncestryEnd, ancestry, pid_and_descendants};
pub(crate) use self::subtree_owner::close_inherited;
pub(crate) use self::task::{START_WAIT, failure_in, remove_below};
pub use crate::oauth::Logins;
