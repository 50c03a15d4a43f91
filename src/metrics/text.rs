//! The text of a scrape.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{self, Registry};

use super::Scrape;
use super::table::{
    ERROR, Kind, METHOD, METRICS, Metric, OPERATION, PROFILE, PROMPT, PROTOCOL, SERVER, STATUS, Sample, Source, TOOL,
    Unit, Value,
};
use crate::durations::{BOUNDS, ErrorType, Histogram, Labels};

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Of Prometheus, version 0.0.4, which all its tools read.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a client that accepts these media ranges.
    pub(crate) fn accepted<'a>(mut ranges: impl Iterator<Item = &'a str>) -> Self {
        let accepts_open = ranges.any(|range| range.eq_ignore_ascii_case("application/openmetrics-text"));
        if accepts_open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes all metrics.
pub(crate) fn encode(scrape: Scrape, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut written = String::new();
    // A string takes everything.
    let _ = match format {
        Format::Prometheus => prometheus_text::encode(&mut written, &registry),
        Format::OpenMetrics => text::encode(&mut written, &registry),
    };
    written
}

impl Metric {
    /// The name without unit.
    pub(super) fn prometheus_name(&self) -> String {
        self.name.replace('.', "_")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let series = match metric.source {
                Source::Durations(measured) => self.of(measured),
                _ => &[],
            };
            let samples = metric.samples(self);
            if samples.is_empty() && series.is_empty() {
                continue;
            }
            let unit = metric.unit.map(|unit| match unit {
                Unit::Seconds => registry::Unit::Seconds,
                Unit::Bytes => registry::Unit::Bytes,
            });
            let kind = match metric.kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
                Kind::Histogram => MetricType::Histogram,
                Kind::Info => MetricType::Info,
            };
            let name = metric.prometheus_name();
            let mut encoder = encoder.encode_descriptor(&name, metric.help, unit.as_ref(), kind)?;
            for (labels, histogram) in series {
                write_histogram(&mut encoder, metric.labels, (labels, histogram))?;
            }
            for sample in samples {
                write_sample(&mut encoder, metric.kind, &sample)?;
            }
        }
        Ok(())
    }
}

fn write_histogram(
    encoder: &mut MetricEncoder<'_>,
    names: &[&str],
    (labels, histogram): (&Labels, &Histogram),
) -> fmt::Result {
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(histogram.buckets).collect();
    let mut labels = shown(labels);
    labels.retain(|(name, _)| names.contains(name));
    let mut encoder = encoder.encode_family(&labels)?;
    encoder.encode_histogram::<NoLabelSet>(histogram.total.as_secs_f64(), histogram.count(), &buckets, None)
}

fn write_sample(encoder: &mut MetricEncoder<'_>, kind: Kind, Sample { labels, value }: &Sample<'_>) -> fmt::Result {
    if kind == Kind::Info {
        return encoder.encode_info(labels);
    }
    let mut encoder = encoder.encode_family(labels)?;
    match (kind, value) {
        (Kind::Counter, Value::Integer(value)) => encoder.encode_counter::<NoLabelSet, _, f64>(value, None),
        (Kind::Counter, Value::Real(value)) => encoder.encode_counter::<NoLabelSet, _, f64>(value, None),
        (_, Value::Integer(value)) => encoder.encode_gauge(value),
        (_, Value::Real(value)) => encoder.encode_gauge(value),
    }
}

/// The labels of a duration that apply, by their names in the conventions.
fn shown(labels: &Labels) -> Vec<(&'static str, Cow<'_, str>)> {
    let Labels { server, profile, method, target, protocol, error } = labels;
    let is_call = *method == Some("tools/call");
    let target_label = if is_call { TOOL } else { PROMPT };
    let (error, status): (Option<Cow<'_, str>>, Option<Cow<'_, str>>) = match error {
        Some(ErrorType::Code(code)) => (Some(code.to_string().into()), Some(code.to_string().into())),
        Some(ErrorType::Word(word)) => (Some((*word).into()), None),
        None => (None, None),
    };
    let all = [
        (SERVER, server.as_deref().map(Cow::from)),
        (PROFILE, profile.as_deref().map(Cow::from)),
        (METHOD, method.map(Cow::from)),
        (target_label, target.as_deref().map(Cow::from)),
        (OPERATION, is_call.then_some("execute_tool".into())),
        (PROTOCOL, protocol.map(Cow::from)),
        (ERROR, error),
        (STATUS, status),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
