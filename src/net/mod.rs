//! Connections to other hosts: how they are made, and which addresses they may lead to.
//!
//! The HTTP clients with their TLS, proxies and name resolution ([`client`]), rules for URLs and addresses ([`origin`],
//! pure), and size limits of response bodies ([`body`]).

pub(crate) mod body;
pub mod client;
pub mod origin;
