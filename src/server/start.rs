//! Starting the task of a server or of one of its instances, with all that is between a task and the rest.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::control::Orders;
use super::handle::Way;
use super::publish::{self, Publisher};
use super::role::Role;
use super::told::Told;
use super::verdict::Verdict;
use super::{COMMAND_PLACES, Changed, Command, Control, Host, ServerHandle, Stats, control, group, stderr, task};
use crate::config::{ServerConfig, Sharing};

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
    pub(super) verdict: Verdict,
    pub(super) stats: Arc<Stats>,
}

impl Record {
    /// That of a server of which nothing is known yet.
    #[must_use]
    pub fn new(server: Arc<str>) -> Self {
        Self {
            stderr: stderr::Writer::new(server),
            told: Told::default(),
            verdict: Verdict::default(),
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
pub fn start((config, enabled): (Arc<ServerConfig>, bool), host: Host, changed: Changed, record: Record) -> Running {
    if config.settings.sharing == Sharing::Shared {
        let role = host.role();
        return start_instance((config, enabled), host, changed, (None, role), record);
    }
    let Wiring { mut way, control, orders, commands, publisher } = Wiring::new((config, enabled), changed, &record);
    let (instances, receiver) = watch::channel(Arc::from([]));
    way.instances = Some(receiver);
    let stderr = record.stderr.clone();
    let task = tokio::spawn(group::Group::new((host, stderr), orders, commands, publisher, instances).run());
    Running { handle: ServerHandle(Arc::new(way)), control, task, record }
}

/// Starts the task of one instance; one that is not the only one of its server has a purpose, and may be one agent's.
pub(super) fn start_instance(
    wanted: (Arc<ServerConfig>, bool),
    host: Host,
    changed: Changed,
    (purpose, role): (Option<Arc<str>>, Role),
    record: Record,
) -> Running {
    let Wiring { mut way, control, orders, commands, publisher } = Wiring::new(wanted, changed, &record);
    way.purpose.clone_from(&purpose);
    let stderr = record.stderr.clone();
    let task = tokio::spawn(task::run(host, orders, commands, publisher, stderr, (purpose, role)));
    Running { handle: ServerHandle(Arc::new(way)), control, task, record }
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
    fn new((config, enabled): (Arc<ServerConfig>, bool), changed: Changed, record: &Record) -> Self {
        let name = Arc::clone(&config.name);
        let (command_sender, commands) = mpsc::channel(COMMAND_PLACES);
        let (control, orders) = control::channel(config, enabled);
        let (publisher, published) = publish::channel(changed, enabled, record);
        let way = Way {
            name,
            commands: command_sender,
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
