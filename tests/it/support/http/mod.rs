//! HTTP servers of the tests, inside the test's own process, on 127.0.0.1.
//!
//! `message` (requests in, responses out) → `stream` (a body that is written piece by piece) → `server` (listens, and keeps what
//! it was asked) → `front` (the scripted server behind HTTP) · `authorization` (who lets clients in) ·
//! `cutter` (a proxy that cuts connections) · `relay` (what stands in between) → `tls` (TLS before a server) · `tunnel` (a proxy
//! that makes connections) · `second` (HTTP/2 before a server).

mod authorization;
mod cutter;
mod front;
mod locked;
mod message;
mod relay;
mod second;
mod server;
mod stream;
mod tls;
mod tunnel;

pub(crate) use self::authorization::{Authorization, Habits, sent_on, visit};
pub(crate) use self::cutter::{Cut, Cutter, Direction};
pub(crate) use self::front::{Answers, Behavior, Front};
pub(crate) use self::locked::Locked;
pub(crate) use self::message::{Request, Response};
pub(crate) use self::second::Http2;
pub(crate) use self::server::HttpServer;
pub(crate) use self::stream::Writer;
pub(crate) use self::tls::{Tls, authority};
pub(crate) use self::tunnel::Tunnel;
