//! The channels between a server's task and the rest of the program, and the start of one instance's task.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::agent_scope::AgentScope;
use super::context::ServerContext;
use super::control::{self, Control, ControlReceiver};
use super::era_cache::EraPreference;
use super::messages::command::Command;
use super::messages::command_queue::CommandQueue;
use super::messages::handle::{Inner, ServerHandle};
use super::publish::{self, ChangeSignal, Publisher};
use super::running::Running;
use super::shared_state::SharedState;
use super::task::{self, Parts, Purpose};
use crate::config::ServerConfig;
use crate::era::Era;

/// Both ends of the channels between a server's task and the rest of the program.
pub(super) struct Wiring {
    pub(super) inner: Inner,
    pub(super) control: Control,
    pub(super) control_receiver: ControlReceiver,
    pub(super) commands: mpsc::Receiver<Command>,
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
