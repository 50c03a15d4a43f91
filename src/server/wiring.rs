//! The channels between a server's task and the rest of the program, the start of one instance's task, and what the owner of a task holds.

use std::pin::pin;
use std::sync::Arc;

use tokio::task::{JoinError, JoinHandle};

use super::agent_scope::AgentScope;
use super::context::ServerContext;
use super::control::{self, Control, ControlReceiver, StopLevel, StopReceiver};
use super::era_cache::EraPreference;
use super::messages::command::{CommandQueue, CommandReceiver};
use super::messages::handle::{Inner, ServerHandle};
use super::publish::{self, ChangeSignal, Publisher};
use super::shared_state::SharedState;
use super::task::{self, Parts, Purpose};
use crate::config::ServerConfig;
use crate::era::Era;

/// Both ends of the channels between a server's task and the rest of the program.
pub(super) struct Wiring {
    pub(super) inner: Inner,
    pub(super) control: Control,
    pub(super) control_receiver: ControlReceiver,
    pub(super) commands: CommandReceiver,
    pub(super) publisher: Publisher,
}

impl Wiring {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        enabled: bool,
        era: EraPreference,
        changed: ChangeSignal,
        record: &SharedState,
    ) -> Self {
        let name = Arc::clone(&config.name);
        let (command_queue, commands) = CommandQueue::new();
        let (control, control_receiver) = control::channel(config, enabled, era);
        let (publisher, published) = publish::channel(changed, enabled, record);
        let inner = Inner {
            name,
            commands: command_queue,
            published,
            stderr: record.stderr.log(),
            stats: Arc::clone(&record.stats),
            embedder_requests: Default::default(),
            instances: None,
            label: None,
        };
        Self { inner, control, control_receiver, commands, publisher }
    }
}

/// One of several instances of a server.
pub(super) struct InstanceSpec {
    pub(super) config: Arc<ServerConfig>,
    pub(super) enabled: bool,
    pub(super) era: Era,
    /// Its label in reports.
    pub(super) label: Arc<str>,
    pub(super) scope: AgentScope,
}

/// Starts the task of one of several instances.
pub(super) fn start_instance(
    spec: InstanceSpec,
    context: ServerContext,
    changed: ChangeSignal,
    shared: SharedState,
) -> Running {
    let InstanceSpec { config, enabled, era, label, scope } = spec;
    let Wiring { mut inner, control, control_receiver, commands, publisher } =
        Wiring::new(config, enabled, EraPreference::Of(era), changed, &shared);
    inner.label = Some(Arc::clone(&label));
    let parts = Parts { context, stderr: shared.stderr.clone(), control: control_receiver, commands, publisher };
    let task = tokio::spawn(async move {
        task::run(parts, Purpose { label: Some(label), scope }).await;
    });
    Running { handle: ServerHandle(Arc::new(inner)), control, task, shared }
}

/// A server's task, with the means to reach, control and await it.
#[derive(Debug)]
pub struct Running {
    /// Sends commands to the task.
    pub handle: ServerHandle,
    /// Sets the desired state.
    pub control: Control,
    /// Ends when no process of the server is left.
    pub task: JoinHandle<()>,
    /// State that a replacement task takes over.
    pub shared: SharedState,
}

/// Stops all tasks in parallel, and returns when none of their processes is left. Follows `stop` as it rises. Returns the error of a
/// task that panicked.
pub(crate) async fn stop_all(all: &mut [Running], mut stop: StopReceiver) -> Option<JoinError> {
    let pass_on = |all: &[Running], stop| all.iter().for_each(|running| running.control.stop(stop));
    pass_on(all, stop.now());
    let mut stop_now = pin!(stop.at_least(StopLevel::Kill));
    let (mut killed, mut panicked) = (false, None);
    for next in 0..all.len() {
        loop {
            tokio::select! {
                // A task that panicked has dropped its process, which closes the lifeline.
                ended = &mut all[next].task => {
                    panicked = ended.err().filter(JoinError::is_panic).or(panicked);
                    break;
                }
                () = &mut stop_now, if !killed => killed = true,
            }
            pass_on(all, StopLevel::Kill);
        }
    }
    panicked
}
