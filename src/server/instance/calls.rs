//! The calls of one instance: each from its request to its response.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::wire::Wire;
use crate::bridge::BridgedCall;
use crate::catalog::Lists;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::request_line::RequestLine;
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::server::deadline::Deadline;
use crate::server::messages::call::{
    Access, Call, CallKey, Exposure, Origin, Reply, ReplySender, RequestKind, WeakLoadGuard,
};
use crate::server::share::{self, MAX_IN_FLIGHT, Shares, Vacancies};
use crate::server::stats::Stats;

/// Lines that wait for a server that does not read; no call is accepted beyond. Cancelled calls count too, so that calling and
/// cancelling without end fills no memory.
pub(super) const MAX_LINES: usize = 16 * MAX_IN_FLIGHT;

/// A call that is queued for the server or was written to it.
pub(in crate::server) struct PendingCall {
    pub(super) reply: Reply,
    pub(super) kind: RequestKind,
    pub(super) progress_token: Option<Bytes>,
    pub(super) deadline: Deadline,
    /// Its number in the outbox.
    pub(super) line: u64,
    /// About its size there.
    bytes: usize,
    pub(super) origin: Origin,
    /// What permits it, until it is written.
    pub(super) access: Option<Box<Access>>,
    /// Its state, if the agent speaks another era than the server.
    pub(super) bridged: Option<Box<BridgedCall>>,
    /// The agent of a suspended call.
    pub(super) absent_agent: Option<ReplySender>,
}

/// What is left of a call that the agent cancelled or that has timed out.
pub(super) struct Abandoned {
    /// Its id at the server.
    pub(super) id: u64,
    pub(super) key: CallKey,
    /// The server may make a task of it.
    pub(super) creates_task: bool,
    pub(super) load: Option<WeakLoadGuard>,
}

impl PendingCall {
    /// The call, and its line for the server as a function of its id.
    pub(super) fn new(
        call: Call,
        changes: &[Change],
        bridged: Option<Box<BridgedCall>>,
    ) -> (Self, impl FnOnce(u64) -> Bytes) {
        let Call { request, reply, matter: kind, origin, access, limit, .. } = call;
        let pending = Self {
            reply,
            kind,
            progress_token: request.progress_token.as_deref().map(Bytes::copy_from_slice),
            deadline: Deadline::new(limit, Instant::now()),
            line: 0,
            bytes: request.line.len(),
            origin,
            access,
            bridged,
            absent_agent: None,
        };
        (pending, move |id| request.numbered(id, changes))
    }

    /// Runs a transition of its state in the bridge.
    pub(super) fn transition<T>(&mut self, transition: impl FnOnce(BridgedCall) -> (BridgedCall, T)) -> Option<T> {
        let (bridged, output) = transition(*self.bridged.take()?);
        self.bridged = Some(Box::new(bridged));
        Some(output)
    }

    /// Whether its listener has stopped exposing what it calls.
    pub(super) fn is_hidden(&self, server: &str) -> bool {
        self.access.as_ref().is_some_and(|access| access.is_hidden(server))
    }

    /// Whether the server does not know its id.
    pub(super) fn is_parked(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.is_parked())
    }

    /// Whether the server has answered it, and the response waits for the agent.
    pub(super) fn is_answered(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.is_answered())
    }

    pub(super) fn was_sent_before(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.was_sent_before())
    }

    /// Whether the server may make a task of it.
    pub(super) fn creates_task(&self) -> bool {
        matches!(self.kind, RequestKind::NewTask) || self.bridged.as_ref().is_some_and(|bridged| bridged.creates_task())
    }

    /// Whether it waits for a task that its agent does not know.
    pub(super) fn follows_task(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.follows_task())
    }

    /// Whether it waits for the result of this task.
    pub(super) fn awaits(&self, task: &[u8]) -> bool {
        use crate::task_state::TaskAct;
        matches!(&self.kind, RequestKind::Task(ask) if ask.act == TaskAct::Result && ask.id == task)
    }

    pub(super) fn next_poll(&self) -> Option<Instant> {
        self.bridged.as_ref()?.next_poll()
    }

    /// When it has to be looked at next.
    pub(super) fn next_event(&self) -> Instant {
        let check = self.bridged.as_ref().and_then(|bridged| bridged.next_check());
        check.map_or(self.deadline.at(), |at| at.min(self.deadline.at()))
    }

    /// What is left of it at the server, which knows it by `id`.
    pub(super) fn abandoned(&self, id: u64) -> Abandoned {
        let load = self.reply.ticket().map(Arc::downgrade);
        Abandoned { id, key: self.reply.key, creates_task: self.creates_task(), load }
    }
}

