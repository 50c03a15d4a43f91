//! What sessions, the manager and the task of a server send each other: commands with their calls one way, responses, notifications
//! and tasks the other, and the handle that carries them.

pub(crate) mod agents;
pub mod call;
pub(crate) mod command;
pub(crate) mod handle;
pub mod server_notification;
pub(crate) mod subscribers;
pub mod tasks;
