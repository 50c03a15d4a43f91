//! The daemon's state for `mcpd status`, assembled from published values without waiting.

use super::Daemon;
use super::agent_sockets::{AgentSockets, ProfileListener};
use super::config_state::RejectedConfig;
use crate::admin;
use crate::admin::report::{FileReport, ProfileReport, RejectedConfigReport, Report};
use crate::clock::WallClockAnchor;
use crate::config::Stamp;
use crate::list_kind::ListKind;
use crate::manager::View;
use crate::manager::report::{cut, millis};

/// Maximum length of the reason why a configuration was rejected, in bytes: a report has to fit into one message.
const MAX_REASON_LEN: usize = 32 << 10;

impl Daemon {
    pub(super) fn answer(&mut self, query: admin::Query) {
        match query {
            // The operator may have disconnected.
            admin::Query::Status(answer) => drop(answer.send(self.report())),
            admin::Query::Restart(answer) => {
                if let Some(restarting) = self.lifecycle.restart() {
                    drop(answer.send(restarting));
                }
            }
            admin::Query::Tokens(answer) => {
                if let Some(sockets) = &self.agents {
                    sockets.loopback().read_tokens();
                    self.sessions.keep_tokens(&sockets.loopback().tokens());
                }
                let _ = answer.send(());
            }
            admin::Query::LogLevel { filter, answer } => {
                let changed = filter.map_or(Ok(()), |filter| self.log.set(&filter));
                drop(answer.send(changed.map(|()| self.log.filter().to_owned())));
            }
        }
    }

    fn report(&self) -> Report {
        let view = self.manager.view();
        let view = view.borrow();
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            program: Some(self.lifecycle.program()),
            uptime_ms: millis(self.started.elapsed()),
            settled: self.has_settled(&view),
            idle_exit_ms: self.idle_exit.limit().map(millis),
            reload_refused: self.config.rejected().as_ref().map(rejected),
            files: self.config.stamps().iter().map(file).collect(),
            files_changed: Vec::new(),
            other_daemons: Vec::new(),
            reapers_lost: self.admission.reapers_lost(),
            usage_age_ms: self.manager.figures().usage_age().map(millis),
            servers: self.manager.figures().of_servers(&view),
            agents: self.sessions.report(),
            running_calls: Vec::new(),
            profiles: self.agents.iter().flat_map(AgentSockets::all).map(|one| self.profile(one)).collect(),
        }
    }

    /// Whether every server's first start attempt has ended, or `first_list_wait` is over.
    fn has_settled(&self, view: &View) -> bool {
        let attempted = || view.servers.iter().all(|member| member.handle.published().first_start_ended);
        view.settled && (self.started.elapsed() >= self.first_list_wait || attempted())
    }

    fn profile(&self, ProfileListener { served, listener, .. }: &ProfileListener) -> ProfileReport {
        let (profile, view) = (&served.profile, served.view.borrow());
        ProfileReport {
            name: profile.name.to_string(),
            socket: listener.path().display().to_string(),
            http: self.agents.as_ref().and_then(|all| all.loopback().address(&profile.name)).map(|at| at.to_string()),
            directories: profile.directories.to_vec(),
            servers: view.servers.iter().map(|member| member.handle.name().to_string()).collect(),
            tools: view.catalog.count(ListKind::Tools),
            cut: cut(&view),
            agents: self.sessions.count_at(&profile.name),
            quotas: self.sessions.quotas_at(&profile.name),
        }
    }
}

fn rejected(RejectedConfig { at, reason, stamps }: &RejectedConfig) -> RejectedConfigReport {
    let time = humantime::format_rfc3339_millis(WallClockAnchor::now().time_of(*at)).to_string();
    let end = (0..=reason.len().min(MAX_REASON_LEN)).rev().find(|end| reason.is_char_boundary(*end));
    let reason = reason[..end.unwrap_or_default()].to_owned();
    RejectedConfigReport { time, reason, files: stamps.iter().map(file).collect(), files_changed: Vec::new() }
}

fn file(Stamp { path, sha256 }: &Stamp) -> FileReport {
    FileReport { path: path.display().to_string(), sha256: sha256.clone() }
}
