//! Asking every server now how it is.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::report::ServerReport;
use super::wait_ready::with_instances;
use super::{Manager, Member};
use crate::server::ServerHandle;

impl Manager {
    /// As [`Manager::servers`], with what each instance that runs answers when it is asked now how it is. All are asked at
    /// once, each for at most its `health_timeout`; none is started for it, and a silence changes nothing for a server.
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

    /// How long [`Manager::check`] takes at most.
    pub(crate) fn check_timeout(&self) -> Duration {
        let view = self.view.borrow();
        view.servers.iter().map(|member| member.config.settings.health_timeout).max().unwrap_or_default()
    }
}

/// An instance that was asked: with another process it is another one.
#[derive(PartialEq, Eq, Hash)]
struct InstanceKey {
    server: String,
    /// Empty where there is only one.
    purpose: String,
    /// None, if it is reached at a URL.
    pid: Option<u32>,
}

/// Whether an instance answers.
async fn check_instance(instance: ServerHandle, limit: Duration) -> Option<(InstanceKey, bool)> {
    let purpose = instance.label().map_or_else(String::new, ToString::to_string);
    let key = InstanceKey { server: instance.name().to_string(), purpose, pid: instance.published().pid };
    Some((key, instance.answers(limit).await?))
}
