//! The test harness: the real binary in a directory of its own, and agents that account for every message.
//!
//! `place` (directory, environment, tag) → `config` → `daemon` (start, stop) · `watch` (status queries) · `user_manager` (systemd) ·
//! `terminal` (tmux) · `agent` (lines on the socket) · `modern` (the modern era) · `shim` (`mcpd connect`) · `run` (one command) ·
//! `processes` · `http` (servers at URLs) · `landlock` · `wait` (polling) · `output`.
//!
//! `client_home` is a home directory with the files of all clients.
//!
//! `messages` builds messages and checks responses. A call waits at a `gate` until the test opens it.
//! `http_agent` is an agent over HTTP.

mod agent;
mod client_home;
mod config;
mod daemon;
mod gate;
pub(crate) mod http;
pub(crate) mod http_agent;
mod landlock;
mod messages;
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

pub(crate) use self::agent::{Agent, as_user, connect_as};
pub(crate) use self::client_home::{client_file, client_files, expect_same, mcpd_at_home, tree};
pub(crate) use self::config::{Server, Setup, quoted};
pub(crate) use self::daemon::{Daemon, answer_to_ended_operator};
pub(crate) use self::gate::Gate;
pub(crate) use self::landlock::{NO_NAMESPACES, kernel_has_landlock, system_has_namespaces};
pub(crate) use self::messages::{
    arguments, call_text, code, content, expect_died, initialize, initialize_params, notification, request, result,
};
pub(crate) use self::modern::{Era, FACE, LEVEL, PROTOCOL, SUBSCRIPTION, inputs, meta, plain, state};
pub(crate) use self::output::{print_line, skipped};
pub(crate) use self::place::{MCPD, Place, SCRIPTED, STRANGER, TAG};
pub(crate) use self::processes::{
    Process, children, cpu_time, field, process_report, resident_kib, signal, supervised,
};
pub(crate) use self::run::{Ran, run, wait_exit};
pub(crate) use self::shim::Shim;
pub(crate) use self::terminal::Terminal;
pub(crate) use self::user_manager::UserManager;
pub(crate) use self::wait::{WAIT_LIMIT, poll, until};
