//! `mcpd reload --log-level`: shows or changes the log filter of the running daemon.

use std::process::ExitCode;

use serde::Serialize;

use crate::admin::{self, AdminError};
use crate::cli::{USAGE, admin_failure, fail, json, print};
use crate::logging::Filter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// The log filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// The log filter in effect.
    filter: String,
}

/// Sets the filter, if one is given, and prints the filter in effect.
pub(super) async fn run(directory: &RuntimeDir, filter: Option<&str>, as_json: bool) -> ExitCode {
    if let Some(Err(error)) = filter.map(Filter::parse) {
        return fail(USAGE, error);
    }
    match admin::log_level(&directory.socket(ADMIN_SOCKET), filter).await {
        Ok(filter) if as_json => json::print(&JsonReport { filter }),
        Ok(filter) => print(filter + "\n"),
        Err(error @ AdminError::Refused(_)) => fail(USAGE, error),
        Err(error) => admin_failure(&error),
    }
}
