//! The lists that a server offers: fetched page by page, and fetched again when they change.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::pending_request::PendingRequest;
use super::wire::Wire;
use crate::backoff::Backoff;
use crate::calls::CallOutcome;
use crate::catalog::List;
use crate::config::{Malformed, Settings};
use crate::jsonrpc::reply::{ErrorObject, METHOD_NOT_FOUND};
use crate::list_kind::{ListKind, PerKind};
use crate::printable::{excerpt, one_line};
use crate::server::error::{ListProblem, ServerError};
use crate::server::listing::{Listing, Next, Pace};

/// First delay before a failed list is fetched again. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest delay before a failed list is fetched again.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// Longest error of a server that is shown, in characters.
const MAX_ERROR_LEN: usize = 200;
/// Delay before a list of skills is fetched again, unless the server states a longer one: the skills extension has no notification of changes.
const SKILLS_REFRESH: Duration = Duration::from_secs(60);
/// Longest delay that a server can state.
const MAX_SKILLS_REFRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The lists of one instance.
#[derive(Debug)]
pub(in crate::server) struct ServerLists {
    /// `None` for kinds that the server does not offer.
    states: PerKind<Option<ListState>>,
    /// Time limit for each page.
    timeout: Duration,
    /// The server does not declare its tools.
    tries_tools: bool,
    malformed: Malformed,
}

/// One list that the server offers.
#[derive(Debug)]
struct ListState {
    is_fetching: bool,
    /// A change was announced since the list was requested last.
    has_changed: bool,
    pace: Pace,
    /// When to fetch it again: the last fetch has failed, or the list can change without a notification.
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// A fetch has ended, in success or not.
    attempted: bool,
    /// A fetch has brought a list, or the beginning of one.
    has_list: bool,
}

/// The progress of a fetch.
pub(super) enum Fetch {
    /// The next page was requested.
    Continues,
    Done(ListKind, List),
    Failed {
        kind: ListKind,
        reason: ServerError,
        /// The pages before the failure, if the list was never fetched before.
        partial: Option<List>,
    },
}

impl ServerLists {
    pub(super) fn new(settings: &Settings) -> Self {
        let (timeout, malformed) = (settings.handshake_timeout, settings.malformed);
        Self { states: PerKind::default(), timeout, tries_tools: false, malformed }
    }

    /// Whether the server does not declare its tools. Then it has none if the first list of them fails.
    pub(in crate::server) fn try_tools(&mut self, tries_tools: bool) {
        self.tries_tools = tries_tools;
    }

    /// Fetches the lists that the server offers. `false` if it offers none.
    pub(in crate::server) fn start(&mut self, wire: &mut Wire, offered: PerKind<bool>) -> bool {
        self.states = PerKind::from_fn(|kind| offered[kind].then(ListState::default));
        for kind in ListKind::ALL {
            self.fetch(wire, kind);
        }
        self.states.iter().any(|(_, state)| state.is_some())
    }

    /// A list that the server offers; that of tools if it offers none.
    pub(in crate::server) fn offered(&self) -> ListKind {
        ListKind::ALL.into_iter().find(|kind| self.states[*kind].is_some()).unwrap_or(ListKind::Tools)
    }

    /// Whether no fetch of this list has ended yet.
    pub(in crate::server) fn is_first_fetch(&self, kind: ListKind) -> bool {
        self.states[kind].as_ref().is_some_and(|state| !state.attempted)
    }

    /// Whether the known list is one of this instance, not of a former one.
    pub(in crate::server) fn has_own(&self, kind: ListKind) -> bool {
        self.states[kind].as_ref().is_none_or(|state| state.has_list)
    }

