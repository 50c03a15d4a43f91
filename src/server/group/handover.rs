//! What a group takes over from the task of a single instance, after the server turned out to have both eras.

use std::sync::Arc;

use tokio::sync::watch;

use super::Group;
use super::agents::GroupAgents;
use super::summary::GroupLists;
use crate::server::messages::agents::Agent;
use crate::server::messages::call::Call;
use crate::server::messages::handle::ServerHandle;
use crate::server::messages::resource_subscribers::ResourceSubscriptionChange;
use crate::server::messages::task_subscribers::SubscriptionChange;
use crate::server::task::Handover;

/// Calls that wait for an instance, and subscriptions.
#[derive(Default)]
pub(super) struct PendingHandover {
    calls: Vec<Call>,
    subscriptions: Vec<(Agent, ResourceSubscriptionChange)>,
}

impl Group {
    /// A group that replaces the task of a single instance.
    pub(in crate::server) fn in_place_of(handover: Handover, instances: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        let Handover { parts, calls, agents } = handover;
        let (agents, subscriptions) = agents.into_parts();
        let lists = parts.publisher.known().lists;
        let (agents, lists) = (GroupAgents::new(agents), GroupLists::new(lists));
        Self { agents, lists, pending: PendingHandover { calls, subscriptions }, ..Self::new(parts, instances) }
    }

    /// Hands the calls and subscriptions to instances.
    pub(super) async fn take_up_handover(&mut self) {
        let PendingHandover { calls, subscriptions } = std::mem::take(&mut self.pending);
        for (agent, subscription) in subscriptions {
            self.subscribe(agent, Box::new(SubscriptionChange::Resource(subscription))).await;
        }
        for call in calls {
            self.call(Box::new(call)).await;
        }
    }
}
