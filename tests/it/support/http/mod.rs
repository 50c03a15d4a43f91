//! HTTP servers inside the test process, on 127.0.0.1.
//!
//! - `message`: requests and responses. `stream`: bodies written in pieces. `server`: listens and records requests.
//! - `front`: the scripted server behind HTTP. `authorization`: OAuth.
//! - `cutter`: a proxy that cuts connections. `relay`: the base of `tls`, which adds TLS to a server.
//! - `tunnel`: a forward proxy. `second`: HTTP/2 in front of a server.

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
pub(crate) use self::locked::Lock;
pub(crate) use self::message::{Request, Response};
pub(crate) use self::second::Http2;
pub(crate) use self::server::HttpServer;
pub(crate) use self::stream::Writer;
pub(crate) use self::tls::{Tls, authority};
pub(crate) use self::tunnel::Tunnel;
