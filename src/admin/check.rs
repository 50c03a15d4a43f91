//! The `check` method: a health check of every server, then the daemon's status.

use std::io;

use super::Answer;
use super::control::wait;
use super::operator::{Access, Operator, Query, ask, refuse, refuse_overload, respond};
use super::report::Report;

/// Answers request `id`. Fails early if the operator disconnects.
pub(super) async fn answer(operator: &mut Operator, id: u64, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let manager = &access.manager;
    let servers = wait(operator, manager.check_timeout(), manager.check()).await?;
    match ask(&access.queries, Query::Status).await {
        Ok(report) => respond(operator, Some(id), Answer::Status(Box::new(Report { servers, ..report }))).await,
        Err(error) => refuse(operator, Some(id), error).await,
    }
}
