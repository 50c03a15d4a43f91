//! `mcpd connect`: an agent that can only launch a command, and one daemon after another.
//!
//! Lives here: what has to be known to go on with another daemon ([`memory`], [`unanswered`], [`held`], [`renewal`], [`listens`]) and what
//! becomes of each line ([`conversation`]), all pure; standard streams that are waited for ([`streams`]), the way to the next
//! daemon ([`link`]) and the one task ([`task`]). Knows: [`crate::jsonrpc`], [`crate::transport`], sockets by their path. Must
//! not touch: servers, configuration, what is printed. Known by `cli/connect.rs` only,
//! but for standard input, on which `mcpd login` waits, too.
//!
//! While there is a daemon all bytes pass as they came, but for what the shim adds to `initialize`. When it goes, each request
//! that it may have seen ends with an error. A request is sent to the next daemon only if the one before has not read it, or has
//! refused it because it is being stopped, so that no server has seen it.

mod asking;
mod conversation;
mod greeting;
mod held;
mod lines;
mod link;
mod listens;
mod memory;
mod modern;
mod renewal;
mod streams;
mod task;
mod unanswered;

pub(crate) use self::conversation::News;
pub(crate) use self::greeting::Own;
pub(crate) use self::link::Places;
pub(crate) use self::streams::Input;
pub(crate) use self::task::{End, Unserved, run};
