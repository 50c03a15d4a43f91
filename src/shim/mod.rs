//! `mcpd connect`: relays between an agent that launches a command and one daemon after another.
//!
//! Pure: the state of a session that the next daemon needs ([`memory`], [`unanswered`], [`subscriptions`]), and the
//! handling of each line ([`relay`]). With I/O: standard streams ([`streams`]), connections to daemons ([`reconnect`]),
//! and the task ([`task`]). Used by `cli/connect.rs` only, except for standard input, which `mcpd login` reads, too.
//!
//! While a daemon is connected, all bytes pass unchanged, except for what the shim adds to `initialize`. When the
//! daemon goes, each request that it may have passed on ends with an error. A request is sent to the next daemon only
//! if no server has seen it: the daemon has not read it, or has refused it because it was stopping.
//!
//! So the conversation is remembered here, not by the daemon: what a daemon kept would be lost by `kill -9` in any case.

mod lines;
mod memory;
mod reconnect;
mod relay;
mod request;
mod streams;
mod subscriptions;
mod task;
mod unanswered;

pub(crate) use self::reconnect::{DaemonSockets, FirstConnection};
pub(crate) use self::relay::RelayEvent;
pub(crate) use self::streams::Input;
pub(crate) use self::task::{NoDaemon, Outcome, run};
pub(crate) use crate::shim::request::ShimInfo;
