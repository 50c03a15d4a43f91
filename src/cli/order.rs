//! `mcpd restart`, `mcpd enable`, `mcpd disable`, `mcpd health`.

use std::process::ExitCode;

use super::text::{marked, one_line};
use super::{FAILED, fail, refused, say};
use crate::admin::report::ServerTold;
use crate::admin::{self, Order};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, order: Order, server: &str) -> ExitCode {
    match admin::order(&directory.socket(ADMIN_SOCKET), order, server).await {
        Ok(ServerTold { state, done: true, .. }) => {
            let vouched = if let Order::Vouch(vouched) = order { vouched.word() } else { None };
            say(format!("{server}: {}\n", marked(&state, vouched)))
        }
        Ok(ServerTold { state, reason, .. }) => {
            let reason = reason.map(|reason| format!(": {}", one_line(&reason))).unwrap_or_default();
            fail(FAILED, format!("{server}: {state}{reason}"))
        }
        Err(error) => refused(&error),
    }
}
