//! The tool calls of the agent that run, for an operator who asks.

use super::unanswered::UnansweredRequests;
use crate::calls::report::RunningCallReport;
use crate::calls::running::{MAX_RUNNING, RunningCallSender};
use crate::calls::{self, Caller, Moment};
use crate::methods::Forwarding;

/// Sends the oldest tool calls among the unanswered requests. If the operator's queue is full, those of other sessions are shown.
pub(super) fn report(unanswered: &UnansweredRequests, caller: &Caller, sender: &RunningCallSender) {
    let at_servers = unanswered.calls().filter_map(|call| {
        let (began, tool) = call.record.tool_call()?;
        Some((began, Some(call.server.name().to_string()), tool.to_string()))
    });
    let parked = unanswered.parked_calls().filter(|call| call.forwarding == Forwarding::CallTool);
    let parked = parked.map(|call| (call.received, None, calls::unknown_tool(&call.exposed_name).to_string()));
    let mut all: Vec<_> = at_servers.chain(parked).collect();
    all.sort_unstable_by_key(|(began, ..)| *began);
    let now = Moment::now();
    for (began, server, tool) in all.into_iter().take(MAX_RUNNING) {
        let running_ms = u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX);
        let Caller { session, client, .. } = caller;
        let _ =
            sender.try_send(RunningCallReport { session: *session, client: client.clone(), server, tool, running_ms });
    }
}
