//! `mcpd log-level`.

use std::process::ExitCode;

use super::{FAILED, NOT_RUNNING, USAGE, fail, say};
use crate::admin::{self, AskError};
use crate::logging::Filter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, filter: Option<&str>) -> ExitCode {
    if let Some(Err(error)) = filter.map(Filter::parse) {
        return fail(USAGE, error);
    }
    match admin::log_level(&directory.socket(ADMIN_SOCKET), filter).await {
        Ok(current) => say(current + "\n"),
        Err(error @ AskError::NotRunning(_)) => fail(NOT_RUNNING, error),
        Err(error @ AskError::Refused(_)) => fail(USAGE, error),
        Err(error @ AskError::NoAnswer(_)) => fail(FAILED, error),
    }
}
