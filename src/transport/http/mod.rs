//! Messages over HTTP.
//!
//! Lives here: the clients that requests are sent with, whom they trust and where they go ([`client`]), and which URLs belong
//! together ([`origin`], pure). Knows: [`crate::config`]. Must not touch: sessions, the catalog.

pub mod client;
pub mod origin;