    /// Fetches lists that have changed and may be fetched now. Returns when the next of the others is due.
    pub(in crate::server) fn refresh(&mut self, wire: &mut Wire) -> Option<Instant> {
        let mut next = None;
        for kind in ListKind::ALL {
            match self.states[kind].as_ref().and_then(ListState::due_at) {
                Some(at) if at <= Instant::now() => self.fetch(wire, kind),
                Some(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                None => {}
            }
        }
        next
    }

    /// Handles a notification, which may announce a changed list.
    pub(super) fn notified(&mut self, method: &[u8]) {
        ListKind::ALL
            .into_iter()
            .filter(|kind| kind.change_notification().as_bytes() == method)
            .for_each(|kind| self.mark_changed(kind));
    }

    /// Marks this list as changed.
    pub(super) fn mark_changed(&mut self, kind: ListKind) {
        if let Some(state) = &mut self.states[kind] {
            state.has_changed = true;
        }
    }

    /// Marks all lists as changed.
    pub(in crate::server) fn mark_all_changed(&mut self) {
        ListKind::ALL.into_iter().for_each(|kind| self.mark_changed(kind));
    }

    fn fetch(&mut self, wire: &mut Wire, kind: ListKind) {
        let Some(state) = &mut self.states[kind] else { return };
        (state.has_changed, state.retry_at, state.is_fetching) = (false, None, true);
        state.pace.begin(Instant::now());
        self.request_page(wire, Listing::of(kind, self.malformed), None);
    }

    fn request_page(&self, wire: &mut Wire, listing: Listing, cursor: Option<&Bytes>) {
        let cursor: Option<&RawValue> = cursor.and_then(|raw| serde_json::from_slice(raw).ok());
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let (method, sent) = (listing.kind().method(), Instant::now());
        let page = PendingRequest::Page { listing, sent, deadline: sent + self.timeout };
        wire.own_request(method, params, page);
    }

    /// Handles the response to a request for a page.
    pub(super) fn add_page(&mut self, wire: &mut Wire, listing: Listing, response: Result<&Bytes, &Bytes>) -> Fetch {
        let kind = listing.kind();
        let result = match response {
            Ok(result) => result,
            // Templates have no capability of their own, so a server with resources need not know the method. Servers also declare prompts
            // and resources that they do not have.
            Err(error) if kind != ListKind::Tools && is_unknown_method(error) => {
                return self.finish(kind, List::default());
            }
            Err(error) => return self.fail(listing, ListProblem::Error(shown(error))),
        };
        match listing.page(result) {
            Ok(Next::Page(listing, cursor)) => {
                self.request_page(wire, listing, Some(&cursor));
                Fetch::Continues
            }
            Ok(Next::Done(list)) => self.finish(kind, list),
            Err(listing) => self.fail(listing, ListProblem::Malformed),
        }
    }

    fn finish(&mut self, kind: ListKind, list: List) -> Fetch {
        if let Some(state) = &mut self.states[kind] {
            (state.is_fetching, state.attempted, state.has_list) = (false, true, true);
            state.backoff.reset();
            let refresh = || Duration::from_millis(list.cache_hint.unwrap_or_default().ttl);
            state.retry_at = (kind == ListKind::Skills)
                .then(|| Instant::now() + refresh().clamp(SKILLS_REFRESH, MAX_SKILLS_REFRESH));
        }
        Fetch::Done(kind, list)
    }

    /// Ends a fetch that has failed.
    pub(super) fn fail(&mut self, listing: Listing, problem: ListProblem) -> Fetch {
        let kind = listing.kind();
        if kind == ListKind::Tools && self.tries_tools && self.is_first_fetch(kind) {
            return self.finish(kind, List::default());
        }
        let mut is_first = false;
        if let Some(state) = &mut self.states[kind] {
            is_first = !std::mem::replace(&mut state.attempted, true);
            state.is_fetching = false;
            state.retry_at = Some(Instant::now() + state.backoff.next(fastrand::f64()));
        }
        let partial = listing.partial().filter(|_| is_first);
        if let Some(state) = &mut self.states[kind] {
            state.has_list |= partial.is_some();
        }
        let used = partial.as_ref().map(|list| list.items.len());
        let reason = ServerError::List { kind, problem, used };
        Fetch::Failed { kind, reason, partial }
    }

    /// Whether every list was fetched or has failed, and no list has to be fetched again soon. A list that changes all the time counts
    /// as fetched.
    pub(super) fn are_settled(&self) -> bool {
        self.states.iter().filter_map(|(_, state)| state.as_ref()).all(|state| {
            let soon = state.pace.allowed_at().is_none_or(|at| at <= Instant::now());
            state.attempted && !(state.has_changed && soon)
        })
    }
}

/// An error as it is shown: its message and code.
fn shown(error: &Bytes) -> String {
    let text = match serde_json::from_slice::<ErrorObject>(error) {
        Ok(ErrorObject { code, message, .. }) => format!("{} ({code})", excerpt(&message, MAX_ERROR_LEN)),
        Err(_) => excerpt(&String::from_utf8_lossy(error), MAX_ERROR_LEN),
    };
    one_line(&text)
}

fn is_unknown_method(error: &Bytes) -> bool {
    CallOutcome::of(Err(error)).code() == Some(METHOD_NOT_FOUND.into())
}

impl Default for ListState {
    fn default() -> Self {
        Self {
            is_fetching: false,
            has_changed: false,
            pace: Pace::default(),
            retry_at: None,
            backoff: Backoff::new(FIRST_RETRY, MAX_RETRY),
            attempted: false,
            has_list: false,
        }
    }
}

impl ListState {
    /// When it is to be fetched again, if at all.
    fn due_at(&self) -> Option<Instant> {
        if self.is_fetching || !(self.has_changed || self.retry_at.is_some()) {
            return None;
        }
        let retry_at = self.retry_at.filter(|_| !self.has_changed);
        Some(retry_at.max(self.pace.allowed_at()).unwrap_or_else(Instant::now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CacheHint;

    #[test]
    fn failed_list_is_fetched_again_with_growing_delays() {
        let mut lists = ServerLists::new(&Settings::default());
        lists.states[ListKind::Tools] = Some(ListState::default());
        let fail = |lists: &mut ServerLists| {
            let before = Instant::now();
            lists.fail(Listing::of(ListKind::Tools, Malformed::Mend), ListProblem::Malformed);
            let due = lists.states[ListKind::Tools].as_ref().and_then(ListState::due_at).expect("it is fetched again");
            (due - before).as_secs_f64()
        };
        for longest in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let delay = fail(&mut lists);
            assert!((longest / 2.0..=longest + 0.5).contains(&delay), "{delay} of {longest}");
        }
        lists.finish(ListKind::Tools, List::default());
        assert!(fail(&mut lists) <= 1.5);
    }

    #[test]
    fn error_of_a_server_is_shown_on_one_short_line() {
        let shown = |error: &str| shown(&Bytes::copy_from_slice(error.as_bytes()));
        assert_eq!(shown(r#"{"code":-32603,"message":"backend unreachable"}"#), "backend unreachable (-32603)");
        assert_eq!(shown(r#"{"reason":"x"}"#), r#"{"reason":"x"}"#);
        let long = shown(&format!(r#"{{"code":1,"message":"a\nb{}"}}"#, "x".repeat(10_000)));
        assert!(long.len() < 2 * MAX_ERROR_LEN && !long.contains('\n'), "{long}");
    }

    #[test]
    fn skills_are_fetched_again_when_their_time_has_passed() {
        for (kind, ttl, expected) in [
            (ListKind::Tools, Some(1), None),
            (ListKind::Skills, None, Some(SKILLS_REFRESH)),
            (ListKind::Skills, Some(1), Some(SKILLS_REFRESH)),
            (ListKind::Skills, Some(300_000), Some(Duration::from_mins(5))),
            (ListKind::Skills, Some(u64::MAX), Some(MAX_SKILLS_REFRESH)),
        ] {
            let mut lists = ServerLists::new(&Settings::default());
            lists.states[kind] = Some(ListState::default());
            let before = Instant::now();
            lists.finish(kind, List { cache_hint: ttl.map(|ttl| CacheHint { ttl }), ..List::default() });
            let due = lists.states[kind].as_ref().and_then(ListState::due_at);
            let range = expected.map(|after| before + after..=Instant::now() + after);
            assert_eq!(due.is_some(), expected.is_some(), "{kind:?} {ttl:?}");
            assert!(due.zip(range).is_none_or(|(due, range)| range.contains(&due)), "{kind:?} {ttl:?}");
        }
    }
}
