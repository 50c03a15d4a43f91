//! The channels between a server's task and the rest of the program, and the start of one instance's task.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::agent_scope::AgentScope;
use super::context::ServerContext;
use super::control::{self, Control, Orders};
use super::era_cache::EraPreference;
use super::messages::command::Command;
use super::messages::command_queue::CommandQueue;
use super::messages::handle::{Inner, ServerHandle};
use super::publish::{self, ChangeSignal, Publisher};
use super::running::Running;
use super::shared_state::SharedState;
use super::task::{self, Parts};
use crate::config::ServerConfig;
use crate::era::Era;

/// Both ends of all that is between a task and the rest.
pub(super) struct Wiring {
    pub(super) inner: Inner,
    pub(super) control: Control,
    pub(super) orders: Orders,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) publisher: Publisher,
}

impl Wiring {
    pub(super) fn new(
        (config, enabled): (Arc<ServerConfig>, bool),
        era: EraPreference,
        changed: ChangeSignal,
        record: &SharedState,
    ) -> Self {
        let name = Arc::clone(&config.name);
        let (command_queue, commands) = CommandQueue::new();
        let (control, orders) = control::channel(config, enabled, era);
        let (publisher, published) = publish::channel(changed, enabled, record);
        let inner = Inner {
            name,
            commands: command_queue,
            published,
            stderr: record.stderr.log(),
            stats: Arc::clone(&record.stats),
            own_requests: Default::default(),
            instances: None,
            purpose: None,
        };
        Self { inner, control, orders, commands, publisher }
    }
}

/// Starts the task of one instance; one that is not the only one of its server has a purpose, and may be one agent's.
pub(super) fn start_instance(
    desired: (Arc<ServerConfig>, bool),
    era: Era,
    context: ServerContext,
    changed: ChangeSignal,
    (purpose, scope): (Arc<str>, AgentScope),
    record: SharedState,
) -> Running {
    let Wiring { mut inner, control, orders, commands, publisher } =
        Wiring::new(desired, EraPreference::Of(era), changed, &record);
    inner.purpose = Some(Arc::clone(&purpose));
    let parts = Parts { context, stderr: record.stderr.clone(), orders, commands, publisher };
    let task = tokio::spawn(async move {
        task::run(parts, (Some(purpose), scope)).await;
    });
    Running { handle: ServerHandle(Arc::new(inner)), control, task, record }
}
