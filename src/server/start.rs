//! Starts the task of a configured server: that of its only instance, or that of a group of instances.

use std::sync::Arc;

use tokio::sync::watch;

use super::context::ServerContext;
use super::era_cache::EraPreference;
use super::group;
use super::messages::handle::ServerHandle;
use super::publish::Changed;
use super::running::Running;
use super::shared_state::SharedState;
use super::task::{self, Parts};
use super::wiring::Wiring;
use crate::config::{ServerConfig, Sharing};

/// Starts the task of one server, and the server itself once it is enabled. `changed` is notified whenever what it publishes
/// has changed.
#[must_use]
pub fn start(wanted: (Arc<ServerConfig>, bool), host: ServerContext, changed: Changed, record: SharedState) -> Running {
    let (is_shared, scope) = (wanted.0.settings.sharing == Sharing::Shared, host.scope());
    let Wiring { mut way, control, orders, commands, publisher } =
        Wiring::new(wanted, EraPreference::Shared, changed, &record);
    let (instances, receiver) = watch::channel(Arc::from([]));
    way.instances = Some(receiver);
    let parts = Parts { host, stderr: record.stderr.clone(), orders, commands, publisher };
    let task = if is_shared {
        tokio::spawn(async move {
            // A server at a URL that has both eras has an instance for each.
            if let Some(task) = task::run(parts, (None, scope)).await {
                Box::pin(group::Group::in_place_of(task, instances).run()).await;
            }
        })
    } else {
        tokio::spawn(group::Group::new(parts, instances).run())
    };
    Running { handle: ServerHandle(Arc::new(way)), control, task, record }
}
