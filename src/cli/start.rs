//! `mcpd start`.

use std::process::ExitCode;

use super::text::count;
use super::waiting::waiting;
use super::{FAILED, USAGE, fail, refused, say};
use crate::admin;
use crate::launch::{self, Started};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

pub(super) async fn run(directory: &RuntimeDir) -> ExitCode {
    let started = match waiting(|| "until the daemon serves".to_owned(), launch::start(directory)).await {
        Ok(started) => started,
        Err(error) => return fail(if error.is_configuration() { USAGE } else { FAILED }, error),
    };
    let daemon = match admin::status(&directory.socket(ADMIN_SOCKET)).await {
        Ok(report) => format!("pid {}, {}", report.pid, count(report.servers.len(), "server")),
        Err(error) => return refused(&error),
    };
    say(match started {
        Started::Already => format!("already running: {daemon}\n"),
        Started::ByUnit => format!("started {SERVICE}: {daemon}\n"),
        Started::Detached(Some(log)) => format!("started: {daemon}, log {}\n", log.display()),
        Started::Detached(None) => format!("started: {daemon}\n"),
    })
}
