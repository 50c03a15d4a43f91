//! What several files ask for, as one configuration.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Level, SourceFile};
use super::super::interpolate::{Sources, Undefined};
use super::super::launch::Launch;
use super::super::read::{DaemonDraft, DefaultsDraft, Draft, ServerDraft};
use super::super::tree::Problem;
use super::super::{Config, DaemonConfig, Keep, ServerConfig};
use super::profiles::ProfileLayers;
use crate::naming::Naming;

/// The files added so far, later ones on top.
#[derive(Default)]
pub(super) struct Layers {
    daemon: DaemonDraft,
    defaults: DefaultsDraft,
    servers: Vec<ServerDraft>,
    /// `FILE:LINE:COLUMN` of each server's name.
    places: HashMap<Arc<str>, String>,
    profiles: ProfileLayers,
}

impl Layers {
    /// Puts `draft` on top; what it configures a second time comes back as errors.
    pub(super) fn add(&mut self, file: &Arc<SourceFile>, draft: Draft) -> Vec<Diagnostic> {
        let Draft { daemon, defaults, servers, server_names, profiles, notes: _ } = draft;
        self.daemon.naming = daemon.naming.or(self.daemon.naming);
        self.daemon.max_name_length = daemon.max_name_length.or(self.daemon.max_name_length);
        self.daemon.max_message = daemon.max_message.or(self.daemon.max_message);
        self.daemon.line_timeout = daemon.line_timeout.or(self.daemon.line_timeout);
        self.daemon.max_starting = daemon.max_starting.or(self.daemon.max_starting);
        self.daemon.call_history = daemon.call_history.or(self.daemon.call_history);
        self.daemon.call_log = daemon.call_log.or(self.daemon.call_log.take());
        self.daemon.call_log_max = daemon.call_log_max.or(self.daemon.call_log_max);
        self.daemon.watch = daemon.watch.or(self.daemon.watch);
        self.defaults.settings = defaults.settings.or(&self.defaults.settings);
        self.defaults.pass_env.extend(defaults.pass_env);
        let mut wrong = self.profiles.add(file, server_names, profiles);
        wrong.extend(servers.into_iter().filter_map(|server| self.add_server(file, server)));
        wrong
    }

    fn add_server(&mut self, file: &Arc<SourceFile>, server: ServerDraft) -> Option<Diagnostic> {
        let place = file.address(server.name_span.start);
        if let Some(first) = self.places.get(&server.name) {
            let message = format!("server `{}` is configured twice", server.name);
            let problem = Problem::new(server.name_span, message)
                .label(format!("the first is at {first}"))
                .help("remove one of the two, or give it another name");
            return Some(Diagnostic::new(Level::Error, file, problem));
        }
        self.places.insert(Arc::clone(&server.name), place);
        self.servers.push(server);
        None
    }

    /// What does not hold over all files together.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        self.profiles.check()
    }

    /// The configuration, with a default wherever no file says anything.
    pub(super) fn into_config(self, sources: &dyn Sources) -> Config {
        let Self { daemon, defaults, servers, places: _, profiles } = self;
        let unset = DaemonConfig::default();
        let naming = Naming {
            scheme: daemon.naming.unwrap_or(unset.naming.scheme),
            max_length: daemon.max_name_length.unwrap_or(unset.naming.max_length),
        };
        let calls = Keep {
            history: daemon.call_history.unwrap_or(unset.calls.history),
            file: daemon.call_log,
            max_file: daemon.call_log_max.unwrap_or(unset.calls.max_file),
        };
        let max_message_bytes = daemon.max_message.unwrap_or(unset.max_message_bytes);
        Config {
            profiles: profiles.settle(&naming),
            daemon: DaemonConfig {
                naming,
                max_message_bytes,
                line_timeout: daemon.line_timeout.unwrap_or(unset.line_timeout),
                max_starting: daemon.max_starting.unwrap_or(unset.max_starting),
                watch: daemon.watch.unwrap_or(unset.watch),
                calls,
            },
            servers: servers.into_iter().map(|server| settle(server, &defaults, sources)).collect(),
        }
    }
}

fn settle(server: ServerDraft, defaults: &DefaultsDraft, sources: &dyn Sources) -> ServerConfig {
    let settings = server.settings.or(&defaults.settings).settle();
    let launch = server.launch.fill(sources).and_then(|mut launch| {
        if let Launch::Program(program) = &mut launch {
            program.pass_env.extend(defaults.pass_env.iter().cloned());
            program.pass_env.sort_unstable();
            program.pass_env.dedup();
        }
        let is_lost = launch.wants_agent_cwd() && !settings.sharing.is_by_agent();
        if is_lost { Err(Undefined::AgentCwd) } else { Ok(launch) }
    });
    ServerConfig { name: server.name, launch, policy: server.policy, settings, log_arguments: server.log_arguments }
}
