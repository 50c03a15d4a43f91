//! The method `metrics`: all metrics, in the text format of Prometheus.

use std::io;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::operator::{Access, Operator, Query, ask, refuse, refuse_overload, respond, send_text, stopping};
use super::{AdminEvent, Answer};
use crate::metrics::{DaemonProcess, Format, Scrape, encode};

/// Answers request `id`.
pub(super) async fn answer(operator: &mut Operator, id: u64, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    access.manager.measure_usage().await;
    let report = match ask(&access.queries, Query::Status).await {
        Ok(report) => report,
        Err(error) => return refuse(operator, Some(id), error).await,
    };
    let durations = access.manager.figures().durations().clone();
    let written = spawn_blocking(move || {
        let agents = report.profiles.into_iter().map(|profile| (profile.name, profile.agents)).collect();
        let daemon = DaemonProcess::read(Duration::from_millis(report.uptime_ms));
        encode(Scrape::of_daemon(report.servers, agents, &durations, daemon), Format::Prometheus)
    });
    let Ok(text) = written.await else { return refuse(operator, Some(id), stopping()).await };
    answer_text(operator, id, text).await
}

/// Answers request `id` with a text.
pub(super) async fn answer_text(operator: &mut Operator, id: u64, text: String) -> io::Result<()> {
    let len = text.len();
    send_text(operator, text, AdminEvent::Text).await?;
    respond(operator, Some(id), Answer::Text(len)).await
}
