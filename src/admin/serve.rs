//! Serves the requests of one operator's connection.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::operator::{Access, OPERATOR_TIMEOUT, Operator, Query, ask, refuse, respond, set_masked};
use super::report::{ProcessReport, Report};
use super::{
    APPROVE, Answer, CALLS, CHANGES, CHECK, DISABLE, ENABLE, LOG_LEVEL, LOGS, MASK, METRICS, PROCESS, RELOAD, RESTART,
    RESTART_DAEMON, Request, STATUS, TAP, TOKENS, TOOLS, changes, channel, control, feeds, metrics, tap, tools,
};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};

/// Whether a connection is idle. Idle connections are closed when there are too many operators.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Notified when the connection becomes idle.
    idle_notify: Arc<Notify>,
    is_idle: AtomicBool,
    is_new: AtomicBool,
}

impl Activity {
    pub(crate) fn new(idle_notify: Arc<Notify>) -> Self {
        Self { idle_notify, is_idle: AtomicBool::new(true), is_new: AtomicBool::new(true) }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Whether the connection has sent no request yet.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    fn begin_request(&self) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.is_new.store(false, Ordering::Relaxed);
    }

    fn end_request(&self) {
        self.is_idle.store(true, Ordering::Relaxed);
        self.idle_notify.notify_one();
    }
}

/// Answers the requests of one connection until it ends.
pub(crate) async fn serve(stream: UnixStream, access: Access, activity: Arc<Activity>) {
    let mut operator: Operator = channel(stream);
    while let Ok(Some(request)) = timeout(OPERATOR_TIMEOUT, operator.next()).await {
        activity.begin_request();
        // After an unreadable line, the start of the next message is unknown.
        let readable = request.is_ok();
        if answer(request, &mut operator, &access).await.is_err() || !readable {
            return;
        }
        activity.end_request();
    }
}

async fn answer(request: io::Result<Request>, operator: &mut Operator, access: &Access) -> io::Result<()> {
    let request = match request {
        Ok(request) => request,
        Err(error) => return refuse(operator, None, ErrorObject::new(INVALID_REQUEST, error.to_string())).await,
    };
    let id = Some(request.id);
    let is_masked = request.params.masked || [TAP, MASK].contains(&&*request.method);
    if let Err(error) = set_masked(operator, is_masked, &access.secrets) {
        return refuse(operator, id, error).await;
    }
    let outcome = match &*request.method {
        STATUS => status(access).await.map(|report| Answer::Status(Box::new(report))),
        PROCESS => Ok(Answer::Process(process().await)),
        TOKENS => ask(&access.queries, Query::Tokens).await.map(|()| Answer::Tokens(true)),
        LOG_LEVEL => {
            let filter = request.params.filter;
            match ask(&access.queries, |answer| Query::LogLevel { filter, answer }).await {
                Ok(changed) => {
                    changed.map(Answer::LogLevel).map_err(|error| ErrorObject::new(INVALID_PARAMS, error.to_string()))
                }
                Err(error) => Err(error),
            }
        }
        MASK => return metrics::answer_text(operator, request.id, request.params.text.unwrap_or_default()).await,
        METRICS => return metrics::answer(operator, request.id, access).await,
        CHECK => return control::check(operator, request.id, access).await,
        CALLS => return feeds::calls(operator, request.id, request.params.calls.unwrap_or_default(), access).await,
        LOGS => return feeds::logs(operator, request.id, request.params.logs.unwrap_or_default(), access).await,
        TAP => return tap::answer(operator, request.id, request.params.tap.unwrap_or_default(), access).await,
        TOOLS => return tools::answer(operator, request.id, request.params.tools.unwrap_or_default(), access).await,
        CHANGES => return changes::answer(operator, request.id, request.params.server.as_deref(), access).await,
        APPROVE => return changes::approve(operator, request.id, &request.params, access).await,
        RELOAD => return control::reload(operator, request.id, request.params.environment, access).await,
        RESTART_DAEMON => return control::restart_daemon(operator, request.id, access).await,
        method @ (RESTART | ENABLE | DISABLE) => {
            return control::answer(operator, (request.id, method), &request.params, access).await;
        }
        method => {
            let versions = format!("this daemon is {}, you are {}", env!("CARGO_PKG_VERSION"), request.params.version);
            Err(ErrorObject::new(METHOD_NOT_FOUND, format!("unknown method `{method}` ({versions})")))
        }
    };
    match outcome {
        Ok(result) => respond(operator, id, result).await,
        Err(error) => refuse(operator, id, error).await,
    }
}

/// The status, with what the servers use and the calls that run.
async fn status(access: &Access) -> Result<Report, ErrorObject> {
    access.manager.measure_usage().await;
    let report = ask(&access.queries, Query::Status).await?;
    Ok(Report { running_calls: access.calls.running().await, ..report })
}

/// Facts that the kernel shows to no other process of the user.
async fn process() -> ProcessReport {
    spawn_blocking(read_process).await.unwrap_or_default()
}

fn read_process() -> ProcessReport {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    ProcessReport {
        environment: variables.collect(),
        directory: std::env::current_dir().ok(),
        executable: fs::read_link("/proc/self/exe").ok(),
        open_files: targets.map(|target| target.display().to_string()).collect(),
    }
}
