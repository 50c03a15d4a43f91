//! The state of the one `subscriptions/listen` that serves all agents of a modern server. Pure.
//!
//! An open request cannot be extended. For another set of topics mcpd sends a new request, which replaces the open one when the server
//! acknowledges it. So no notification is missed or delivered twice. A server may refuse a whole request because of one unknown
//! resource. Then mcpd requests fewer new topics at a time until it has found that resource.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::NotificationSupport;
use crate::backoff::Backoff;
use crate::era::subscription::ListenFilter;
use crate::list_kind::ListKind;
use crate::server::instance::pending_request::Deadline;
use crate::server::messages::call::Call;

/// Delay before a new request after the server has ended one. It doubles each time.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// A request that was open for this long resets the delay.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The subject of notifications besides changed lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Topic {
    /// Changes of the resource with this URI, as text.
    Resource(Bytes),
    /// The status of the task with this id, as text.
    Task(Bytes),
}

/// The `subscriptions/listen` of one instance.
pub(super) struct ListenState {
    support: NotificationSupport,
    /// The topics of agents, each with its raw URI or id.
    topics: BTreeMap<Topic, Bytes>,
    /// The topics that the server has acknowledged last. mcpd assumes that the server accepts these again.
    known: BTreeSet<Topic>,
    /// Maximum number of new topics in one request, after the server has refused more.
    max_new: Option<usize>,
    waiting: Vec<WaitingSubscribe>,
    /// The request that is not acknowledged yet.
    pending: Option<PendingListen>,
    /// The acknowledged request.
    open: Option<OpenListen>,
    /// The requested topics may have changed since the last check.
    is_stale: bool,
    /// Lists may have changed while no request was open.
    has_missed: bool,
    backoff: Backoff,
    retry_at: Option<Instant>,
}

impl Default for ListenState {
    fn default() -> Self {
        Self {
            support: NotificationSupport::default(),
            topics: BTreeMap::new(),
            known: BTreeSet::new(),
            max_new: None,
            waiting: Vec::new(),
            pending: None,
            open: None,
            is_stale: false,
            has_missed: false,
            backoff: Backoff::new(FIRST_DELAY, MAX_DELAY),
            retry_at: None,
        }
    }
}

/// A call that subscribes to a resource, until the server acknowledges that.
struct WaitingSubscribe {
    call: Call,
    deadline: Deadline,
}

/// A request that the server has not acknowledged.
struct PendingListen {
    id: u64,
    filter: ListenFilter,
}

/// A request that the server has acknowledged.
struct OpenListen {
    id: u64,
    filter: ListenFilter,
    since: Instant,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListenAction {
    Nothing,
    /// Check again at this time.
    Wait(Instant),
    /// Send a request with this filter.
    Send(ListenFilter),
    /// End the open request with this id, because no agent needs it.
    End(u64),
}

/// The acknowledgement of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamStart {
    pub(super) filter: ListenFilter,
    /// The id of the request that it replaces.
    pub(super) replaced: Option<u64>,
    /// No request was open for a while.
    pub(super) has_missed: bool,
}

impl ListenState {
    /// The server has declared its notifications.
    pub(super) fn declare(&mut self, support: NotificationSupport) {
        self.support = support;
        self.is_stale = true;
    }

    pub(super) fn supports_updates(&self) -> bool {
        self.support.updates
    }

    /// The remaining delay before the next request.
    pub(super) fn retry_delay(&self) -> Option<Duration> {
        self.retry_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn add(&mut self, topic: Topic, raw: &Bytes) {
        self.is_stale |= self.topics.insert(topic, raw.clone()).is_none();
    }

    pub(super) fn remove(&mut self, topic: &Topic) {
        self.known.remove(topic);
        self.is_stale |= self.topics.remove(topic).is_some();
    }

    /// Nothing more follows about this topic, so the next request omits it.
    pub(super) fn end_topic(&mut self, topic: &Topic) {
        self.topics.remove(topic);
    }

    /// Makes a call wait for its subscription. Returns the deadline.
    pub(super) fn wait(&mut self, call: Call, now: Instant) -> Instant {
        let deadline = Deadline::new(call.limit, now);
        let until = deadline.at();
        self.waiting.push(WaitingSubscribe { call, deadline });
        self.is_stale = true;
        until
    }

    /// The calls that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Call> {
        self.waiting.iter().map(|waiting| &waiting.call)
    }

