//! The harness: the real binary in a place of its own, agents that account for every message.
//!
//! `place` (directory, environment, tag) → `config` (what the daemon is told) → `daemon` (starts, stops) · `watch` (asks it) ·
//! `user_manager` (has systemd start it) · `terminal` (a person's) · `agent` (a line client) · `modern` (one of the modern era) · `shim` (the same through
//! `mcpd connect`) · `run` (a command to its end) · `processes` (what is
//! alive) · `http` (servers that are reached by URL) · `wait` (never for a fixed time) · `print_line` (what is shown).

mod agent;
mod config;
mod daemon;
pub(crate) mod http;
mod modern;
mod output;
mod place;
mod processes;
mod run;
mod shim;
mod terminal;
mod user_manager;
mod wait;
mod watch;

pub(crate) use self::agent::{Agent, arguments, code, connect_as, result};
pub(crate) use self::config::{Server, Setup, quoted};
pub(crate) use self::daemon::Daemon;
pub(crate) use self::modern::{Era, LEVEL, PROTOCOL, SUBSCRIPTION, inputs, meta, plain, state};
pub(crate) use self::output::{print_line, skipped};
pub(crate) use self::place::{MCPD, Place, SCRIPTED, STRANGER, TAG};
pub(crate) use self::processes::{Process, children, cpu_time, field, resident_kib, signal};
pub(crate) use self::run::{Ran, run, wait_exit};
pub(crate) use self::shim::Shim;
pub(crate) use self::terminal::Terminal;
pub(crate) use self::user_manager::UserManager;
pub(crate) use self::wait::{WAIT_LIMIT, poll, until};
