//! The lists of an instance: asked for one after another, followed page by page, asked for again when they change.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Effect, Instance, Owner};
use crate::calls::Outcome;
use crate::catalog::List;
use crate::era::Era;
use crate::jsonrpc::reply::METHOD_NOT_FOUND;
use crate::kind::{Kind, PerKind};
use crate::server::listing::{Listing, Next, Pace};

/// Until a list that failed is asked for once more.
const AGAIN: Duration = Duration::from_secs(10);

/// One list that the server offers.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// It is being followed.
    now: bool,
    /// A change of it was announced and not followed yet.
    changed: bool,
    pace: Pace,
    /// The last one failed, and is to be asked for once more.
    again_at: Option<Instant>,
    /// It has been followed to its end, or that has failed.
    attempted: bool,
}

impl Instance {
    /// Asks for the lists that the server offers. `false` if it offers none.
    pub(in crate::server) fn start_listing(&mut self, offered: PerKind<bool>) -> bool {
        self.following = PerKind::from_fn(|kind| offered[kind].then(Following::default));
        for kind in Kind::ALL {
            self.list(kind);
        }
        self.following.iter().any(|(_, following)| following.is_some())
    }

    /// Whether the server has not listed this kind for the first time yet.
    pub(in crate::server) fn is_first_listing(&self, kind: Kind) -> bool {
        self.following[kind].as_ref().is_some_and(|following| !following.attempted)
    }

    /// Asks for those that have changed and may be asked for now; when for the others.
    pub(in crate::server) fn relist(&mut self) -> Option<Instant> {
        let mut next = None;
        for kind in Kind::ALL {
            match self.following[kind].as_ref().and_then(Following::wanted_at) {
                Some(at) if at <= Instant::now() => self.list(kind),
                Some(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                None => {}
            }
        }
        next
    }

    /// Takes note that the server says that a list has changed.
    pub(super) fn note_change(&mut self, method: &[u8]) {
        for kind in Kind::ALL {
            if kind.change().as_bytes() == method
                && let Some(following) = &mut self.following[kind]
            {
                following.changed = true;
            }
        }
    }

    /// Takes note that another instance of the server has found other lists.
    pub(in crate::server) fn note_changes(&mut self) {
        for kind in Kind::ALL {
            if let Some(following) = &mut self.following[kind] {
                following.changed = true;
            }
        }
    }

    fn list(&mut self, kind: Kind) {
        let Some(following) = &mut self.following[kind] else { return };
        (following.changed, following.again_at, following.now) = (false, None, true);
        following.pace.begin(Instant::now());
        self.ask_for_page(Listing::of(kind), None);
    }

    fn ask_for_page(&mut self, listing: Listing, cursor: Option<&Bytes>) {
        let cursor: Option<&RawValue> = cursor.and_then(|raw| serde_json::from_slice(raw).ok());
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let deadline = Instant::now() + self.config.settings.handshake_timeout;
        self.expire_by(deadline);
        self.ask(listing.kind().method(), params, Owner::Page { listing, deadline });
    }

    pub(super) fn page(&mut self, listing: Listing, outcome: Result<Bytes, Bytes>) -> Effect {
        let kind = listing.kind();
        let result = match outcome {
            Ok(result) => result,
            // They have no capability of their own: a server of resources need not know of them.
            Err(error) if kind == Kind::Templates && is_unknown_method(&error) => {
                return self.listed(kind, List::default());
            }
            Err(_) => return self.not_listed(listing, "is an error"),
        };
        match listing.page(&result) {
            Ok(Next::Page(listing, cursor)) => {
                self.ask_for_page(listing, Some(&cursor));
                Effect::Nothing
            }
            Ok(Next::Done(list)) => self.listed(kind, list),
            Err(listing) => self.not_listed(listing, "is malformed"),
        }
    }

    fn listed(&mut self, kind: Kind, list: List) -> Effect {
        let list = self.prepared(kind, list);
        if let Some(following) = &mut self.following[kind] {
            (following.now, following.attempted) = (false, true);
        }
        Effect::Listed { kind, list, settled: self.lists_are_settled() }
    }

    /// The list as it is published.
    fn prepared(&mut self, kind: Kind, list: List) -> List {
        if kind != Kind::Tools {
            return list;
        }
        let mut list = self.without_unfit(list);
        list.makes_tasks = self.era() == Era::Modern && self.task_support.declared;
        self.note_task_tools(&list);
        list
    }

    /// The list failed; `what` says of the answer why. The pages that came before are used until the whole list is there.
    pub(super) fn not_listed(&mut self, listing: Listing, what: &str) -> Effect {
        let kind = listing.kind();
        let mut is_first = false;
        if let Some(following) = &mut self.following[kind] {
            is_first = !std::mem::replace(&mut following.attempted, true);
            following.now = false;
            following.again_at = Some(Instant::now() + AGAIN);
        }
        let partial = listing.partial().filter(|_| is_first).map(|list| (kind, self.prepared(kind, list)));
        let kept = partial.as_ref().map(|(_, list)| format!("; the {} items before it are used", list.items.len()));
        let reason = format!("its answer to `{}` {what}{}", kind.method(), kept.unwrap_or_default());
        Effect::NotListed { reason, partial, settled: self.lists_are_settled() }
    }

    /// Whether every list was attempted, and none is out of date already and about to be asked for again. One that a
    /// server announces as changed again and again is taken as it is.
    fn lists_are_settled(&self) -> bool {
        self.following.iter().filter_map(|(_, following)| following.as_ref()).all(|following| {
            let soon = following.pace.allowed_at().is_none_or(|at| at <= Instant::now());
            following.attempted && !(following.changed && soon)
        })
    }
}

fn is_unknown_method(error: &Bytes) -> bool {
    Outcome::of(Err(error)).code() == Some(METHOD_NOT_FOUND.into())
}

impl Following {
    /// When it is to be asked for again, if at all.
    fn wanted_at(&self) -> Option<Instant> {
        if self.now || !(self.changed || self.again_at.is_some()) {
            return None;
        }
        let again_at = self.again_at.filter(|_| !self.changed);
        Some(again_at.max(self.pace.allowed_at()).unwrap_or_else(Instant::now))
    }
}
