//! The two spans of a call while it runs, and the queue that they are put into at their ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::span::{Context, Side, Span, TracedCall};
use crate::calls::CallOutcome;
use crate::calls::span::Parent;
use crate::clock::Moment;
use crate::jsonrpc::splice::Change;

/// The queue to the thread of the exporter.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) spans: mpsc::Sender<Span>,
    /// Spans that no collector has received and none will.
    pub(super) lost: Arc<AtomicU64>,
    pub(super) stop: CancellationToken,
}

impl Queue {
    fn push(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The span of an agent's call, until it ends.
#[derive(Debug)]
pub(crate) struct ServerSpan {
    queue: Queue,
    context: Context,
    call: Arc<TracedCall>,
    request_bytes: usize,
}

/// The span of a call at a server, below the one of the agent's call. It ends without a trace if it never began.
#[derive(Debug)]
pub(crate) struct ClientSpan {
    queue: Queue,
    context: Context,
    call: Arc<TracedCall>,
    side: Side,
    /// When the call was sent to an instance, and its size.
    began: Option<(Moment, usize)>,
}

impl ServerSpan {
    pub(super) fn new(queue: Queue, parent: Option<&Parent>, call: TracedCall, request_bytes: usize) -> Self {
        Self { queue, context: Context::new(parent), call: Arc::new(call), request_bytes }
    }

    /// The span of this call at its server, where the tool has this name.
    pub(crate) fn client(&self, tool: &Arc<str>) -> ClientSpan {
        let side = Side::Client { tool: Arc::clone(tool), id: None };
        let call = Arc::clone(&self.call);
        ClientSpan { queue: self.queue.clone(), context: self.context.child(), call, side, began: None }
    }

    pub(crate) fn end(self, ended: Moment, outcome: CallOutcome, reply_bytes: usize) {
        let Self { queue, context, call, request_bytes } = self;
        let began = call.received;
        queue.push(Span { context, side: Side::Server, call, began, ended, outcome, request_bytes, reply_bytes });
    }
}

impl ClientSpan {
    /// The request `line` is sent to an instance. The change makes this span the parent of what the server does, if the agent has sent a
    /// `traceparent`.
    pub(crate) fn begin(&mut self, line: &Bytes) -> Option<Change> {
        self.began = Some((Moment::now(), line.len()));
        let part = Parent::of(line)?.raw().clone();
        let Context { trace, id, flags, .. } = self.context;
        Some(Change { part, replacement: format!("\"00-{trace:032x}-{id:016x}-{flags:02x}\"").into() })
    }

    /// The request has this id at the server.
    pub(crate) fn set_request_id(&mut self, request: u64) {
        if let Side::Client { id, .. } = &mut self.side {
            *id = Some(request);
        }
    }

    pub(crate) fn end(self, outcome: CallOutcome, reply_bytes: usize) {
        let Self { queue, context, call, side, began } = self;
        let Some((began, request_bytes)) = began else { return };
        let ended = Moment::now();
        queue.push(Span { context, side, call, began, ended, outcome, request_bytes, reply_bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Caller;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "00f067aa0ba902b7";

    fn queue(length: usize) -> (Queue, mpsc::Receiver<Span>) {
        let (spans, received) = mpsc::channel(length);
        (Queue { spans, lost: Arc::default(), stop: CancellationToken::new() }, received)
    }

    fn span(queue: &Queue, line: &Bytes) -> ServerSpan {
        let caller = Caller { session: 1, profile: "default".into(), pid: None, uid: 0, client: None };
        let (exposed, id, received) = ("a__t".into(), "1".into(), Moment::now());
        let call = TracedCall { caller: Arc::new(caller), server: Some("a".into()), exposed, id, received };
        ServerSpan::new(queue.clone(), Parent::of(line).as_ref(), call, line.len())
    }

    fn line(traceparent: &str) -> Bytes {
        let meta = format!(r#"{{"traceparent" : {traceparent}, "x":1}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{meta},"name":"t"}}}}"#).into()
    }

    #[test]
    fn traceparent_gets_the_span_of_the_call_at_the_server_and_keeps_the_rest() {
        let (queue, _received) = queue(1);
        for (version, end, flags) in [("00", "-01", "01"), ("\\u0030\\u0030", "-03", "03"), ("cc", "-01-more", "01")] {
            let line = line(&format!("\"{version}-{TRACE}-{PARENT}{end}\""));
            let server = span(&queue, &line);
            let mut client = server.client(&"t".into());
            let change = client.begin(&line).expect("a member");
            let replacement = format!("\"00-{TRACE}-{:016x}-{flags}\"", client.context.id);
            assert_eq!(change.replacement, replacement, "{version}");
            assert!(change.part.starts_with(b"\"") && line.len() - change.part.len() == self::line("").len());
            assert_eq!(client.context.parent, Some(server.context.id));
            assert_eq!(server.context.parent, u64::from_str_radix(PARENT, 16).ok());
        }
        assert_eq!(span(&queue, &line("7")).client(&"t".into()).begin(&line("7")), None);
    }

    #[test]
    fn span_that_never_began_leaves_nothing_and_a_full_queue_counts_what_it_loses() {
        let (queue, mut received) = queue(1);
        let line = line("7");
        span(&queue, &line).client(&"t".into()).end(CallOutcome::Ok, 1);
        assert!(received.try_recv().is_err());
        for _ in 0..3 {
            span(&queue, &line).end(Moment::now(), CallOutcome::Ok, 1);
        }
        assert_eq!(queue.lost.load(Ordering::Relaxed), 2);
        assert!(received.try_recv().is_ok_and(|span| span.request_bytes == line.len()));
    }
}
