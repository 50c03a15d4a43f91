#![doc = include_str!("../docs/library.md")]
// Whatever a program gets from this library, it can name.
#![warn(unnameable_types)]

mod account;
mod admin;
mod autostart;
mod backoff;
mod bridge;
mod calls;
mod catalog;
mod cli;
mod client;
mod client_capabilities;
mod client_files;
mod clock;
pub mod config;
mod config_lints;
mod daemon;
mod dashboard;
mod deadline_timer;
#[doc(hidden)]
pub mod demo_server;
mod detach;
mod disk;
mod duration;
mod durations;
mod era;
mod extensions;
mod fd_passing;
mod http_listener;
mod instructions;
mod jsonrpc;
mod known_clients;
mod links;
mod list_kind;
mod log_level;
mod logging;
mod login_env;
pub mod guard {
    //! The guard: the process that kills everything a server has started.
    pub use crate::server::{init_main, run_if_guard};
}
pub mod manager;
mod masking;
mod message_limit;
mod methods;
mod metrics;
mod naming;
mod net;
mod oauth;
mod otlp;
mod packages;
mod pin_files;
mod pins;
pub mod policy;
mod printable;
mod random;
mod receipt;
mod server;
mod session;
mod sha256;
mod shim;
mod signals;
mod sockets;
mod suggest;
mod systemctl;
mod tap;
mod task_state;
mod tcp_sockets;
mod test_variable;
mod tool_overrides;
mod transport;
mod trial;
mod validity;

pub use client::{Client, ClientError, ClientState, Content, Outcome, ResourceContents, Tool, ToolResult};
pub use config::ServerConfig;
pub use jsonrpc::reply::ErrorObject;
pub use manager::{ExposedTool, Manager, ManagerError, ResourceTool, ToolRef};
pub use server::{GuardProgram, HealthOverride, StateName as ServerState};

/// The `mcpd` program, and its command line.
#[doc(hidden)]
pub use cli::{command_line, main};
