//! `mcpd log-level`.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::{USAGE, admin_failure, fail, json, print};
use crate::admin::{self, AdminError};
use crate::logging::Filter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

#[derive(Debug, Args)]
pub(super) struct LogLevel {
    /// A level, or directives such as `info,mcpd::session=debug`
    filter: Option<String>,
    /// Print the filter as JSON
    #[arg(long)]
    json: bool,
}

/// The log filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport {
    /// The log filter in effect.
    filter: String,
}

pub(super) async fn run(directory: &RuntimeDir, LogLevel { filter, json }: &LogLevel) -> ExitCode {
    let filter = filter.as_deref();
    if let Some(Err(error)) = filter.map(Filter::parse) {
        return fail(USAGE, error);
    }
    match admin::log_level(&directory.socket(ADMIN_SOCKET), filter).await {
        Ok(filter) if *json => json::print(&JsonReport { filter }),
        Ok(filter) => print(filter + "\n"),
        Err(error @ AdminError::Refused(_)) => fail(USAGE, error),
        Err(error) => admin_failure(&error),
    }
}
