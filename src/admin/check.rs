//! The `check` method: a health check of every server, then the daemon's status.

use std::io;

use super::Answer;
use super::operator::{Access, Operator, Query, ask, refuse, respond, turn_away};
use super::orders::waiting;
use super::report::Report;

/// Answers request `id`. Fails early if the operator disconnects.
pub(super) async fn answer(operator: &mut Operator, id: u64, access: &Access) -> io::Result<()> {
    let Ok(_lasting) = access.lasting.try_acquire() else { return turn_away(operator, id).await };
    let manager = &access.manager;
    let servers = waiting(operator, manager.check_timeout(), manager.check()).await?;
    match ask(&access.queries, Query::Status).await {
        Ok(report) => respond(operator, Some(id), Answer::Status(Box::new(Report { servers, ..report }))).await,
        Err(error) => refuse(operator, Some(id), error).await,
    }
}
