//! What a call is about that more than its answer depends on.

use crate::server::messages::subscriptions::Subscription;
use crate::server::messages::tasks::{BridgedTaskRequest, LegacyTaskRequest};

/// What a call is about, beside itself; boxed where there is something, for most are about nothing.
#[derive(Debug)]
pub enum RequestKind {
    /// It ends with its answer.
    Nothing,
    /// What it subscribes to, or no more.
    Subscription(Box<Subscription>),
    /// It asks for a task to be made of it.
    NewTask,
    /// A task that was made before.
    Task(Box<LegacyTaskRequest>),
    /// A task may be made of it, for its agent understands those of the modern era.
    MayBeTask,
    /// A task of the modern era that was made before.
    BridgedTask(Box<BridgedTaskRequest>),
}
