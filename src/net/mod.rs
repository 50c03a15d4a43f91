//! Connections to other hosts: how they are made, and which addresses they may lead to.
//!
//! Lives here: the HTTP clients with their TLS, proxies and name resolution ([`client`]), rules for URLs and addresses
//! ([`origin`], pure), configured headers ([`headers`], pure), and size limits of response bodies ([`body`]). Knows:
//! [`crate::config`], hyper, rustls. Must not touch: messages, logins, servers.

pub(crate) mod body;
pub mod client;
pub(crate) mod headers;
pub mod origin;
