#![doc = include_str!("../ARCHITECTURE.md")]

pub mod admin;
mod advice;
mod alarm;
pub mod calls;
pub mod catalog;
pub mod cli;
pub mod client;
mod clients;
pub mod config;
pub mod daemon;
pub mod demo_server;
pub mod era;
mod instructions;
pub mod jsonrpc;
pub mod kind;
pub mod level;
mod likeness;
pub mod logging;
pub mod manager;
mod moment;
pub mod naming;
mod peer;
pub mod policy;
mod progress;
pub mod server;
pub mod session;
mod shim;
pub mod signals;
pub mod sockets;
pub mod transport;

pub use client::{Client, ClientError, ClientState, ToolResult};
pub use config::ServerConfig;
pub use manager::{ExposedTool, Manager, ManagerError, ResourceTool};
pub use server::{Guard, guard};
