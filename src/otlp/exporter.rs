//! Sends spans to the collector in batches. A thread of its own encodes and waits, so a slow or absent collector delays nothing.
//!
//! A batch that the collector has not received is sent again after a growing delay. Meanwhile the queue fills, and loses what exceeds it.
//!
//! Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP".

use std::fmt;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::messages;
use super::running::Queue;
use super::span::Span;
use crate::backoff::Backoff;
use crate::clock::WallClockAnchor;
use crate::config::{Address, Remote};
use crate::net::client::{Client, Clients, NetError, SendError};

/// Spans in the queue, some 2 MiB. Further ones are lost.
const QUEUE_LEN: usize = 8192;
/// Spans of one request.
const MAX_BATCH: usize = 512;
/// Pause before a batch, so that it has several spans: a request costs more than encoding them.
const BATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read, and the time for it.
const MAX_ANSWER: usize = 64 << 10;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two attempts to send a batch.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Where a collector receives spans, below its endpoint.
const PATH: &str = "/v1/traces";
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Why a batch was not received.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    NoAnswer(#[from] SendError),
    #[error("it does not answer within {} s", TIMEOUT.as_secs())]
    TooLate,
    #[error("it answers with HTTP status {0}")]
    Refused(StatusCode),
}

impl ExportError {
    /// Whether the collector may receive the same batch later.
    fn is_temporary(&self) -> bool {
        const TEMPORARY: [StatusCode; 4] = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        !matches!(self, Self::Refused(status) if !TEMPORARY.contains(status))
    }
}

/// Starts the thread. If that fails, it logs a warning and there are no spans.
pub(super) fn start(endpoint: &str) -> Option<Queue> {
    let (spans, received) = mpsc::channel(QUEUE_LEN);
    let queue = Queue { spans, lost: Arc::default(), stop: CancellationToken::new() };
    let (remote, lost, stop) =
        (Remote { url: endpoint.to_owned(), ..Remote::default() }, Arc::clone(&queue.lost), queue.stop.clone());
    let run = move || match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            let origin = remote.shown_origin();
            match Collector::new(&remote).await {
                Ok(collector) => Exporter::new(collector, origin, received, lost, stop).run().await,
                Err(error) => tracing::warn!("spans are not exported to {origin}: {error}"),
            }
        }),
        Err(error) => tracing::warn!("spans are not exported: {error}"),
    };
    match std::thread::Builder::new().name("mcpd-otlp".to_owned()).spawn(run) {
        Ok(_) => Some(queue),
        Err(error) => {
            tracing::warn!("spans are not exported: no thread: {error}");
            None
        }
    }
}

/// Where batches are sent.
struct Collector {
    client: Client,
    url: Url,
}

impl Collector {
    async fn new(remote: &Remote) -> Result<Self, NetError> {
        let client = Clients::default().get(remote).await?;
        let address = Address::parse(&remote.url).map_err(|complaint| format!("the URL {complaint}"))?;
        Ok(Self { client, url: traces_url(address.url()) })
    }

    async fn receive(&self, batch: Bytes) -> Result<(), ExportError> {
        let exchange = async {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, PROTOBUF)]);
            let response = self.client.configured().send(Method::POST, &self.url, headers, batch).await?;
            if !response.status().is_success() {
                return Err(ExportError::Refused(response.status()));
            }
            Ok(response)
        };
        let mut response = timeout(TIMEOUT, exchange).await.unwrap_or(Err(ExportError::TooLate))?;
        // The batch is received. The rest is read to its end, so that the connection is used again, but not for ever.
        let rest = async {
            let mut len = 0;
            while let Ok(Some(chunk)) = response.chunk().await
                && len <= MAX_ANSWER
            {
                len += chunk.len();
            }
        };
        let _ = timeout(ANSWER_TIMEOUT, rest).await;
        Ok(())
    }
}

/// The URL for spans of an endpoint, which may name it already.
fn traces_url(endpoint: &Url) -> Url {
    let mut url = endpoint.clone();
    let path = url.path().trim_end_matches('/');
    if !path.ends_with(PATH) {
        let path = format!("{path}{PATH}");
        url.set_path(&path);
    }
    url
}

struct Exporter {
    collector: Collector,
    origin: String,
    spans: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
    stop: CancellationToken,
    retries: Backoff,
    last_warning: Option<Instant>,
    /// Lost spans at the last warning.
    reported: u64,
}

impl Exporter {
    fn new(
        collector: Collector,
        origin: String,
        spans: mpsc::Receiver<Span>,
        lost: Arc<AtomicU64>,
        stop: CancellationToken,
    ) -> Self {
        let retries = Backoff::new(RETRY_DELAYS.0, RETRY_DELAYS.1);
        Self { collector, origin, spans, lost, stop, retries, last_warning: None, reported: 0 }
    }

    /// Runs until the daemon stops and nothing is left to send.
    async fn run(mut self) {
        while let Some(batch) = self.next_batch().await {
            while let Err(error) = self.export(&batch).await {
                let is_over = !error.is_temporary() || self.stop.is_cancelled();
                if is_over {
                    self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
                }
                self.warn(&error);
                if is_over {
                    break;
                }
                let delay = self.retries.next(fastrand::f64());
                self.pause(delay).await;
            }
        }
    }

    async fn next_batch(&mut self) -> Option<Vec<Span>> {
        let first = tokio::select! {
            span = self.spans.recv() => span,
            () = self.stop.cancelled() => self.spans.try_recv().ok(),
        }?;
        if self.spans.len() < MAX_BATCH {
            self.pause(BATCH_INTERVAL).await;
        }
        let more = iter::from_fn(|| self.spans.try_recv().ok());
        Some(iter::once(first).chain(more).take(MAX_BATCH).collect())
    }

    async fn export(&mut self, batch: &[Span]) -> Result<(), ExportError> {
        self.collector.receive(messages::encode(batch, WallClockAnchor::now())).await?;
        self.retries.reset();
        if self.lost.load(Ordering::Relaxed) > self.reported {
            self.warn("calls end faster than it receives their spans");
        }
        Ok(())
    }

    /// Waits, unless the daemon stops.
    async fn pause(&self, time: Duration) {
        let _ = timeout(time, self.stop.cancelled()).await;
    }

    fn warn(&mut self, reason: impl fmt::Display) {
        if self.last_warning.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            self.last_warning = Some(Instant::now());
            self.reported = self.lost.load(Ordering::Relaxed);
            tracing::warn!(lost = self.reported, "spans are not exported to {}: {reason}", self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_sent_below_the_endpoint() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://example.org/otlp/", "https://example.org/otlp/v1/traces"),
            ("https://example.org/otlp/v1/traces?a=b", "https://example.org/otlp/v1/traces?a=b"),
            ("unix:/run/collector.sock", "http://localhost/v1/traces"),
        ] {
            let address = Address::parse(endpoint).expect("a URL");
            assert_eq!(traces_url(address.url()).as_str(), expected, "{endpoint}");
        }
    }

    #[test]
    fn batch_is_sent_again_unless_the_collector_refuses_its_content() {
        for (status, expected) in [(400, false), (404, false), (413, false), (429, true), (500, false), (503, true)] {
            let error = ExportError::Refused(StatusCode::from_u16(status).expect("a status"));
            assert_eq!(error.is_temporary(), expected, "{status}");
        }
        assert!(ExportError::TooLate.is_temporary());
    }
}
