//! Trial starts: starts servers as a daemon would, reports how they did, and stops them.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::servers::{ServerCheck, Trial};
use crate::config::{AgentDirectory, CPU_WEIGHT, Launch, Limit, ServerConfig, Sharing, Start};
use crate::daemon;
use crate::manager::{Manager, ManagerError, Setup};
use crate::server::{GuardProgram, ServerContext};

/// Until all servers have to be ready. Longer than the default `handshake_timeout`, after which a server has a reason.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(35);

/// Starts `servers` for an agent that works in `directory` and stops them again.
///
/// # Errors
/// If a name is not valid, which cannot happen with a valid configuration.
pub(super) async fn run(servers: &[&ServerConfig], directory: Option<&Path>) -> Result<Vec<ServerCheck>, ManagerError> {
    let directory = directory.and_then(Path::to_str).map(|path| AgentDirectory::Own(path.into())).unwrap_or_default();
    let configs = servers.iter().map(|server| trial_config(server, &directory));
    let logins = daemon::logins();
    let host =
        ServerContext { restarts: None, logins: logins.clone(), ..ServerContext::new(GuardProgram::available()) };
    let manager = Manager::start_with(Setup { host, ..Setup::default() }, configs)?;
    let begin = Instant::now();
    let handles: Vec<_> = manager.view().borrow().servers.iter().map(|member| member.handle.clone()).collect();
    let waits = handles.iter().zip(servers).map(async |(handle, server)| {
        let has_ended = handle.wait_for(|published| published.first_start_ended || !server.settings.enabled);
        let _ = timeout_at((begin + TRIAL_TIMEOUT).into(), has_ended).await;
        begin.elapsed()
    });
    let took = join_all(waits).await;
    // The manager counts exposed items in its own task.
    manager.refresh().await?;
    let states = manager.servers().into_iter().zip(servers.iter().zip(took));
    let states = states.map(|(report, (server, took))| ServerCheck {
        report,
        trial: Some(Trial {
            took,
            handshake_timeout: server.settings.handshake_timeout,
            could_start: server.launch.is_ok(),
        }),
    });
    let states = states.collect();
    manager.close().await;
    if let Some(logins) = logins {
        logins.settled().await;
    }
    Ok(states)
}

/// The server for one agent, started at once. Without limits, since those need mcpd's own cgroup.
fn trial_config(server: &ServerConfig, directory: &AgentDirectory) -> ServerConfig {
    let wants_cwd = server.launch.as_ref().is_ok_and(Launch::needs_agent_cwd);
    let mut server = if wants_cwd { server.at(directory) } else { server.clone() };
    server.settings.sharing = Sharing::Shared;
    server.settings.start = Start::Eager;
    (server.settings.memory_max, server.settings.tasks_max) = (Limit::NONE, Limit::NONE);
    server.settings.cpu_weight = CPU_WEIGHT;
    server
}
