//! Being let in at servers that want to know for whom mcpd asks: OAuth 2.1 as MCP has it, with a person's consent.
//!
//! Lives here: what a server says when it refuses ([`challenge`]), where metadata is and whether it holds ([`metadata`]), what is
//! asked for ([`scopes`]), sent ([`application`], [`request`]), answered ([`answer`], [`redirect`]) and kept ([`record`]), all pure;
//! the file of a login ([`store`]), requests ([`web`]), the way to who decides ([`discovery`]), one attempt to log in ([`attempt`],
//! [`loopback`]), what the transport asks for a token ([`login`]), how that stands ([`standing`]), and its end ([`forget`]). Knows:
//! [`crate::config`], the clients of [`crate::transport::http`]. Must not touch: servers, sessions, what is printed.
//!
//! ```text
//! mcpd login ─► attempt: server ─► its metadata ─► authorization server's ─► registration ─► page ─► browser ─► loopback ─► token ─┐
//!                                                                                                                        store ◄┘
//! transport ─► Login::token ─► store: good? ─ yes ─► header                                                               ▲
//!                                       └─ no ─► lock, look again, refresh, keep ────────────────────────────────────────┘
//! ```
//!
//! A token is for the URL that it was obtained for, and is sent nowhere else. Where a server, or its authorization server, sends
//! mcpd on to, it goes as [`crate::net::client::Client::supplied`] does. Source: MCP 2025-11-25, `basic/authorization`.

mod answer;
mod application;
mod attempt;
mod challenge;
mod discovery;
mod forget;
mod login;
mod loopback;
mod metadata;
mod record;
mod redirect;
mod request;
mod scopes;
mod standing;
mod store;
mod web;

pub(crate) use self::attempt::{Attempt, Begun};
pub(crate) use self::challenge::Challenge;
pub(crate) use self::login::{Login, NoToken, Token};
pub(crate) use self::loopback::Loopback;
pub(crate) use self::redirect::NoCode;
pub(crate) use self::standing::{Good, Standing};
pub(crate) use self::store::{directory, kept_url};
