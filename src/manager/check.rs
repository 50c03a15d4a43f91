//! A health check of every running instance on request, for `mcpd status --check`.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::report::ServerReport;
use super::wait_ready::with_instances;
use super::{Manager, Member};
use crate::server::ServerHandle;

impl Manager {
    /// As [`Manager::servers`], after a ping to every running instance. All pings run at the same time, each for at most the
    /// server's `health_timeout`. The check starts no instance, and a missing response does not change a server's state.
    pub async fn check(&self) -> Vec<ServerReport> {
        let members = self.view.borrow().servers.clone();
        let limited = |member: &Member| {
            let limit = member.config.settings.health_timeout;
            with_instances(member).into_iter().map(move |one| check_instance(one, limit))
        };
        let answers: HashMap<InstanceKey, bool> =
            join_all(members.iter().flat_map(limited)).await.into_iter().flatten().collect();
        let mut servers = self.servers();
        for server in &mut servers {
            let answer = |purpose: &str, pid: Option<u32>| {
                answers.get(&InstanceKey { server: server.name.clone(), purpose: purpose.to_owned(), pid }).copied()
            };
            for one in &mut server.instances {
                one.answers = answer(&one.purpose, one.pid);
            }
            let all = server.instances.iter().map(|one| one.answers).chain([answer("", server.pid)]);
            server.answers = all.flatten().reduce(|all, one| all && one);
        }
        servers
    }

    /// Maximum duration of [`Manager::check`].
    pub(crate) fn check_timeout(&self) -> Duration {
        let view = self.view.borrow();
        view.servers.iter().map(|member| member.config.settings.health_timeout).max().unwrap_or_default()
    }
}

/// Identifies an instance. After a restart, its process id differs.
#[derive(PartialEq, Eq, Hash)]
struct InstanceKey {
    server: String,
    /// Empty if the server has only one instance.
    purpose: String,
    /// `None` for a server with a URL.
    pid: Option<u32>,
}

/// Whether the instance answers a ping; `None` if that does not count.
async fn check_instance(instance: ServerHandle, limit: Duration) -> Option<(InstanceKey, bool)> {
    let purpose = instance.label().map_or_else(String::new, ToString::to_string);
    let key = InstanceKey { server: instance.name().to_string(), purpose, pid: instance.published().pid };
    Some((key, instance.answers(limit).await?))
}
