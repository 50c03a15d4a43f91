//! Connections to other hosts: with what they are made, and which addresses may be gone to.
//!
//! Lives here: the HTTP clients, whom they trust and how they go ([`client`]), which URLs belong together
//! ([`origin`], pure), headers as they are configured ([`headers`], pure), bodies of bounded size ([`body`]).
//! Knows: [`crate::config`], hyper, rustls. Must not touch: messages, logins, servers.

pub(crate) mod body;
pub mod client;
pub(crate) mod headers;
pub mod origin;
