//! Starting the task of a server or of one of its instances, with all that is between a task and the rest.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::command_queue::CommandQueue;
use super::control::Orders;
use super::era_cache::EraCache;
use super::handle::Way;
use super::handshake::EraPreference;
use super::publish::{self, Publisher};
use super::role::Role;
use super::told::Told;
use super::{Changed, Command, Control, Host, ServerHandle, Stats, control, group, stderr, task};
use crate::config::{ServerConfig, Sharing};
use crate::era::Era;

/// A server's task, as its owner holds it.
#[derive(Debug)]
pub struct Running {
    /// The way to it.
    pub handle: ServerHandle,
    /// Tells it what it is to do.
    pub control: Control,
    /// Ends when no process of the server is left.
    pub task: JoinHandle<()>,
    /// For another task in its place.
    pub record: Record,
}

/// What is known of a server whichever task runs it: it goes on when another stands in the place of one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Record {
    pub(super) stderr: stderr::Writer,
    pub(super) told: Told,
    pub(super) eras: EraCache,
    pub(super) stats: Arc<Stats>,
}

impl Record {
    /// That of a server of which nothing is known yet.
    #[must_use]
    pub fn new(server: Arc<str>) -> Self {
        Self {
            stderr: stderr::Writer::new(server),
            told: Told::default(),
            eras: EraCache::default(),
            stats: Arc::default(),
        }
    }

    /// What its tasks count.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// Starts the task of one server, and the server itself once it is enabled. `changed` is notified whenever what it publishes
/// has changed.
#[must_use]
pub fn start(wanted: (Arc<ServerConfig>, bool), host: Host, changed: Changed, record: Record) -> Running {
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
    host: Host,
    changed: Changed,
    (purpose, role): (Arc<str>, Role),
    record: Record,
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
    pub(super) host: Host,
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
        record: &Record,
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
