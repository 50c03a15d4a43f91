//! Requests for a name that no list of a view has: whether they wait for a server that may still list it.
//!
//! Sessions and embedding programs use it alike.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::select_all;

use super::{Member, View};
use crate::server::messages::call::CallError;
use crate::server::{ServerSnapshot, failure_in};

/// What becomes of a request for an unlisted name.
#[derive(Debug)]
pub(crate) enum Unlisted<'a> {
    /// No server may still list it.
    Unknown,
    /// These servers may list it in time, so the request waits.
    Waits(Vec<&'a Member>),
    /// Servers may list it, but none of them will be ready in time. The error is about the first one.
    Down(CallError),
}

impl<'a> Unlisted<'a> {
    /// Decides about a request that waits at most until `until`. The `candidates` are the servers that may still list the name
    /// ([`View::may_still_list`]). Those that the request waits for are started by [`start_for_call`].
    pub(crate) fn of(candidates: Vec<&'a Member>, until: Instant, now: Instant) -> Self {
        let may_wait = until > now;
        let may_come = |member: &&Member| {
            let state = &member.handle.published().state;
            state.starts_for_call(now) || state.may_be_ready_by(until)
        };
        if may_wait && candidates.iter().any(may_come) {
            return Self::Waits(candidates);
        }
        let Some(first) = candidates.first().map(|member| &member.handle) else { return Self::Unknown };
        let failure = failure_in(&first.published().state);
        Self::Down(CallError { server: Arc::clone(first.name()), failure, may_have_arrived: false })
    }
}

/// Notes that a call waits for these servers, and starts those that a call starts.
pub(crate) fn start_for_call(servers: &[&Member], now: Instant) {
    let starts = |member: &&&Member| member.handle.published().state.starts_for_call(now);
    servers.iter().filter(starts).for_each(|member| member.handle.wake());
    servers.iter().for_each(|member| member.handle.note_waiting_call());
}

impl View {
    /// Waits until a server that may still list items sends its lists or changes its state. Such servers are those of now.
    pub(crate) fn await_lists(&self) -> impl Future<Output = ()> + Send + use<> {
        let changed = self.may_still_list(None).map(|member| {
            let server = member.handle.clone();
            let known = |published: &ServerSnapshot| (published.lists_complete, published.state.name());
            let before = known(&server.published());
            async move { server.wait_for(|now| known(now) != before).await }.boxed()
        });
        let all: Vec<_> = changed.collect();
        async move {
            match all.is_empty() {
                true => pending().await,
                false => drop(select_all(all).await),
            }
        }
    }
}
