//! wip
pub mod jsonrpc;
pub mod naming;
pub mod policy;
