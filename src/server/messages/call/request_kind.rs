//! Calls that need more than forwarding: subscriptions, and requests that create or concern tasks.

use crate::server::messages::resource_subscribers::ResourceSubscriptionChange;
use crate::server::messages::tasks::{LegacyTaskRequest, ModernTaskRequest};

/// What a call does besides getting an answer. Payloads are boxed, because most calls have none.
#[derive(Debug)]
pub enum RequestKind {
    /// A plain call: nothing is left once it is answered.
    Plain,
    /// Begins or ends a subscription to a resource.
    ResourceSubscription(Box<ResourceSubscriptionChange>),
    /// Requests that the server runs it as a task.
    NewTask,
    /// A request about a task on behalf of a legacy agent.
    LegacyTask(Box<LegacyTaskRequest>),
    /// The server may run it as a task, because its agent is modern and supports tasks.
    MayBeTask,
    /// A request of a modern agent about a task.
    ModernTask(Box<ModernTaskRequest>),
}
