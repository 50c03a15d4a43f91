//! Connections to other hosts: with what they are made, and which addresses may be gone to.
//!
//! Lives here: the HTTP clients, whom they trust and how they go ([`client`]), and which URLs belong together ([`origin`], pure).
//! Knows: [`crate::config`], reqwest, rustls. Must not touch: messages, logins, servers.

pub mod client;
pub mod origin;
