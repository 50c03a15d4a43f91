//! What an operator has the daemon do: the order is given at once, and its end waited for in a bounded time.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::operator::{
    Access, Operator, ReloadRequest, event, refuse, respond, send, stopping, turn_away, unknown_server,
};
use super::report::{ReloadReport, ServerTold};
use super::{Answer, DISABLE, ENABLE, EnvironmentChanges, HEALTH, Params, Told};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use crate::manager::{ManagerError, ServerOutcome, Toggle};

/// For a reload in all: servers are waited for as long as their handshakes may take.
const RELOAD: Duration = Duration::from_secs(900);
/// How often an operator is told that a reload goes on.
const STILL: Duration = Duration::from_secs(10);

/// Does what the question `id` wants of one server. Returns early when the operator leaves; what it wanted is done all the same.
pub(super) async fn answer(
    operator: &mut Operator,
    (id, order): (u64, &str),
    params: &Params,
    access: &Access,
) -> io::Result<()> {
    let server = params.server.as_deref().unwrap_or_default();
    let Ok(_lasting) = access.lasting.try_acquire() else { return turn_away(operator, id).await };
    let unknown = unknown_server(&access.view.borrow(), server);
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let manager = &access.manager;
    let limit = manager.wait_limit(server).unwrap_or_default();
    let obeyed = async {
        match order {
            ENABLE | DISABLE => manager.toggle_and_wait(server, toggle(order, params)).await,
            HEALTH => manager.vouch_and_wait(server, params.vouched.unwrap_or_default()).await,
            _ => manager.restart_and_wait(server).await,
        }
    };
    match waiting(operator, limit, obeyed).await? {
        Ok(ServerOutcome { tool, state, reason, done }) => {
            let tool = tool.map(|tool| tool.to_string());
            let told = ServerTold { tool, state: state.to_owned(), reason, done };
            respond(operator, Some(id), Answer::Server(told)).await
        }
        Err(ManagerError::Closed) => refuse(operator, Some(id), stopping()).await,
        Err(error) => refuse(operator, Some(id), ErrorObject::new(INVALID_PARAMS, error.to_string())).await,
    }
}

/// What `enable` or `disable` asks for. A tool has no process that could be stopped.
fn toggle(order: &str, Params { tool, stop, .. }: &Params) -> Toggle {
    match (order, tool.clone()) {
        (ENABLE, None) => Toggle::Enable,
        (ENABLE, Some(tool)) => Toggle::EnableTool(tool),
        (_, Some(tool)) => Toggle::DisableTool(tool),
        (_, None) if *stop => Toggle::Stop,
        (_, None) => Toggle::Disable,
    }
}

/// Has the configuration read again, for the question `id`.
pub(super) async fn reload(
    operator: &mut Operator,
    id: u64,
    environment: Option<EnvironmentChanges>,
    access: &Access,
) -> io::Result<()> {
    let Ok(_lasting) = access.lasting.try_acquire() else { return turn_away(operator, id).await };
    let error = match while_told(operator, timeout(RELOAD, ask(&access.reloads, environment))).await? {
        Ok(Some(Ok(report))) => return respond(operator, Some(id), Answer::Reload(report)).await,
        Ok(Some(Err(reason))) => {
            ErrorObject::new(INVALID_PARAMS, format!("not reloaded, nothing has changed:\n{reason}"))
        }
        Ok(None) => stopping(),
        Err(_) => ErrorObject::new(INTERNAL_ERROR, "it takes too long, and goes on".to_owned()),
    };
    refuse(operator, Some(id), error).await
}

async fn ask(
    reloads: &mpsc::Sender<ReloadRequest>,
    environment: Option<EnvironmentChanges>,
) -> Option<Result<ReloadReport, String>> {
    let (answer, receiver) = oneshot::channel();
    reloads.send(ReloadRequest { environment, answer }).await.ok()?;
    receiver.await.ok()
}

/// Waits for what takes nobody knows how long, and says again and again to the operator that it goes on; an error if that leaves
/// first.
async fn while_told<T>(operator: &mut Operator, end: impl Future<Output = T>) -> io::Result<T> {
    let mut end = pin!(end);
    loop {
        if let Ok(ended) = waiting(operator, STILL, timeout(STILL, &mut end)).await? {
            return Ok(ended);
        }
    }
}

/// Waits for what takes `limit` at most, and says so to the operator; an error if that leaves first.
pub(super) async fn waiting<T>(
    operator: &mut Operator,
    limit: Duration,
    end: impl Future<Output = T>,
) -> io::Result<T> {
    let at_most_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    send(operator, event(Told::Waiting { at_most_ms })).await?;
    tokio::select! {
        // The order is given before it is looked whether anybody waits.
        biased;
        end = end => Ok(end),
        _ = operator.next() => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
