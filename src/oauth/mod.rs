//! Being let in at servers that want to know for whom mcpd asks: OAuth 2.1 as MCP has it, with a person's consent or for itself.
//!
//! Lives here: what a server says when it refuses ([`challenge`]), where metadata is and whether it holds ([`metadata`]), what is
//! asked for ([`scopes`]), sent ([`application`], [`request`]), answered ([`answer`], [`failure`], [`redirect`]) and kept ([`record`]),
//! all pure; the file of a login ([`store`]) and the directory of all ([`logins`]), requests ([`web`]), the way to who decides
//! ([`discovery`]), what it takes there ([`wanted`]), one attempt to log in for a person ([`attempt`], [`loopback`]) or for mcpd itself
//! ([`own`]), what the transport asks for a token ([`login`], [`renewal`]), how that stands ([`standing`]), and its end ([`forget`]).
//! mcpd's own secret goes to the authorization server that has let it in with that, and to another only when a person says so.
//! Knows: [`crate::config`], the clients of [`crate::transport::http`]. Must not touch: servers, sessions, what is printed.
//!
//! ```text
//! mcpd login ─► way: server ─► its metadata ─► authorization server's ─┐
//!    ┌──────────────────────────────────────────────────────────────────┘
//!    ├─► attempt: registration ─► page ─► browser ─► loopback ─► token ────────────────────────────────────────────┐
//!    └─► enter: token ─────────────────────────────────────────────────────────────────────────────────────────────┤
//!                                                                                                            keep ◄┘
//! transport ─► Login::token ─► store: good? ─ yes ─► header                                                       ▲
//!                                       └─ no ─► lock, look again, refresh or enter ──────────────────────────────┘
//! ```
//!
//! A token is for the URL that it was obtained for, and is sent nowhere else. Where a server, or its authorization server, sends
//! mcpd on to, it goes as [`crate::net::client::Client::login`] does. Source: MCP 2025-11-25, `basic/authorization`.

mod answer;
mod application;
mod attempt;
mod challenge;
mod discovery;
mod failure;
mod forget;
mod login;
mod logins;
mod loopback;
mod metadata;
mod own;
mod record;
mod redirect;
mod renewal;
mod request;
mod scopes;
mod standing;
mod store;
mod wanted;
mod web;

pub(crate) use self::attempt::Attempt;
pub(crate) use self::challenge::Challenge;
pub(crate) use self::forget::Forgotten;
pub(crate) use self::login::{Login, NoToken, Token};
pub use self::logins::Logins;
pub(crate) use self::loopback::{Browser, Loopback};
pub(crate) use self::redirect::NoCode;
pub(crate) use self::standing::{Good, Standing};
pub(crate) use self::store::{directory, kept_url};
pub(crate) use self::wanted::Way;
