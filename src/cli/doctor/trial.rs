//! Servers started to be looked at, as a daemon would start them, and ended again.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::servers::{Told, Trial};
use crate::config::{Launch, ServerConfig, Sharing, Start};
use crate::daemon;
use crate::manager::{Manager, ManagerError, Setup};
use crate::server::{Guard, ServerContext, StartPermits};

/// For all of them together to be ready.
const TRIAL: Duration = Duration::from_secs(25);

/// Starts `servers` as agents that work in `directory` would have them, `at_once` at a time, tells how that
/// went, and leaves nothing of them behind.
///
/// # Errors
/// If their names do not fit, which those of a configuration that holds do.
pub(super) async fn run(
    servers: &[&ServerConfig],
    directory: Option<&Path>,
    at_once: usize,
) -> Result<Vec<Told>, ManagerError> {
    let cwd = directory.and_then(Path::to_str);
    let tried = servers.iter().map(|server| tried(server, cwd));
    let (start_permits, logins) = (StartPermits::new(at_once), daemon::logins());
    let host = ServerContext {
        restarts: false,
        start_permits,
        logins: logins.clone(),
        ..ServerContext::new(Guard::available())
    };
    let manager = Manager::start_with(Setup { host, ..Setup::default() }, tried)?;
    let begin = Instant::now();
    let handles: Vec<_> = manager.view().borrow().servers.iter().map(|member| member.handle.clone()).collect();
    let waits = handles.iter().map(async |handle| {
        let _ = timeout_at((begin + TRIAL).into(), handle.wait_for(|published| published.attempted)).await;
        begin.elapsed()
    });
    let took = join_all(waits).await;
    // What is exposed is known once the manager has had its turn.
    manager.refresh().await?;
    let told = manager.servers().into_iter().zip(servers.iter().zip(took));
    let told = told.map(|(report, (server, took))| Told {
        report,
        trial: Some(Trial { took, could_start: server.launch.is_ok() }),
    });
    let told = told.collect();
    manager.close().await;
    if let Some(logins) = logins {
        // What is too late is made again by whoever needs it.
        logins.settled().await;
    }
    Ok(told)
}

/// The same for one agent, started at once, and without limits, which need a cgroup of mcpd's own.
fn tried(server: &ServerConfig, cwd: Option<&str>) -> ServerConfig {
    let wants_cwd = server.launch.as_ref().is_ok_and(Launch::needs_agent_cwd);
    let mut server = if wants_cwd { server.at(cwd) } else { server.clone() };
    server.settings.sharing = Sharing::Shared;
    server.settings.start = Start::Eager;
    (server.settings.memory_max, server.settings.tasks_max) = (None, None);
    server
}
