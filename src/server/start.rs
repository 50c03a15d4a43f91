//! Starting the task of a server or of one of its instances, with all that is between a task and the rest.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::context::ServerContext;
use super::control::{Control, Orders};
use super::era_cache::EraPreference;
use super::messages::command::Command;
use super::messages::command_queue::CommandQueue;
use super::messages::handle::{ServerHandle, Way};
use super::publish::{self, Changed, Publisher};
use super::role::Role;
use super::running::Running;
use super::shared_state::SharedState;
use super::{control, group, stderr, task};
use crate::config::{ServerConfig, Sharing};
use crate::era::Era;

/// Starts the task of one server, and the server itself once it is enabled. `changed` is notified whenever what it publishes
/// has changed.
#[must_use]
pub fn start(wanted: (Arc<ServerConfig>, bool), host: ServerContext, changed: Changed, record: SharedState) -> Running {
    let (is_shared, role) = (wanted.0.settings.sharing == Sharing::Shared, host.role());
    let Wiring { mut way, control, orders, commands, publisher } =
        Wiring::new(wanted, EraPreference::Shared, changed, &record);
    let (instances, receiver) = watch::channel(Arc::from([]));
    way.instances = Some(receiver);
    let parts = Parts { host, stderr: record.stderr.clone(), orders, commands, publisher };
    let task = if is_shared {
        tokio::spawn(async move {
            // A server at a URL that has both eras has an instance for each.
            if let Some(task) = task::run(parts, (None, role)).await {
                Box::pin(group::Group::in_place_of(task, instances).run()).await;
            }
        })
    } else {
        tokio::spawn(group::Group::new(parts, instances).run())
    };
    Running { handle: ServerHandle(Arc::new(way)), control, task, record }
}

/// Starts the task of one instance; one that is not the only one of its server has a purpose, and may be one agent's.
pub(super) fn start_instance(
    wanted: (Arc<ServerConfig>, bool),
    era: Era,
    host: ServerContext,
    changed: Changed,
    (purpose, role): (Arc<str>, Role),
    record: SharedState,
) -> Running {
    let Wiring { mut way, control, orders, commands, publisher } =
        Wiring::new(wanted, EraPreference::Of(era), changed, &record);
    way.purpose = Some(Arc::clone(&purpose));
    let parts = Parts { host, stderr: record.stderr.clone(), orders, commands, publisher };
    let task = tokio::spawn(async move {
        task::run(parts, (Some(purpose), role)).await;
    });
    Running { handle: ServerHandle(Arc::new(way)), control, task, record }
}

/// What a task is started with, whether it is that of an instance or of several.
pub(super) struct Parts {
    pub(super) host: ServerContext,
    /// One for all instances.
    pub(super) stderr: stderr::Writer,
    pub(super) orders: Orders,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) publisher: Publisher,
}

/// Both ends of all that is between a task and the rest.
struct Wiring {
    way: Way,
    control: Control,
    orders: Orders,
    commands: mpsc::Receiver<Command>,
    publisher: Publisher,
}

impl Wiring {
    fn new(
        (config, enabled): (Arc<ServerConfig>, bool),
        era: EraPreference,
        changed: Changed,
        record: &SharedState,
    ) -> Self {
        let name = Arc::clone(&config.name);
        let (command_queue, commands) = CommandQueue::new();
        let (control, orders) = control::channel(config, enabled, era);
        let (publisher, published) = publish::channel(changed, enabled, record);
        let way = Way {
            name,
            commands: command_queue,
            published,
            stderr: record.stderr.log(),
            stats: Arc::clone(&record.stats),
            own_requests: Default::default(),
            instances: None,
            purpose: None,
        };
        Self { way, control, orders, commands, publisher }
    }
}
