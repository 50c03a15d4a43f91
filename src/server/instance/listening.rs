//! What a server of the modern era is listened to for: one `subscriptions/listen` for all agents together, which stays open.
//! Pure.
//!
//! It cannot be added to: for another set of resources there is another one, which takes the place of the one before when the
//! server acknowledges it, so that nothing is missed and nothing is heard twice.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::era::subscription::Filter;
use crate::kind::Kind;
use crate::server::call::Call;
use crate::server::handshake::Tells;

/// How long a server that has ended one is left alone, at first; then twice as long each time.
const PAUSE: Duration = Duration::from_millis(250);
/// At the longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After one that has lasted so long the first pause is the shortest again.
const LASTING: Duration = Duration::from_secs(60);

/// At one instance.
#[derive(Default)]
pub(in crate::server) struct Listening {
    tells: Tells,
    /// What agents want to hear of, as text and raw.
    uris: BTreeMap<Bytes, Bytes>,
    /// Calls that subscribe to a resource, until the server acknowledges that.
    waiting: Vec<Call>,
    /// Not acknowledged yet.
    asked: Option<Asked>,
    /// Acknowledged.
    open: Option<Open>,
    /// What is wanted may be another set than when it was last looked at.
    is_stale: bool,
    /// Lists may have changed unheard.
    has_missed: bool,
    ended: u32,
    again_at: Option<Instant>,
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

impl Listening {
    /// The server has declared what it tells.
    pub(in crate::server) fn declare(&mut self, tells: Tells) {
        self.tells = tells;
        self.is_stale = true;
    }

    pub(super) fn tells_updates(&self) -> bool {
        self.tells.updates
    }

    /// For how long the server is left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.again_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn want(&mut self, uri: &Bytes, raw: &Bytes) {
        self.is_stale |= self.uris.insert(uri.clone(), raw.clone()).is_none();
    }

    pub(super) fn forget(&mut self, uri: &[u8]) {
        self.is_stale |= self.uris.remove(uri).is_some();
    }

    pub(super) fn wait(&mut self, call: Call) {
        self.waiting.push(call);
        self.is_stale = true;
    }

    /// Takes out the calls that wait no more.
    pub(super) fn take_waiting(&mut self, is_it: impl Fn(&Call) -> bool) -> Vec<Call> {
        let taken: Vec<_> = self.waiting.extract_if(.., |call| is_it(call)).collect();
        self.is_stale |= !taken.is_empty();
        taken
    }

    /// What is wanted by now. What of that the server declares nothing of, it is not asked for.
    fn wanted(&self) -> Filter {
        let mut uris = self.uris.clone();
        let waiting = self.waiting.iter().filter_map(Call::subscription);
        uris.extend(waiting.map(|wanted| (wanted.uri.clone(), wanted.raw.clone())));
        let Tells { changes, updates } = &self.tells;
        Filter {
            tools: changes[Kind::Tools],
            prompts: changes[Kind::Prompts],
            resources: changes[Kind::Resources],
            uris: if *updates { uris.into_iter().collect() } else { Vec::new() },
            tasks: Vec::new(),
        }
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
        let open = Open { id, filter: filter.clone(), since: now };
        let before = self.open.replace(open).map(|before| before.id);
        Some(Begun { filter, before, has_missed: std::mem::take(&mut self.has_missed) })
    }

    /// The one with this id has ended. Whether those who wait wait in vain.
    pub(super) fn ended(&mut self, id: u64, now: Instant) -> bool {
        let asked = self.asked.take_if(|asked| asked.id == id);
        let open = self.open.take_if(|open| open.id == id);
        if asked.is_none() && open.is_none() {
            return false;
        }
        if open.is_some_and(|open| now.saturating_duration_since(open.since) >= LASTING) {
            self.ended = 0;
        }
        self.again_at = Some(now + PAUSE.saturating_mul(1 << self.ended.min(16)).min(LONGEST_PAUSE));
        self.ended += 1;
        self.is_stale = true;
        self.has_missed |= self.open.is_none();
        self.asked.is_none()
    }