    /// The deadline of the next call that waits.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.deadline.at()).min()
    }

    /// Removes calls whose deadline has passed, each with its time limit.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<(Call, Duration)> {
        let overdue = self.waiting.extract_if(.., |waiting| waiting.deadline.at() <= now);
        let overdue: Vec<_> = overdue.map(|waiting| (waiting.call, waiting.deadline.current_limit())).collect();
        self.is_stale |= !overdue.is_empty();
        overdue
    }

    /// Removes these waiting calls.
    pub(super) fn take_waiting(&mut self, is_it: impl Fn(&Call) -> bool) -> Vec<Call> {
        let taken = self.waiting.extract_if(.., |waiting| is_it(&waiting.call));
        let taken: Vec<_> = taken.map(|waiting| waiting.call).collect();
        self.is_stale |= !taken.is_empty();
        taken
    }

    /// The filter for the current topics, without notifications that the server does not declare.
    fn filter(&self) -> ListenFilter {
        let NotificationSupport { changes, updates, tasks } = &self.support;
        let mut topics = self.topics.clone();
        let waiting = self.waiting().filter_map(Call::subscription);
        topics.extend(waiting.map(|own| (Topic::Resource(own.uri.clone()), own.raw.clone())));
        let mut more = self.max_new.unwrap_or(usize::MAX);
        topics.retain(|topic, _| {
            let is_supported = if matches!(topic, Topic::Task(_)) { *tasks } else { *updates };
            let is_included = is_supported && (self.known.contains(topic) || more > 0);
            more -= usize::from(is_included && !self.known.contains(topic));
            is_included
        });
        let mut filter = ListenFilter {
            tools: changes[ListKind::Tools],
            prompts: changes[ListKind::Prompts],
            resources: changes[ListKind::Resources],
            ..ListenFilter::default()
        };
        for (topic, raw) in topics {
            match topic {
                Topic::Resource(uri) => filter.uris.push((uri, raw)),
                Topic::Task(id) => filter.tasks.push((id, raw)),
            }
        }
        filter
    }

    pub(super) fn next_action(&mut self, now: Instant) -> ListenAction {
        if !self.is_stale || self.pending.is_some() {
            return ListenAction::Nothing;
        }
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            return ListenAction::Wait(at);
        }
        (self.is_stale, self.retry_at) = (false, None);
        let filter = self.filter();
        match &self.open {
            // Waiting calls need a new acknowledgement.
            Some(open) if is_same(&open.filter, &filter) && self.waiting.is_empty() => ListenAction::Nothing,
            Some(open) if filter == ListenFilter::default() => ListenAction::End(open.id),
            None if filter == ListenFilter::default() => ListenAction::Nothing,
            _ => ListenAction::Send(filter),
        }
    }

    pub(super) fn sent(&mut self, id: u64, filter: ListenFilter) {
        self.pending = Some(PendingListen { id, filter });
    }

    /// The server has acknowledged the request with this id. `None` if no such request is pending.
    pub(super) fn acknowledged(&mut self, id: u64, now: Instant) -> Option<StreamStart> {
        let PendingListen { filter, .. } = self.pending.take_if(|pending| pending.id == id)?;
        self.known = topics(&filter).map(|(topic, _)| topic).collect();
        self.max_new = self.max_new.map(|count| count.saturating_mul(2));
        self.is_stale |= self.max_new.is_some();
        let open = OpenListen { id, filter: filter.clone(), since: now };
        let replaced = self.open.replace(open).map(|open| open.id);
        Some(StreamStart { filter, replaced, has_missed: std::mem::take(&mut self.has_missed) })
    }

    /// The server has refused the request with this id because of a new topic. Returns the refused topic if only one was new, an
    /// empty list if several were (the next request tries half of them), and `None` if none was new.
    pub(super) fn narrow(&mut self, id: u64) -> Option<Vec<Topic>> {
        let pending = self.pending.as_ref().filter(|pending| pending.id == id)?;
        let all = topics(&pending.filter).map(|(topic, _)| topic);
        let new: Vec<_> = all.filter(|topic| !self.known.contains(topic)).collect();
        if new.is_empty() {
            return None;
        }
        self.pending = None;
        self.has_missed |= self.open.is_none();
        self.is_stale = true;
        if new.len() > 1 {
            self.max_new = Some(new.len() / 2);
            return Some(Vec::new());
        }
        new.iter().for_each(|topic| self.remove(topic));
        Some(new)
    }

    /// The request with this id has ended. Returns whether the waiting calls fail. `random` is for [`Backoff::next`].
    pub(super) fn ended(&mut self, id: u64, now: Instant, random: f64) -> bool {
        let pending = self.pending.take_if(|pending| pending.id == id);
        let open = self.open.take_if(|open| open.id == id);
        if pending.is_none() && open.is_none() {
            return false;
        }
        if open.is_some_and(|open| now.saturating_duration_since(open.since) >= STABLE_AFTER) {
            self.backoff.reset();
        }
        self.retry_at = Some(now + self.backoff.next(random));
        self.is_stale = true;
        self.has_missed |= self.open.is_none();
        self.pending.is_none()
    }

    /// The server does not know `subscriptions/listen`.
    pub(super) fn disable(&mut self) {
        self.support = NotificationSupport::default();
    }

    /// Closes the open request, which no agent needs.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Whether the request with this id is open or pending.
    pub(super) fn is_of(&self, id: u64) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.id == id) || self.is_open(id)
    }

    /// Whether the request with this id is open.
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id)
    }
}

/// The topics of a filter, each with its raw URI or id.
pub(super) fn topics(filter: &ListenFilter) -> impl Iterator<Item = (Topic, &Bytes)> {
    let resources = filter.uris.iter().map(|(uri, raw)| (Topic::Resource(uri.clone()), raw));
    resources.chain(filter.tasks.iter().map(|(id, raw)| (Topic::Task(id.clone()), raw)))
}

/// Whether both request the same notifications.
fn is_same(a: &ListenFilter, b: &ListenFilter) -> bool {
    let flags = |filter: &ListenFilter| (filter.tools, filter.prompts, filter.resources);
    flags(a) == flags(b) && topics(a).map(|(topic, _)| topic).eq(topics(b).map(|(topic, _)| topic))
}

#[cfg(test)]
mod tests;
