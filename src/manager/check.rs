//! Asking every server now how it is.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::report::ServerReport;
use super::settle::with_instances;
use super::{Manager, Member};
use crate::server::ServerHandle;

impl Manager {
    /// As [`Manager::servers`], with what each instance that runs answers when it is asked now how it is. All are asked at
    /// once, each for at most its `health_timeout`; none is started for it, and a silence changes nothing for a server.
    pub async fn check(&self) -> Vec<ServerReport> {
        let members = self.view.borrow().servers.clone();
        let limited = |member: &Member| {
            let limit = member.config.settings.health_timeout;
            with_instances(member).into_iter().map(move |one| ask(one, limit))
        };
        let answers: HashMap<u32, bool> =
            join_all(members.iter().flat_map(limited)).await.into_iter().flatten().collect();
        let answer = |pid: Option<u32>| answers.get(&pid?).copied();
        let mut servers = self.servers();
        for server in &mut servers {
            for one in &mut server.instances {
                one.answers = answer(one.pid);
            }
            let all = server.instances.iter().map(|one| one.answers).chain([answer(server.pid)]);
            server.answers = all.flatten().reduce(|all, one| all && one);
        }
        servers
    }

    /// How long [`Manager::check`] takes at most.
    pub(crate) fn check_patience(&self) -> Duration {
        let view = self.view.borrow();
        view.servers.iter().map(|member| member.config.settings.health_timeout).max().unwrap_or_default()
    }
}

/// Whether the process of an instance answers.
async fn ask(instance: ServerHandle, limit: Duration) -> Option<(u32, bool)> {
    let pid = instance.published().pid?;
    Some((pid, instance.answers(limit).await?))
}
