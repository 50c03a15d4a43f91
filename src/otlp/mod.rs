//! Spans of tool calls, which a collector receives by OTLP over HTTP if `otlp_endpoint` is set.
//!
//! ```text
//! session        SERVER span of a call ─┐
//! server's task  CLIENT span below it  ─┴─► queue ─► thread `mcpd-otlp` ─► POST …/v1/traces
//! ```
//!
//! Without `otlp_endpoint`, [`Tracer`] is empty: there is no thread and no span, and a call only checks an `Option`. With it, a span is put
//! into a bounded queue when it ends. If the queue is full, the span is lost. Only the thread encodes and waits for the collector.
//!
//! A span has names, times, an outcome and sizes. It never has arguments, results, URIs or the text of an error. [`messages`] has its
//! attributes, which follow the conventions for MCP.
//!
//! In `traceparent`, the server receives the id of the CLIENT span instead of the id that the agent has sent. If the agent does not sample
//! its trace, the call has no span. A call without `traceparent` begins a new trace, which the server does not see.
//!
//! Without the feature `otlp`, the key is reported and ignored.
//!
//! Sources: opentelemetry.io/docs/specs/otlp, opentelemetry.io/docs/specs/semconv/gen-ai/mcp, W3C Trace Context.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod messages;
mod running;
mod span;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use self::running::Queue;
pub(crate) use self::running::{ClientSpan, ServerSpan};
pub(crate) use self::span::TracedCall;
use crate::calls::span::Parent;

/// Time limit for the last spans when the daemon stops.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

/// Makes spans, if they are exported. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracer(Option<Queue>);

impl Tracer {
    /// Exports to this endpoint, if there is one and mcpd was built with the feature.
    #[must_use]
    pub(crate) fn start(endpoint: Option<&str>) -> Self {
        #[cfg(feature = "otlp")]
        return Self(endpoint.and_then(exporter::start));
        #[cfg(not(feature = "otlp"))]
        {
            if endpoint.is_some() {
                tracing::warn!("`otlp_endpoint` is ignored: this mcpd was built without the feature `otlp`");
            }
            Self(None)
        }
    }

    /// Begins the span of the request `line`, unless nobody receives it or its agent does not sample the trace.
    #[inline]
    pub(crate) fn begin(&self, line: &Bytes, call: impl FnOnce() -> TracedCall) -> Option<ServerSpan> {
        let queue = self.0.as_ref()?;
        let parent = Parent::of(line);
        let is_sampled = parent.as_ref().is_none_or(Parent::is_sampled);
        is_sampled.then(|| ServerSpan::new(queue.clone(), parent.as_ref(), call(), line.len()))
    }

    /// Waits until the collector has every span, for a limited time. Returns whether the exporter has ended.
    pub(crate) async fn finish(&self) -> bool {
        let Some(queue) = &self.0 else { return true };
        queue.stop.cancel();
        timeout(FINISH_TIMEOUT, queue.spans.closed()).await.is_ok()
    }
}
