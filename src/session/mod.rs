//! One agent connection.
//!
//! [`dispatcher`] has [`run`] and the `Session`, which passes messages between its components. `router` decides about each request. Each
//! component owns its state:
//!
//! - `transport`, `output`: the connection; the lines to the agent, with delayed notifications
//! - `events`: everything else that is waited for
//! - `agent`: who the agent is and what it has declared
//! - `view`: what the agent sees, and the servers that the agent is attached to
//! - `unanswered`: unanswered calls and parked requests
//! - `named_uris`: the resources that results on its profile have named
//! - `server_requests`: requests of servers to the agent
//! - `subscriptions`: subscribed resources and `subscriptions/listen`
//! - `task_directory`: tasks of the agent at servers
//! - `call_record`: the record of each tool call, and how long requests take
//! - `running_calls`: the tool calls that run, for operators
//!
//! This module reads [`crate::catalog`], calls [`crate::server::ServerHandle`] and charges [`crate::account`]. It does not use processes,
//! configuration files, other sessions or the interior of the manager. No module here imports the dispatcher, and their imports have no
//! circle.

mod agent;
mod agent_message;
mod call_record;
mod declaration;
mod dispatcher;
mod drain;
mod events;
mod extension_route;
mod fan_out;
mod named_uris;
mod output;
mod own_request;
pub mod received_call;
mod resource_subscriptions;
mod results;
mod router;
mod running_calls;
mod server_requests;
mod subscriptions;
mod task_directory;
mod task_token;
mod tasks;
mod transport;
mod unanswered;
mod view;

pub use self::agent::SessionStatus;
pub(crate) use self::agent::{CONNECT, CWD, IDS_FROM};
pub(crate) use self::agent_message::{AgentMessage, StatedDirectory};
pub(crate) use self::dispatcher::{SessionOrders, SessionSetup, run};
pub(crate) use self::drain::{DrainOrder, Drained, Drains};
pub(crate) use self::named_uris::NamedUris;
pub use self::task_token::TaskTokenKey;
pub(crate) use self::transport::{Address, LineTransport, PeerIdentity, Transport};