    /// It is not asked again: it does not know what that is.
    pub(super) fn give_up(&mut self) {
        self.tells = Tells::default();
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

/// Whether both are the same set, however the URIs are spelled.
fn is_same(a: &Filter, b: &Filter) -> bool {
    let flags = |filter: &Filter| (filter.tools, filter.prompts, filter.resources);
    let uris = |filter: &Filter| filter.uris.iter().map(|(uri, _)| uri.clone()).collect::<Vec<_>>();
    flags(a) == flags(b) && uris(a) == uris(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::PerKind;

    fn of(tools: bool, updates: bool) -> Listening {
        let mut listening = Listening::default();
        listening.declare(Tells { changes: PerKind::from_fn(|kind| tools && kind == Kind::Tools), updates });
        listening
    }

    fn want(listening: &mut Listening, uri: &'static str) {
        listening.want(&Bytes::from(uri), &Bytes::from(format!("\"{uri}\"")));
    }

    /// What it is asked for, written.
    fn asked(listening: &mut Listening, id: u64, now: Instant) -> Option<String> {
        let Due::Ask(filter) = listening.due(now) else { return None };
        let written = filter.written();
        listening.asked(id, filter);
        Some(written)
    }

    #[test]
    fn a_server_is_asked_for_what_it_declares_and_somebody_wants() {
        let now = Instant::now();
        for (tools, updates, uri, expected) in [
            (false, false, Some("a"), None),
            (false, true, None, None),
            (true, false, Some("a"), Some(r#"{"toolsListChanged":true}"#)),
            (false, true, Some("a"), Some(r#"{"resourceSubscriptions":["a"]}"#)),
        ] {
            let mut listening = of(tools, updates);
            uri.into_iter().for_each(|uri| want(&mut listening, uri));
            assert_eq!(asked(&mut listening, 1, now).as_deref(), expected, "{tools} {updates} {uri:?}");
            assert_eq!(listening.due(now), Due::Nothing);
        }
    }

    #[test]
    fn another_set_takes_the_place_of_the_one_before_when_it_is_acknowledged() {
        let (mut listening, now) = (of(false, true), Instant::now());
        want(&mut listening, "a");
        assert!(asked(&mut listening, 1, now).is_some());
        want(&mut listening, "b");
        assert_eq!(listening.due(now), Due::Nothing, "one after another");
        assert_eq!(listening.acknowledged(7, now), None);
        assert_eq!(listening.acknowledged(1, now).map(|begun| begun.before), Some(None));
        assert_eq!(asked(&mut listening, 2, now).as_deref(), Some(r#"{"resourceSubscriptions":["a","b"]}"#));
        assert!(listening.hears(1) && !listening.hears(2) && listening.is_of(2));
        assert_eq!(listening.acknowledged(2, now).map(|begun| begun.before), Some(Some(1)));
        assert!(!listening.hears(1) && listening.hears(2));
        want(&mut listening, "c");
        listening.forget(b"c");
        assert_eq!(listening.due(now), Due::Nothing, "the same set");
        listening.forget(b"a");
        listening.forget(b"b");
        assert_eq!(listening.due(now), Due::End(2));
    }

    #[test]
    fn one_that_the_server_ends_is_asked_for_again_after_a_growing_pause() {
        let (mut listening, now) = (of(true, false), Instant::now());
        let mut pauses = Vec::new();
        for id in 1..12 {
            let at = listening.again_at.unwrap_or(now);
            assert!(asked(&mut listening, id, at).is_some());
            let missed = listening.acknowledged(id, at).map(|begun| begun.has_missed);
            assert_eq!(missed, Some(id > 1));
            listening.ended(id, at);
            let Due::At(again) = listening.due(at) else { panic!("later") };
            pauses.push(again.duration_since(at));
        }
        assert_eq!(pauses[..3], [PAUSE, 2 * PAUSE, 4 * PAUSE]);
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE));
    }

    #[test]
    fn one_of_which_the_server_knows_nothing_is_not_asked_for_again() {
        let (mut listening, now) = (of(true, true), Instant::now());
        want(&mut listening, "a");
        assert!(asked(&mut listening, 1, now).is_some());
        listening.give_up();
        assert!(listening.ended(1, now));
        assert_eq!(listening.due(now + LONGEST_PAUSE), Due::Nothing);
        assert!(!listening.tells_updates());
    }
}
