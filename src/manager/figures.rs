//! What servers use, and how long requests take, for reports. Cheap to clone.

use std::time::Duration;

use super::report::{DurationReport, ServerReport, servers};
use super::usage::{UsageSampler, guards};
use super::view::View;
use crate::durations::{Durations, ErrorType, Measured};

/// The sources of all figures that are not published by servers.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    usage: UsageSampler,
    durations: Durations,
}

impl Figures {
    pub(super) fn new(durations: Durations) -> Self {
        Self { usage: UsageSampler::default(), durations }
    }

    pub(crate) fn durations(&self) -> &Durations {
        &self.durations
    }

    /// Measures what the servers in `view` use ([`super::Manager::measure_usage`]).
    pub(crate) async fn measure(&self, view: &View) {
        self.usage.refresh(|| guards(view)).await;
    }

    /// Time since the last measurement.
    pub(crate) fn usage_age(&self) -> Option<Duration> {
        self.usage.latest().age()
    }

    /// The reports of the servers in `view`.
    pub(crate) fn of_servers(&self, view: &View) -> Vec<ServerReport> {
        servers(view, &self.usage.latest())
    }

    /// All series of durations.
    pub(super) fn of_durations(&self) -> Vec<DurationReport> {
        let series =
            Measured::ALL.into_iter().flat_map(|it| self.durations.read(it).into_iter().map(move |one| (it, one)));
        let text = |value: Option<std::sync::Arc<str>>| value.map(|value| value.to_string());
        series
            .map(|(measured, (labels, histogram))| DurationReport {
                metric: measured.name().to_owned(),
                server: text(labels.server),
                method: labels.method.map(str::to_owned),
                target: text(labels.target),
                protocol: labels.protocol.map(str::to_owned),
                error: labels.error.map(|error| match error {
                    ErrorType::Code(code) => code.to_string(),
                    ErrorType::Word(word) => word.to_owned(),
                }),
                count: histogram.count(),
                total: histogram.total,
                buckets: histogram.buckets.to_vec(),
            })
            .collect()
    }
}
