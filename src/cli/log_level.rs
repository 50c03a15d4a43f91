//! `mcpd log-level`.

use std::process::ExitCode;

use serde::Serialize;

use super::{FAILED, NOT_RUNNING, USAGE, fail, json, print};
use crate::admin::{self, AskError};
use crate::logging::Filter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// What `--json` prints.
#[derive(Serialize)]
struct Shape {
    filter: String,
}

pub(super) async fn run(directory: &RuntimeDir, filter: Option<&str>, as_json: bool) -> ExitCode {
    if let Some(Err(error)) = filter.map(Filter::parse) {
        return fail(USAGE, error);
    }
    match admin::log_level(&directory.socket(ADMIN_SOCKET), filter).await {
        Ok(filter) if as_json => json::page(&Shape { filter }).map_or_else(|code| code, print),
        Ok(current) => print(current + "\n"),
        Err(error @ AskError::NotRunning(_)) => fail(NOT_RUNNING, error),
        Err(error @ AskError::Refused(_)) => fail(USAGE, error),
        Err(error @ AskError::NoAnswer(_)) => fail(FAILED, error),
    }
}
