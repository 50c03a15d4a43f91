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
mod embedder_request;
mod era_cache;
mod error;
mod evidence;
mod fairness;
mod group;
mod guard;
mod handshake;
mod health;
mod identity;
mod instance;
mod launch_spec;
pub mod lifecycle;
mod link;
pub mod listing;
pub mod messages;
mod process;
mod process_attributes;
mod publish;
mod reaper;
mod reexec;
mod refused_path;
pub(crate) mod sandbox;
mod secret_programs;
mod secret_runner;
pub mod server_request;
mod shared_state;
mod start_error;
mod start_permit;
mod stats;
pub mod stderr;
mod subtree;
mod subtree_owner;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod wiring;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

pub use self::cache::last_known;
pub(crate) use self::cache::last_known_instructions;
pub use self::context::{GuardProgram, GuardRegistry, ServerContext};
pub use self::control::{HealthOverride, StopChannel, StopLevel, StopReceiver};
pub(crate) use self::embedder_request::RequestFailure;
use self::era_cache::EraPreference;
pub use self::error::ServerError;
pub use self::evidence::Cause;
pub use self::health::{MAX_MISSES, UnansweredCounts};
pub use self::identity::{Extension, ServerIdentity};
use self::launch_spec::LaunchSpec;
pub use self::lifecycle::StateName;
pub use self::link::RemoteTransport;
pub use self::messages::agents::{Agent, User};
pub use self::messages::handle::{Attachment, ServerHandle};
pub(crate) use self::messages::subscribers::is_part;
pub use self::messages::subscribers::{ResourceSubscriptionChange, SubscriptionChange, TaskSubscriptionChange};
pub use self::process::ReaperHandle;
pub(crate) use self::process::Tracer;
pub use self::process::cgroup::{Cgroups, Enforcement, LimitKey, Limits};
use self::process::{foreground, launch_spec};
pub use self::process_attributes::ProcessAttributes;
use self::publish::ChangeSignal;
pub use self::publish::{AgentLists, ServerSnapshot};
pub(crate) use self::reaper::ARGV0 as REAPER;
pub use self::reexec::run_if_guard;
pub(crate) use self::refused_path::refused_paths;
pub use self::refused_path::{Refusal, RefusedPath};
pub use self::sandbox::init::main as init_main;
pub use self::sandbox::{NamespaceFailure, NamespaceStep, Obstacle, RestrictedAccess, SandboxHost, SandboxReport};
pub use self::secret_programs::SecretPrograms;
pub use self::shared_state::SharedState;
use self::start_error::{Exit, StartError};
pub use self::stats::{AnswerTimes, Counter, RefusedCalls};
pub(crate) use self::subtree::{AncestryEnd, SubtreeUsage, ancestry, pid_and_descendants, subtree_usage};
pub(crate) use self::subtree_owner::{close_inherited, core_size, protect_memory};
use self::task::{Parts, Purpose, renewed};
pub(crate) use self::task::{START_WAIT, failure_in, remove_below};
pub use self::wiring::Running;
use self::wiring::Wiring;
pub(crate) use self::wiring::stop_all;
use crate::config::interpolate::{Process, Sources};
use crate::config::{ServerConfig, Sharing};
pub use crate::oauth::Logins;

/// Starts the task of one server, which starts the server once it is enabled. `changed` is notified of each published change.
#[must_use]
pub fn start(
    config: Arc<ServerConfig>,
    enabled: bool,
    context: ServerContext,
    changed: ChangeSignal,
    shared: SharedState,
) -> Running {
    let (is_shared, scope) = (config.settings.sharing == Sharing::Shared, context.scope());
    let Wiring { mut inner, control, control_receiver, commands, publisher } =
        Wiring::new(config, enabled, EraPreference::Shared, changed, &shared);
    let (instances, receiver) = watch::channel(Arc::from([]));
    inner.instances = Some(receiver);
    let parts = Parts { context, stderr: shared.stderr.clone(), control: control_receiver, commands, publisher };
    let task = if is_shared {
        tokio::spawn(async move {
            // `run` returns a handover if the server turned out to need one instance for each era.
            if let Some(task) = task::run(parts, Purpose { label: None, scope }).await {
                Box::pin(group::Group::in_place_of(task, instances).run()).await;
            }
        })
    } else {
        tokio::spawn(group::Group::new(parts, instances).run())
    };
    Running { handle: ServerHandle(Arc::new(inner)), control, task, shared }
}

/// The environment and the working directory of the program of `server`, for work on files that it uses. `${cmd:…}` has no value.
/// `sources` is the environment of the daemon, `host` its sandboxes.
///
/// # Errors
/// If the program cannot be launched.
pub(crate) async fn launch_environment(
    server: &ServerConfig,
    host: &SandboxHost,
    sources: &dyn Sources,
) -> Result<(BTreeMap<String, String>, PathBuf), ServerError> {
    let launch = server.launch.as_ref().map_err(Clone::clone)?;
    let Some(program) = launch.program() else { return Err(StartError::system("it runs no program").into()) };
    let plan = host.plan(server, &program.command).await.map_err(StartError::Unenforceable)?;
    let variables = sources.variables("").into_iter();
    let spec = launch_spec(program, ProcessAttributes::default(), plan.restrictions, variables);
    Ok((spec.env, spec.cwd))
}

/// Runs `command` with the environment, the working directory and the restrictions of `server`, and waits for its end. `sources` is the
/// environment of the daemon, `sockets` its directory of sockets.
///
/// # Errors
/// If the command cannot be started in this sandbox.
pub(crate) async fn run_in_sandbox(
    server: &ServerConfig,
    command: Vec<String>,
    sources: &dyn Sources,
    sockets: Option<PathBuf>,
) -> Result<Exit, ServerError> {
    let mut context = ServerContext::new(GuardProgram::available());
    let guard = context.guard.clone();
    let Some(guard) = guard.path() else { return Err(StartError::system("mcpd cannot execute itself").into()) };
    context.sandbox = SandboxHost::new(Some(guard), sources);
    context.sandbox.sockets = sockets;
    context.secret_programs.set_environment(sources.variables("").into_iter().collect());

    let launch = renewed(&context, &server.name, server.launch.as_ref().map_err(Clone::clone)?).await?;
    let Some(program) = launch.program() else { return Err(StartError::system("it runs no program").into()) };
    let plan = context.sandbox.plan(server, &program.command).await.map_err(StartError::Unenforceable)?;
    let Some(restrictions) = plan.restrictions else {
        return Err(StartError::Sandbox("this system can enforce nothing of its sandbox".to_owned()).into());
    };
    // A terminal is that of this process.
    let variables = sources.variables("").into_iter().chain(Process.var("TERM").map(|term| ("TERM".to_owned(), term)));
    let spec = launch_spec(program, context.inherited, Some(restrictions), variables);
    let spec = LaunchSpec { instead: command, ..spec };
    let ended = foreground::run(guard, &context.reaper, &spec).await;
    context.reaper.close().await;
    ended.map_err(|error| error.masked(|text| program.secrets.masked(text)))
}
