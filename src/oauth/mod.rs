//! Logins to servers that require one: OAuth 2.1 as MCP defines it, with a person's consent or with client credentials.
//!
//! Pure: challenges of servers and scopes ([`challenge`]), metadata ([`metadata`]), requests and responses
//! ([`request`]), and the stored record ([`record`]).
//!
//! With I/O: the directory of logins ([`store`]), HTTP ([`http`]), requirements of a server ([`requirements`]), a login
//! by consent ([`authorization`], [`loopback`]), tokens without a person ([`renewal`]), and what other modules use
//! ([`login`]). All fail with a [`LoginError`].
//!
//! A client secret is sent to the authorization server that accepted it before; a person decides about any other.
//!
//! ```text
//! mcpd login ─► method: server ─► its metadata ─► authorization server's ─┐
//!    ┌────────────────────────────────────────────────────────────────────┘
//!    ├─► authorization: registration ─► page ─► browser ─► loopback ─► token ──────────────────────────────────────┐
//!    └─► client credentials: token ────────────────────────────────────────────────────────────────────────────────┤
//!                                                                                                           store ◄┘
//! transport ─► Login::token ─► store: valid? ─ yes ─► header                                                      ▲
//!                                       └─ no ─► lock, check again, refresh or use client credentials ────────────┘
//! ```
//!
//! A token is for the URL that it was obtained for, and is sent nowhere else. Redirects of a server or its
//! authorization server are subject to [`crate::net::client::Client::login`]. Source: MCP 2025-11-25,
//! `basic/authorization`.

mod authorization;
mod challenge;
mod error;
mod http;
mod login;
mod loopback;
mod metadata;
mod record;
mod renewal;
mod request;
mod requirements;
mod store;

pub(crate) use self::authorization::{Authorization, CallbackError};
pub(crate) use self::challenge::Challenge;
pub(crate) use self::error::LoginError;
pub(crate) use self::login::{Login, LoginStatus, Logout, NoToken, Token, ValidLogin};
pub(crate) use self::loopback::{Browser, Loopback};
pub(crate) use self::requirements::LoginMethod;
pub use self::store::Logins;
pub(crate) use self::store::{directory, stored_url};
