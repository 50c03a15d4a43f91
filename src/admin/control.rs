//! The methods that act on servers: `check`, `restart`, `enable`, `disable` and `reload`.
//!
//! Each starts its action at once and waits for the outcome for a bounded time. The action continues if the operator leaves.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::operator::{
    Access, Operator, Query, ReloadRequest, Restarting, ask, event, refuse, refuse_overload, respond, send, stopping,
    unknown_server,
};
use super::report::{ControlReport, ReloadReport, Report};
use super::{AdminEvent, Answer, DISABLE, ENABLE, EnvironmentChanges, Params};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use crate::manager::{ManagerError, ServerOutcome, Toggle};

/// Maximum time of a reload, which waits for the handshakes of changed servers.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(900);
/// Interval of the `waiting` notifications during a reload.
const WAITING_INTERVAL: Duration = Duration::from_secs(10);

/// Answers request `id` for an action on one server. Fails early if the operator disconnects.
pub(super) async fn answer(
    operator: &mut Operator,
    (id, method): (u64, &str),
    params: &Params,
    access: &Access,
) -> io::Result<()> {
    let server = params.server.as_deref().unwrap_or_default();
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let unknown = unknown_server(&access.view.borrow(), server);
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let manager = &access.manager;
    let limit = manager.wait_limit(server).unwrap_or_default();
    let outcome = async {
        match method {
            ENABLE | DISABLE => manager.toggle_and_wait(server, toggle(method, params)).await,
            _ => manager.restart_and_wait(server).await,
        }
    };
    match wait(operator, limit, outcome).await? {
        Ok(ServerOutcome { tool, state, reason, done, temporary }) => {
            let tool = tool.map(|tool| tool.to_string());
            let report = ControlReport { tool, state, reason, done, temporary };
            respond(operator, Some(id), Answer::Server(report)).await
        }
        Err(ManagerError::Closed) => refuse(operator, Some(id), stopping()).await,
        Err(error) => refuse(operator, Some(id), ErrorObject::new(INVALID_PARAMS, error.to_string())).await,
    }
}

/// Answers request `id` when no server is left, and the next program follows. Other long requests do not keep it from that.
pub(super) async fn restart_daemon(operator: &mut Operator, id: u64, access: &Access) -> io::Result<()> {
    let Restarting { at_most, ended } = match ask(&access.queries, Query::Restart).await {
        Ok(restarting) => restarting,
        Err(_) => return refuse(operator, Some(id), stopped()).await,
    };
    match wait(operator, at_most, ended).await? {
        Ok(()) => respond(operator, Some(id), Answer::Restart(true)).await,
        Err(_) => refuse(operator, Some(id), stopped()).await,
    }
}

/// The refusal of a restart. Nothing follows the daemon.
fn stopped() -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, "mcpd is being stopped")
}

/// Maps `enable` and `disable` to a toggle. `stop` applies only to a whole server.
fn toggle(method: &str, Params { tool, stop, .. }: &Params) -> Toggle {
    match (method, tool.clone()) {
        (ENABLE, None) => Toggle::Enable,
        (ENABLE, Some(tool)) => Toggle::EnableTool(tool),
        (_, Some(tool)) => Toggle::DisableTool(tool),
        (_, None) if *stop => Toggle::Stop,
        (_, None) => Toggle::Disable,
    }
}

/// Answers request `id` for a reload.
pub(super) async fn reload(
    operator: &mut Operator,
    id: u64,
    environment: Option<EnvironmentChanges>,
    access: &Access,
) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let reload = timeout(RELOAD_TIMEOUT, request_reload(&access.reloads, environment));
    let error = match wait_with_updates(operator, reload).await? {
        Ok(Some(Ok(report))) => return respond(operator, Some(id), Answer::Reload(report)).await,
        Ok(Some(Err(reason))) => {
            ErrorObject::new(INVALID_PARAMS, format!("not reloaded, nothing has changed:\n{reason}"))
        }
        Ok(None) => stopping(),
        Err(_) => ErrorObject::new(INTERNAL_ERROR, "the reload still runs after 15 minutes: see `mcpd status`"),
    };
    refuse(operator, Some(id), error).await
}

async fn request_reload(
    reloads: &mpsc::Sender<ReloadRequest>,
    environment: Option<EnvironmentChanges>,
) -> Option<Result<ReloadReport, String>> {
    let (answer, receiver) = oneshot::channel();
    reloads.send(ReloadRequest { environment, answer }).await.ok()?;
    receiver.await.ok()
}

/// Awaits `end` for an unknown time and keeps the client waiting with notifications. Fails if the operator disconnects.
async fn wait_with_updates<T>(operator: &mut Operator, end: impl Future<Output = T>) -> io::Result<T> {
    let mut end = pin!(end);
    loop {
        if let Ok(output) = wait(operator, WAITING_INTERVAL, timeout(WAITING_INTERVAL, &mut end)).await? {
            return Ok(output);
        }
    }
}

/// Announces `limit` to the operator and awaits `end`. Fails if the operator disconnects first.
pub(super) async fn wait<T>(operator: &mut Operator, limit: Duration, end: impl Future<Output = T>) -> io::Result<T> {
    let at_most_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    send(operator, event(AdminEvent::Waiting { at_most_ms })).await?;
    tokio::select! {
        // Polls `end` first, so that the action starts even if the operator has disconnected.
        biased;
        end = end => Ok(end),
        _ = operator.next() => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Answers the `check` request `id`: a health check of every server, then the daemon's status. Fails early if the operator
/// disconnects.
pub(super) async fn check(operator: &mut Operator, id: u64, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let manager = &access.manager;
    manager.measure_usage().await;
    let servers = wait(operator, manager.check_timeout(), manager.check()).await?;
    match ask(&access.queries, Query::Status).await {
        Ok(report) => respond(operator, Some(id), Answer::Status(Box::new(Report { servers, ..report }))).await,
        Err(error) => refuse(operator, Some(id), error).await,
    }
}
