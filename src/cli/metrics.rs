//! `mcpd metrics`: prints all metrics of the daemon in the text format of Prometheus.

use super::{CommandResult, admin_failure, print};
use crate::admin;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir) -> CommandResult {
    admin::metrics(&directory.socket(ADMIN_SOCKET)).await.map(print).map_err(|error| admin_failure(&error))
}
