//! What a group takes over from the task of a single instance: that of a server which turned out to have both eras.

use std::sync::Arc;

use tokio::sync::watch;

use super::Group;
use crate::server::messages::agents::Agent;
use crate::server::messages::call::Call;
use crate::server::messages::handle::ServerHandle;
use crate::server::messages::subscriptions::Subscription;
use crate::server::messages::task_subscribers::Interest;
use crate::server::start::Parts;
use crate::server::task::ServerTask;

/// Calls that wait for an instance, and subscriptions.
#[derive(Default)]
pub(super) struct Inherited {
    calls: Vec<Call>,
    subscriptions: Vec<(Agent, Subscription)>,
}

impl Group {
    /// A group that goes on where the task of a single instance has ended.
    pub(in crate::server) fn in_place_of(task: Box<ServerTask>, instances: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        let ServerTask { host, orders, commands, publisher, stderr, mut parked, mut queued, agents, .. } = *task;
        // They are counted again by the instance that gets them.
        publisher.stats.calls.change((parked.len() + queued.len()) as u64, 0);
        let calls = parked.drain().into_iter().chain(queued.drain()).map(|waiting| *waiting.item.call).collect();
        let (agents, subscriptions) = agents.into_parts();
        let lists = publisher.known().lists;
        let group = Self::new(Parts { host, stderr, orders, commands, publisher }, instances);
        Self { agents, lists, inherited: Inherited { calls, subscriptions }, ..group }
    }

    /// Hands it to instances.
    pub(super) async fn take_up_inherited(&mut self) {
        let Inherited { calls, subscriptions } = std::mem::take(&mut self.inherited);
        for (agent, subscription) in subscriptions {
            self.hear(agent, Box::new(Interest::Resource(subscription))).await;
        }
        for call in calls {
            self.call(Box::new(call)).await;
        }
    }
}
