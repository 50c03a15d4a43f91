//! All metrics in the text formats of Prometheus and OpenMetrics. Values that servers publish are read when the text is written, so
//! nothing is counted twice.

mod process;
mod table;
mod text;

use std::collections::HashSet;

pub(crate) use self::process::DaemonProcess;
pub(crate) use self::text::{Format, encode};
use crate::durations::{Durations, Histogram, Labels, Measured, OTHER};
use crate::list_kind::ListKind;
use crate::manager::report::ServerReport;
use crate::manager::{Figures, View};

/// The values of all metrics at one moment.
#[derive(Debug)]
pub(crate) struct Scrape {
    servers: Vec<ServerReport>,
    /// Names of profiles, with the numbers of their agents.
    agents: Vec<(String, usize)>,
    /// In the order of [`Measured::ALL`].
    durations: [Vec<(Labels, Histogram)>; 4],
    daemon: Option<DaemonProcess>,
}

impl Scrape {
    /// What an operator sees: everything about these servers and profiles.
    pub(crate) fn of_daemon(
        servers: Vec<ServerReport>,
        agents: Vec<(String, usize)>,
        durations: &Durations,
        daemon: DaemonProcess,
    ) -> Self {
        let names: HashSet<&str> = servers.iter().map(|server| &*server.name).collect();
        let durations = read(durations, |labels| labels.server.as_deref().is_none_or(|server| names.contains(server)));
        Self { servers, agents, durations, daemon: Some(daemon) }
    }

    /// What an agent of `profile` may see: the servers in its view, and the tools and prompts that the view lists.
    pub(crate) fn of_profile(profile: &str, view: &View, figures: &Figures) -> Self {
        let names: HashSet<&str> = view.servers.iter().map(|member| &**member.handle.name()).collect();
        let routes = [ListKind::Tools, ListKind::Prompts].into_iter().flat_map(|kind| view.catalog.routes(kind));
        let listed: HashSet<(&str, &str)> = routes
            .filter_map(|(_, route)| Some((&**view.servers.get(route.server)?.handle.name(), &*route.name)))
            .collect();
        let is_listed = |labels: &Labels| match (labels.server.as_deref(), labels.target.as_deref()) {
            (Some(server), None) => names.contains(server),
            (Some(server), Some(target)) => listed.contains(&(server, target)),
            (None, target) => labels.profile.is_some() && target.is_none_or(|target| target == OTHER),
        };
        let is_visible = |labels: &Labels| {
            is_listed(labels) && labels.profile.as_deref().is_none_or(|of_series| of_series == profile)
        };
        let durations = read(figures.durations(), is_visible);
        Self { servers: figures.of_servers(view), agents: Vec::new(), durations, daemon: None }
    }

    /// The series of a metric.
    fn of(&self, measured: Measured) -> &[(Labels, Histogram)] {
        &self.durations[measured as usize]
    }
}

fn read(durations: &Durations, is_visible: impl Fn(&Labels) -> bool) -> [Vec<(Labels, Histogram)>; 4] {
    Measured::ALL.map(|measured| {
        let mut series = durations.read(measured);
        series.retain(|(labels, _)| is_visible(labels));
        series
    })
}

#[cfg(test)]
mod tests;
