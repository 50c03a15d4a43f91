//! Logins to servers that require one: OAuth 2.1 as MCP defines it, with a person's consent or with client credentials.
//!
//! Lives here, pure: challenges of servers ([`challenge`]), metadata ([`metadata`]), scopes ([`scopes`]), client
//! registrations ([`client_registration`]), requests ([`request`]), responses ([`token_response`], [`error`],
//! [`callback`]), and the stored record ([`record`]).
//!
//! With I/O: the file of a login ([`store`]), the directory of all ([`logins`]), HTTP ([`http`]), discovery of the
//! authorization server ([`discovery`]), requirements of a server ([`requirements`]), and a login by consent
//! ([`authorization`], [`loopback`]) or by client credentials ([`client_credentials`]). Then tokens for the transport
//! ([`login`], [`renewal`]), status ([`login_status`]), and logout ([`revoke`]).
//!
//! A client secret is sent to the authorization server that accepted it before; a person decides about any other.
//! Knows: [`crate::config`], the clients of [`crate::net::client`]. Must not touch: servers, sessions, what is printed.
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
mod callback;
mod challenge;
mod client_credentials;
mod client_registration;
mod discovery;
mod error;
mod http;
mod login;
mod login_status;
mod logins;
mod loopback;
mod metadata;
mod record;
mod renewal;
mod request;
mod requirements;
mod revoke;
mod scopes;
mod store;
mod token_response;

pub(crate) use self::authorization::Authorization;
pub(crate) use self::callback::CallbackError;
pub(crate) use self::challenge::Challenge;
pub(crate) use self::login::{Login, NoToken, Token};
pub(crate) use self::login_status::{LoginStatus, ValidLogin};
pub use self::logins::Logins;
pub(crate) use self::loopback::{Browser, Loopback};
pub(crate) use self::requirements::LoginMethod;
pub(crate) use self::revoke::Logout;
pub(crate) use self::store::{directory, stored_url};
