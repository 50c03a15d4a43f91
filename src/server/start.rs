//! Starts the task of a configured server: the task of its only instance, or of a group of instances.

use std::sync::Arc;

use tokio::sync::watch;

use super::context::ServerContext;
use super::era_cache::EraPreference;
use super::group;
use super::messages::handle::ServerHandle;
use super::publish::ChangeSignal;
use super::running::Running;
use super::shared_state::SharedState;
use super::task::{self, Parts, Purpose};
use super::wiring::Wiring;
use crate::config::{ServerConfig, Sharing};

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
