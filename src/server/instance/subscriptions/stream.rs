//! What a server of the modern era is listened to for: one `subscriptions/listen` for all agents together, which stays open.
//! Pure.
//!
//! It cannot be added to: for another set of resources there is another one, which takes the place of the one before when the
//! server acknowledges it, so that nothing is missed and nothing is heard twice. A server may refuse a whole set for one resource
//! that it does not have: then it is asked for fewer new ones at a time, until it is known which one that is.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::NotificationSupport;
use crate::backoff::Backoff;
use crate::era::subscription::Filter;
use crate::list_kind::ListKind;
use crate::server::deadline::Deadline;
use crate::server::messages::call::Call;

/// How long a server that has ended one is left alone, at first; then twice as long each time.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// At the longest.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// After one that has lasted so long the first pause is the shortest again.
const LASTING: Duration = Duration::from_secs(60);

/// What a server tells to who has asked for it, beside changed lists; as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Topic {
    /// That the resource with this URI has changed.
    Resource(Bytes),
    /// How far the task with this id is.
    Task(Bytes),
}

/// At one instance.
pub(super) struct Stream {
    support: NotificationSupport,
    /// What agents want to hear of, with its URI or id, raw.
    topics: BTreeMap<Topic, Bytes>,
    /// Those of them that the server has acknowledged last: it does not refuse another set for them.
    known: BTreeSet<Topic>,
    /// How many others it is asked for at a time, since it has refused more.
    at_once: Option<usize>,
    waiting: Vec<Waiting>,
    /// Not acknowledged yet.
    asked: Option<Asked>,
    /// Acknowledged.
    open: Option<Open>,
    /// What is wanted may be another set than when it was last looked at.
    is_stale: bool,
    /// Lists may have changed unheard.
    has_missed: bool,
    backoff: Backoff,
    again_at: Option<Instant>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            support: NotificationSupport::default(),
            topics: BTreeMap::new(),
            known: BTreeSet::new(),
            at_once: None,
            waiting: Vec::new(),
            asked: None,
            open: None,
            is_stale: false,
            has_missed: false,
            backoff: Backoff::new(FIRST_DELAY, MAX_DELAY),
            again_at: None,
        }
    }
}

/// A call that subscribes to a resource, until the server acknowledges that.
struct Waiting {
    call: Call,
    deadline: Deadline,
}

/// One that the server has been asked for, by the request with this id.
struct Asked {
    id: u64,
    filter: Filter,
}

/// One that it has acknowledged.
struct Open {
    id: u64,
    filter: Filter,
    since: Instant,
}

/// What is to be done about it now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Not before then.
    At(Instant),
    Ask(Filter),
    /// Nothing is wanted any more of what this one is for.
    End(u64),
}

/// That the server has acknowledged one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) filter: Filter,
    /// The one in whose place it is.
    pub(super) before: Option<u64>,
    /// Nobody has listened for a while.
    pub(super) has_missed: bool,
}

impl Stream {
    /// The server has declared what it tells.
    pub(super) fn declare(&mut self, support: NotificationSupport) {
        self.support = support;
        self.is_stale = true;
    }

    pub(super) fn tells_updates(&self) -> bool {
        self.support.updates
    }

