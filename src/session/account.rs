//! The account of the agent's calls: what is noted of one while it runs, and told when it has ended.

use std::sync::Arc;

use tracing::Span;

use super::Session;
use super::asked::{Asked, Lead};
use super::routing::Deferred;
use crate::calls::{Moment, Outcome, Record, span, text};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::manager::Member;
use crate::server::ServerHandle;
use crate::server::messages::call::Subject;

/// What is noted of a call until it ends.
pub(super) struct Account {
    began: Moment,
    /// The server's own name for it; of what is no call of a tool nothing is told.
    tool: Option<Arc<str>>,
    request_bytes: usize,
    /// What few calls have, in a box of its own so that the others are small.
    rare: Option<Box<Rare>>,
}

struct Rare {
    span: Span,
    arguments: Option<Box<str>>,
}

impl Account {
    #[inline]
    fn new(asked: &Asked, tool: Option<Arc<str>>, span: Span, arguments: Option<Box<str>>) -> Self {
        let is_rare = !span.is_disabled() || arguments.is_some();
        let rare = is_rare.then(|| Box::new(Rare { span, arguments }));
        Self { began: asked.at, tool, request_bytes: asked.line.len(), rare }
    }

    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Does something on behalf of the call.
    pub(super) fn within<T>(&self, does: impl FnOnce() -> T) -> T {
        match &self.rare {
            Some(rare) => rare.span.in_scope(does),
            None => does(),
        }
    }
}

impl Session {
    /// Begins the account of a call that is routed.
    pub(super) fn note(&self, asked: &Asked, server: &Member, lead: Lead<'_>) -> Account {
        let Lead::Route(route) = lead else { return Account::new(asked, None, Span::none(), None) };
        if asked.subject != Subject::Call {
            return Account::new(asked, None, Span::none(), None);
        }
        let arguments = if server.config.log_arguments { asked.arguments() } else { None };
        let span = span::open(Some(server.handle.name()), &route.name, Some(self.setup.number), &asked.id, &asked.line);
        Account::new(asked, Some(Arc::clone(&route.name)), span, arguments.map(|raw| text::arguments(&raw)))
    }

    /// Tells how a call at a server has ended.
    pub(super) fn tell(&self, account: Account, server: &ServerHandle, outcome: Outcome, reply_bytes: usize) {
        self.tell_of(account, Some(Arc::clone(server.name())), outcome, reply_bytes);
    }

    fn tell_of(&self, account: Account, server: Option<Arc<str>>, outcome: Outcome, reply_bytes: usize) {
        let Account { began, tool: Some(tool), request_bytes, rare } = account else { return };
        let ended = Moment::now();
        let arguments = rare.and_then(|rare| {
            if !rare.span.is_disabled() {
                span::close(&rare.span, outcome, ended.since(began));
            }
            rare.arguments
        });
        let caller = Arc::clone(&self.caller);
        let record = Record { began, ended, caller, server, tool, outcome, request_bytes, reply_bytes, arguments };
        self.setup.calls.push(record);
    }

    /// Tells of a call that leads nowhere, or not yet.
    fn tell_of_unrouted(&self, asked: &Asked, outcome: Outcome, reply_bytes: usize) {
        if asked.subject != Subject::Call {
            return;
        }
        let tool = text::unknown_tool(&asked.key);
        let span = span::open(None, &tool, Some(self.setup.number), &asked.id, &asked.line);
        self.tell_of(Account::new(asked, Some(tool), span, None), None, outcome, reply_bytes);
    }

    /// Answers a call that leads nowhere, or not yet, with an error.
    pub(super) fn end_unrouted(&mut self, asked: &Asked, error: &ErrorObject, outcome: Outcome) {
        let line = reply::error(Some(&asked.id), error);
        self.tell_of_unrouted(asked, outcome, line.len());
        self.respond(Some(&asked.id), [line]);
    }

    /// Answers a request that waits, or would have to, with an error.
    pub(super) fn end_deferred(&mut self, request: &Deferred, error: &ErrorObject, outcome: Outcome) {
        match request {
            Deferred::Ask(asked) | Deferred::Unlisted { asked, .. } => self.end_unrouted(asked, error, outcome),
            Deferred::List { id, .. } | Deferred::Listen { id, .. } => {
                self.respond(Some(id), [reply::error(Some(id), error)])
            }
        }
    }

    /// Drops what waits and is no longer wanted.
    pub(super) fn drop_deferred(&mut self, mut is_dropped: impl FnMut(&Deferred) -> bool) {
        for request in self.deferred.extract_if(.., |request| is_dropped(request)).collect::<Vec<_>>() {
            if let Deferred::Ask(asked) | Deferred::Unlisted { asked, .. } = request {
                self.tell_of_unrouted(&asked, Outcome::Cancelled, 0);
            }
        }
    }
}