/// Calls that were not written when their instance ended. No server has seen any byte of them, so another instance can send them.
impl PendingCall {
    /// Whether it depends on nothing that its own instance alone has.
    fn fits_any_instance(&self) -> bool {
        let is_new = self.bridged.as_ref().is_none_or(|bridged| bridged.fits_any_instance());
        is_new && matches!(self.kind, RequestKind::Nothing | RequestKind::NewTask | RequestKind::MayBeTask)
    }

    /// The call as it came, of which `line` was to be written.
    fn into_call(self, line: &Bytes) -> Result<Call, Box<Self>> {
        let request = match &self.bridged {
            Some(bridged) => Ok(bridged.request().line().clone()),
            None => self.original(line),
        };
        let Ok(request) = request else { return Err(Box::new(self)) };
        let Self { reply, kind: matter, deadline, origin, access, .. } = self;
        Ok(Call { request, matter, limit: deadline.call_limit(), origin, access, reply })
    }

    /// The line with the id and the progress token of the agent. The name stays the server's own.
    fn original(&self, line: &Bytes) -> Result<RequestLine, NotAnObject> {
        let (id, token) = id_and_token(line)?;
        let own = self.progress_token.as_ref();
        let mut edits = vec![Edit { part: &id, replacement: self.reply.id() }];
        edits.extend(token.iter().zip(own).map(|(part, replacement)| Edit { part, replacement }));
        let line = splice(line, &mut edits);
        let line = line.slice(..line.len() - 1);
        let (id, token) = id_and_token(&line)?;
        Ok(RequestLine { line, id, rename: None, progress_token: token.filter(|_| own.is_some()) })
    }
}

fn id_and_token(line: &Bytes) -> Result<(Bytes, Option<Bytes>), NotAnObject> {
    let [id, params] = members(line, ["id", "params"])?;
    let member = |object: Option<Bytes>, name| match object {
        Some(object) => members(&object, [name]).map(|[value]| value),
        None => Ok(None),
    };
    let token = member(member(params, "_meta")?, "progressToken")?;
    Ok((id.ok_or(NotAnObject)?, token))
}

/// Admission and counters of calls.
pub(super) struct Calls {
    count: usize,
    stats: Arc<Stats>,
}

impl Calls {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self { count: 0, stats }
    }

    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Calls that were accepted and have not ended.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn started(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 + 1);
        self.count += 1;
    }

    pub(super) fn ended(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 - 1);
        self.count -= 1;
    }

    /// The sessions that may start one more call, where `max` calls, `cancelled` ones included, may be in flight.
    pub(super) fn vacancies(&self, wire: &Wire, max: Option<usize>, cancelled: usize) -> Vacancies {
        match max {
            Some(max) if self.count + cancelled < max => Vacancies::All,
            Some(_) => Vacancies::None,
            None if self.count < MAX_IN_FLIGHT => Vacancies::All,
            None => Vacancies::Due(Shares::of(wire.calls().map(|(_, call)| (call.reply.key.session, 1)))),
        }
    }

    /// Whether the server reads so slowly that this call is not queued.
    pub(super) fn is_unread(&self, wire: &Wire, call: &Call) -> bool {
        let (session, bytes) = (call.reply.key.session, call.request.line.len());
        let unread = |call: &PendingCall| if wire.has_begun(call.line) { 0 } else { call.bytes };
        let unread = || wire.calls().map(|(_, call)| (call.reply.key.session, unread(call)));
        wire.unwritten_lines() >= MAX_LINES
            || wire.is_full_with(bytes) && !share::is_due(wire.max_message(), session, bytes, unread())
    }

    /// Removes calls that are not written and that their listener hides by now.
    pub(super) fn take_hidden(&self, wire: &mut Wire, server: &str, lists: &Lists) -> Vec<PendingCall> {
        let is_hidden = |call: &PendingCall, has_begun: bool| {
            !has_begun
                && !call.is_parked()
                && call.access.as_ref().is_some_and(|access| access.exposure(server, lists) == Exposure::Hidden)
        };
        let hidden = wire.remove_calls_where(is_hidden);
        hidden
            .into_iter()
            .map(|(_, call)| {
                wire.retract(call.line);
                call
            })
            .collect()
    }

    /// Removes calls that were not written, as they came; `Err` has those that cannot be read again.
    pub(super) fn take_unsent(&mut self, wire: &mut Wire) -> Vec<Result<Call, Box<PendingCall>>> {
        let is_unsent = |call: &PendingCall, has_begun: bool| !has_begun && call.fits_any_instance();
        let unsent = wire.remove_calls_where(is_unsent);
        unsent
            .into_iter()
            .map(|(_, call)| {
                let line = wire.retracted(call.line).unwrap_or_default();
                self.ended();
                call.into_call(&line.slice(..line.len().saturating_sub(1)))
            })
            .collect()
    }
}