    /// For how long the server is left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.again_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn want(&mut self, topic: Topic, raw: &Bytes) {
        self.is_stale |= self.topics.insert(topic, raw.clone()).is_none();
    }

    pub(super) fn forget(&mut self, topic: &Topic) {
        self.known.remove(topic);
        self.is_stale |= self.topics.remove(topic).is_some();
    }

    /// Nothing more will be told of this: the next set is without it.
    pub(super) fn has_ended(&mut self, topic: &Topic) {
        self.topics.remove(topic);
    }

    /// Has a call wait, until its own deadline at most; that.
    pub(super) fn wait(&mut self, call: Call, now: Instant) -> Instant {
        let deadline = Deadline::new(call.limit, now);
        let until = deadline.at();
        self.waiting.push(Waiting { call, deadline });
        self.is_stale = true;
        until
    }

    /// The calls that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Call> {
        self.waiting.iter().map(|waiting| &waiting.call)
    }

    /// When the next one of them has waited too long.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.deadline.at()).min()
    }

    /// Takes out those that have, each with the limit that it has reached.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<(Call, Duration)> {
        let overdue = self.waiting.extract_if(.., |waiting| waiting.deadline.at() <= now);
        let overdue: Vec<_> = overdue.map(|waiting| (waiting.call, waiting.deadline.limit())).collect();
        self.is_stale |= !overdue.is_empty();
        overdue
    }

    /// Takes out the calls that wait no more.
    pub(super) fn take_waiting(&mut self, is_it: impl Fn(&Call) -> bool) -> Vec<Call> {
        let taken = self.waiting.extract_if(.., |waiting| is_it(&waiting.call));
        let taken: Vec<_> = taken.map(|waiting| waiting.call).collect();
        self.is_stale |= !taken.is_empty();
        taken
    }

    /// What is wanted by now. What of that the server declares nothing of, it is not asked for.
    fn wanted(&self) -> Filter {
        let NotificationSupport { changes, updates, tasks } = &self.support;
        let mut topics = self.topics.clone();
        let waiting = self.waiting().filter_map(Call::subscription);
        topics.extend(waiting.map(|wanted| (Topic::Resource(wanted.uri.clone()), wanted.raw.clone())));
        let mut more = self.at_once.unwrap_or(usize::MAX);
        topics.retain(|topic, _| {
            let is_told = if matches!(topic, Topic::Task(_)) { *tasks } else { *updates };
            let is_asked_for = is_told && (self.known.contains(topic) || more > 0);
            more -= usize::from(is_asked_for && !self.known.contains(topic));
            is_asked_for
        });
        let mut filter = Filter {
            tools: changes[ListKind::Tools],
            prompts: changes[ListKind::Prompts],
            resources: changes[ListKind::Resources],
            ..Filter::default()
        };
        for (topic, raw) in topics {
            match topic {
                Topic::Resource(uri) => filter.uris.push((uri, raw)),
                Topic::Task(id) => filter.tasks.push((id, raw)),
            }
        }
        filter
    }

    pub(super) fn due(&mut self, now: Instant) -> Due {
        if !self.is_stale || self.asked.is_some() {
            return Due::Nothing;
        }
        if let Some(at) = self.again_at.filter(|at| *at > now) {
            return Due::At(at);
        }
        (self.is_stale, self.again_at) = (false, None);
        let wanted = self.wanted();
        match &self.open {
            // Whoever waits waits for an acknowledgement.
            Some(open) if is_same(&open.filter, &wanted) && self.waiting.is_empty() => Due::Nothing,
            Some(open) if wanted == Filter::default() => Due::End(open.id),
            None if wanted == Filter::default() => Due::Nothing,
            _ => Due::Ask(wanted),
        }
    }

    pub(super) fn asked(&mut self, id: u64, filter: Filter) {
        self.asked = Some(Asked { id, filter });
    }

    /// The server has acknowledged the one with this id; `None` if that is not waited for.
    pub(super) fn acknowledged(&mut self, id: u64, now: Instant) -> Option<Begun> {
        let Asked { filter, .. } = self.asked.take_if(|asked| asked.id == id)?;
        self.known = topics(&filter).map(|(topic, _)| topic).collect();
        self.at_once = self.at_once.map(|count| count.saturating_mul(2));
        self.is_stale |= self.at_once.is_some();
        let open = Open { id, filter: filter.clone(), since: now };
        let before = self.open.replace(open).map(|before| before.id);
        Some(Begun { filter, before, has_missed: std::mem::take(&mut self.has_missed) })
    }

    /// The server refuses the set that it is asked for with this id because of what is new in it, so that it is asked for less.
    /// What it is not asked for any more: nothing yet, if several are new. `None` if nothing is.
    pub(super) fn narrow(&mut self, id: u64) -> Option<Vec<Topic>> {
        let asked = self.asked.as_ref().filter(|asked| asked.id == id)?;
        let all = topics(&asked.filter).map(|(topic, _)| topic);
        let new: Vec<_> = all.filter(|topic| !self.known.contains(topic)).collect();
        if new.is_empty() {
            return None;
        }
        self.asked = None;
        self.has_missed |= self.open.is_none();
        self.is_stale = true;
        if new.len() > 1 {
            self.at_once = Some(new.len() / 2);
            return Some(Vec::new());
        }
        new.iter().for_each(|topic| self.forget(topic));
        Some(new)
    }

    /// The one with this id has ended. Whether those who wait wait in vain. `random` is for [`Backoff::next`].
    pub(super) fn ended(&mut self, id: u64, now: Instant, random: f64) -> bool {
        let asked = self.asked.take_if(|asked| asked.id == id);
        let open = self.open.take_if(|open| open.id == id);
        if asked.is_none() && open.is_none() {
            return false;
        }
        if open.is_some_and(|open| now.saturating_duration_since(open.since) >= LASTING) {
            self.backoff.reset();
        }
        self.again_at = Some(now + self.backoff.next(random));
        self.is_stale = true;
        self.has_missed |= self.open.is_none();
        self.asked.is_none()
    }

    /// It is not asked again: it does not know what that is.
    pub(super) fn give_up(&mut self) {
        self.support = NotificationSupport::default();
    }

    /// Nothing is wanted any more of the one that is open.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Whether `id` is that of one which is open, or asked for.
    pub(super) fn is_of(&self, id: u64) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.id == id) || self.hears(id)
    }

    /// Whether what the server says for the one with this id is heard.
    pub(super) fn hears(&self, id: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id)
    }
}

/// What is asked for beside changed lists, with its URI or id, raw.
pub(super) fn topics(filter: &Filter) -> impl Iterator<Item = (Topic, &Bytes)> {
    let resources = filter.uris.iter().map(|(uri, raw)| (Topic::Resource(uri.clone()), raw));
    resources.chain(filter.tasks.iter().map(|(id, raw)| (Topic::Task(id.clone()), raw)))
}

/// Whether both are the same set, however it is spelled.
fn is_same(a: &Filter, b: &Filter) -> bool {
    let flags = |filter: &Filter| (filter.tools, filter.prompts, filter.resources);
    flags(a) == flags(b) && topics(a).map(|(topic, _)| topic).eq(topics(b).map(|(topic, _)| topic))
}

#[cfg(test)]
mod tests;
