//! A span that has ended, and where it belongs in a trace.

#![cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the exporter reads spans"))]

use std::sync::Arc;

use crate::calls::span::Parent;
use crate::calls::{CallOutcome, Caller};
use crate::clock::Moment;

/// The flag of `traceparent` for a sampled trace, which every trace of mcpd's own has.
const SAMPLED: u8 = 1;

/// What both spans of a call have.
#[derive(Debug)]
pub(crate) struct TracedCall {
    pub(crate) caller: Arc<Caller>,
    /// The server that it is routed to, if any.
    pub(crate) server: Option<Arc<str>>,
    /// The name in the request, cut to a bounded length.
    pub(crate) exposed: Arc<str>,
    /// The agent's id of the request, cut to a bounded length.
    pub(crate) id: Box<str>,
    /// When the request was read.
    pub(crate) received: Moment,
}

/// Which side of a call a span is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Side {
    /// The agent's request, which mcpd serves.
    Server,
    /// The server's own name of the tool, and mcpd's id of the request once it was sent.
    Client { tool: Arc<str>, id: Option<u64> },
}

/// Where a span belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) flags: u8,
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) context: Context,
    pub(super) side: Side,
    pub(super) call: Arc<TracedCall>,
    pub(super) began: Moment,
    pub(super) ended: Moment,
    pub(super) outcome: CallOutcome,
    pub(super) request_bytes: usize,
    pub(super) reply_bytes: usize,
}

impl Context {
    /// A span below the one of an agent, or the first of a trace.
    pub(super) fn new(parent: Option<&Parent>) -> Self {
        let id = fastrand::u64(1..);
        match parent {
            None => Self { trace: fastrand::u128(1..), id, parent: None, flags: SAMPLED },
            Some(parent) => {
                let [trace, span] = parent.ids();
                // A span id has 64 bits.
                Self { trace, id, parent: u64::try_from(span).ok(), flags: parent.flags() }
            }
        }
    }

    pub(super) fn child(self) -> Self {
        Self { id: fastrand::u64(1..), parent: Some(self.id), ..self }
    }
}
