//! Where an agent's requests lead: to a list, to a server, nowhere, or into the queue of those that wait for first lists.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{FutureExt, select_all};
use tokio::time::timeout_at;

use super::account::Account;
use super::asked::{Asked, Lead, Method};
use super::events::Rare;
use super::in_flight::InFlight;
use super::{Delayed, Session, UNANSWERED_MESSAGES};
use crate::calls::Outcome;
use crate::catalog::identity;
use crate::config::CallLimit;
use crate::era::Era;
use crate::era::subscription::Filter;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::kind::Kind;
use crate::manager::{Member, View};
use crate::server::messages::call::{
    Access, Call, CallError, CallKey, Failure, MAX_PER_SESSION, Reply, RequestKind, Subject, Target,
};
use crate::server::{START_WAIT, ServerHandle, Subscription};

/// A request that waits for the first lists.
pub(super) enum Deferred {
    List {
        id: Bytes,
        kind: Kind,
        era: Era,
    },
    Listen {
        id: Bytes,
        filter: Filter,
    },
    Ask(Asked),
    /// No server has listed its name, and one that may still do so is starting. It waits no longer than until then.
    Unlisted {
        asked: Asked,
        until: Instant,
    },
}

/// Where a routed request is sent, and how.
pub(super) struct Destination<'a> {
    pub(super) server: &'a ServerHandle,
    /// The exposed name or id, raw, and the server's own to replace it with.
    pub(super) rename: Option<(Bytes, Bytes)>,
    /// What permits it; `None` where permission is not asked again.
    pub(super) access: Option<Box<Access>>,
    pub(super) limit: CallLimit,
}

impl Deferred {
    pub(super) fn id(&self) -> &Bytes {
        match self {
            Self::List { id, .. } | Self::Listen { id, .. } | Self::Ask(Asked { id, .. }) => id,
            Self::Unlisted { asked, .. } => &asked.id,
        }
    }

    fn era(&self) -> Era {
        match self {
            Self::List { era, .. } => *era,
            Self::Listen { .. } => Era::Modern,
            Self::Ask(asked) | Self::Unlisted { asked, .. } => asked.era(),
        }
    }
}

impl Session {
    pub(super) fn list(&mut self, kind: Kind, id: Bytes, params: Option<&Bytes>, era: Era) {
        match params.map(|params| members(params, ["cursor"])) {
            Some(Err(_)) => self.refuse(Some(&id), INVALID_PARAMS, "`params` is not an object"),
            Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => {
                self.refuse(Some(&id), INVALID_PARAMS, "unknown cursor: the list has one page");
            }
            _ => self.route(Deferred::List { id, kind, era }),
        }
    }

    pub(super) fn ask(&mut self, asked: Asked) {
        match asked.task_act() {
            _ if asked.subject == Subject::Task && asked.stated.is_some() => self.ask_about_stated_task(asked),
            Some(act) => self.ask_about_task(asked, act),
            None => self.route(Deferred::Ask(asked)),
        }
    }

    /// What whoever asks is shown, and whether it is all there.
    fn view_of(&self, era: Era) -> (Arc<View>, bool) {
        match era {
            Era::Legacy => {
                let view = self.setup.view.borrow().clone();
                let settled = view.settled && self.attachments.are_known();
                (view, settled)
            }
            Era::Modern => {
                let view = self.profile_view.borrow().clone();
                // What a server offers that is started for a directory is known when the first such instance has listed.
                let settled = view.settled && self.attachments.are_known();
                (view, settled)
            }
        }
    }

    /// Answers or forwards a request, or has it wait while first lists may still bring what it asks for.
    pub(super) fn route(&mut self, request: Deferred) {
        let (view, settled) = self.view_of(request.era());
        match request {
            Deferred::List { id, kind, era: Era::Modern } if settled => self.list_stateless(&id, kind, &view),
            Deferred::List { id, kind, era: Era::Legacy } if settled => {
                self.told[kind] = Some(view.catalog.version(kind));
                // In three parts, so that a long list is shared by all who wait for it rather than copied for each.
                let catalog = &view.catalog;
                let list = if self.has("tasks") { catalog.list_for_tasks(kind) } else { catalog.list(kind) };
                self.respond(Some(&id), reply::result_in_parts(&id, list));
            }
            Deferred::Listen { id, filter } if settled => self.begin_listening(id, filter, &view),
            Deferred::Ask(asked) if self.attachments.have_listed() || self.lead(&asked, &view).is_some() => {
                self.route_now(asked, Instant::now() + START_WAIT, &view);
            }
            Deferred::Unlisted { asked, until } => self.route_now(asked, until, &view),
            _ if self.is_full() => self.end_deferred(&request, &overloaded(TOO_MANY), Outcome::Overloaded),
            _ if self.deferred_bytes() > self.setup.max_message => {
                self.end_deferred(&request, &overloaded(TOO_LARGE), Outcome::Overloaded);
            }
            waiting => self.deferred.push(waiting),
        }
    }

    /// Forwards a request, or has it wait for a server that may still list its name, at most until then.
    fn route_now(&mut self, asked: Asked, until: Instant, view: &View) {
        if let Some(lead) = self.lead(&asked, view) {
            return self.forward(asked, lead, view);
        }
        let name = matches!(asked.subject, Subject::Call | Subject::Prompt).then_some(&asked.key[..]);
        let unlisted: Vec<&Member> = view.may_still_list(name).collect();
        let Some(first) = unlisted.first().map(|member| &member.handle) else { return self.unknown(&asked) };
        let may_come = unlisted.iter().any(|member| member.handle.published().state.may_be_ready_by(until));
        let error = if !may_come || until <= Instant::now() {
            let failure = Failure::of_state(&first.published().state);
            CallError { server: Arc::clone(first.name()), failure, sent: false }.to_object()
        } else if self.is_full() {
            overloaded(TOO_MANY)
        } else if self.deferred_bytes() > self.setup.max_message {
            overloaded(TOO_LARGE)
        } else {
            self.await_lists(view, until);
            return self.deferred.push(Deferred::Unlisted { asked, until });
        };
        let outcome = Outcome::Error { code: Some(error.code.into()) };
        self.end_unrouted(&asked, &error, outcome);
    }

    /// Looks up waiting names again when the state or the lists of a server change, at `until` at the latest.
    fn await_lists(&mut self, view: &View, until: Instant) {
        if std::mem::replace(&mut self.awaits_lists, true) {
            return;
        }
        let seen = |server: &ServerHandle| {
            let published = server.published();
            (published.is_listed, published.state.word())
        };
        let changed = |member: &Member| {
            let (server, before) = (member.handle.clone(), seen(&member.handle));
            async move { server.wait_for(|now| (now.is_listed, now.state.word()) != before).await }.boxed()
        };
        let changed = select_all(view.may_still_list(None).map(changed));
        self.waits.push(timeout_at(until.into(), changed).map(|_| Rare::MayBeListed).boxed());
    }

    /// Where it leads. What the agent has subscribed to it can give up where it has it, though it be listed no more.
    fn lead<'a>(&self, asked: &Asked, view: &'a View) -> Option<Lead<'a>> {
        let held = (asked.method == Method::Unsubscribe).then(|| self.subscriptions.server_of(&asked.key)).flatten();
        let held = held.and_then(|server| view.servers.iter().position(|member| member.handle.is_same(server)));
        held.map(Lead::Server).or_else(|| asked.lead(&view.catalog))
    }

    fn forward(&mut self, asked: Asked, lead: Lead<'_>, view: &View) {
        let Some(member) = view.servers.get(lead.server()) else { return self.unknown(&asked) };
        let server = &member.handle;
        let account = self.note(&asked, member, lead);
        let (rename, limit) = match lead {
            Lead::Route(route) => (Some((asked.raw_key.clone(), route.raw_name.clone())), route.limit),
            Lead::Server(_) => (None, member.config.settings.request_limit()),
        };
        let access = asked.target(lead).map(|target| self.access(&asked, target, (member, view)));
        let matter = asked.matter();
        self.send(asked, account, matter, Destination { server, rename, access, limit });
    }

    /// The permission of a request that `view` leads to `member`.
    pub(super) fn access(&self, asked: &Asked, target: Target, (member, view): (&Member, &View)) -> Box<Access> {
        let (subject, era) = (asked.subject, asked.era());
        let listener = self.listener(era);
        // Copied, so that a small name does not keep a large line in memory.
        let key = Bytes::copy_from_slice(&asked.key);
        let lists = identity(&member.lists);
        Box::new(Access { listener, target, subject, key, era, version: view.version(), lists })
    }

    /// Has a server do what is asked, unless the agent has too much unanswered.
    pub(super) fn send(
        &mut self,
        asked: Asked,
        account: Account,
        matter: RequestKind,
        Destination { server, rename, access, limit }: Destination<'_>,
    ) {
        if let Some(limit) = self.limit_reached(&asked, &matter) {
            let line = reply::error(Some(&asked.id), &overloaded(limit));
            self.tell(account, server, Outcome::Overloaded, line.len());
            self.respond(Some(&asked.id), [line]);
            return;
        }
        self.serial += 1;
        self.setup.facts.calls.add_one();
        let key = CallKey { session: self.setup.number, serial: self.serial };
        let reply = Reply::new(key, &asked.id, server.name(), &self.reply);
        let id = reply.id().clone();
        match &matter {
            RequestKind::Nothing | RequestKind::Task(_) | RequestKind::MayBeTask | RequestKind::Stated(_) => {}
            RequestKind::Subscription(subscription) => {
                self.attachments.ensure(server, self.agent());
                self.subscriptions.ask(key, Subscription::clone(subscription), server);
            }
            RequestKind::NewTask => {
                // For the server to cancel it when the agent has gone.
                self.attachments.ensure(server, self.agent());
                self.tasks.ask(key, &asked.key);
            }
        }
        let origin = self.origin(asked.stated.as_ref());
        let may_tell = self.may_tell(&asked);
        let Asked { line, id: asked_id, progress_token, .. } = asked;
        let call = Box::new(Call { line, id: asked_id, rename, progress_token, matter, limit, origin, access, reply });
        self.delayed = account.within(|| server.try_call(call)).map(|call| Delayed::Call(server.clone(), call));
        self.calls.insert(id, InFlight { key, server: server.clone(), account, may_tell });
    }

    /// Why the agent may not ask this as well, if it may not.
    fn limit_reached(&mut self, asked: &Asked, matter: &RequestKind) -> Option<&'static str> {
        if self.calls.bytes() + asked.line.len() > UNANSWERED_MESSAGES * self.setup.max_message {
            return Some(TOO_LARGE);
        }
        if self.is_full() {
            return Some(TOO_MANY);
        }
        match matter {
            RequestKind::Subscription(wanted) if !self.subscriptions.have_room(wanted) => Some(TOO_MANY_SUBSCRIPTIONS),
            RequestKind::NewTask if !self.tasks.have_room(Instant::now()) => Some(TOO_MANY_TASKS),
            _ => None,
        }
    }

    /// The same bytes for what is denied as for what never was.
    pub(super) fn unknown(&mut self, asked: &Asked) {
        let error = asked.subject.unknown(&asked.key, asked.era());
        self.end_unrouted(asked, &error, Outcome::UnknownTool);
    }

    pub(super) async fn retry_deferred(&mut self) {
        for request in std::mem::take(&mut self.deferred) {
            self.route(request);
            self.send_delayed().await;
        }
    }

    /// Has the agent wait for a server's task rather than refusing what it asks in a burst.
    pub(super) async fn send_delayed(&mut self) {
        match self.delayed.take() {
            None => {}
            Some(Delayed::Call(server, call)) => server.call(call).await,
            Some(Delayed::Cancel(server, key, words)) => server.cancel(key, Some(words)).await,
            Some(Delayed::Hear(wanted)) => {
                for (server, interest) in wanted {
                    server.hear(self.agent(), Box::new(interest)).await;
                }
            }
            Some(Delayed::RootsChanged(line)) => self.attachments.roots_changed(&line).await,
            Some(Delayed::LevelChanged) => {
                self.attachments.change(&self.agent()).await;
                self.attach();
            }
        }
    }

    pub(super) fn refuse_deferred(&mut self, error: &ErrorObject) {
        for request in std::mem::take(&mut self.deferred) {
            self.end_deferred(&request, error, Outcome::ShuttingDown);
        }
        for id in self.pages.give_up() {
            self.respond(Some(&id), [reply::error(Some(&id), error)]);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.calls.len() + self.deferred.len() + self.pages.len() + self.listens.len() >= MAX_PER_SESSION
    }

    fn deferred_bytes(&self) -> usize {
        let bytes = |waiting: &Deferred| match waiting {
            Deferred::List { id, .. } => id.len(),
            Deferred::Listen { id, filter } => id.len() + filter.written().len(),
            Deferred::Ask(asked) | Deferred::Unlisted { asked, .. } => asked.line.len(),
        };
        self.deferred.iter().map(bytes).sum()
    }
}

pub(super) const TOO_MANY: &str = "this connection has too many unanswered requests";
pub(super) const TOO_MANY_SUBSCRIPTIONS: &str =
    "this connection has too many subscriptions, or their URIs are too large together";
const TOO_MANY_TASKS: &str = "this connection has too many tasks that have not ended";
const TOO_LARGE: &str = "the unanswered requests of this connection are too large together";

pub(super) fn overloaded(what: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Overloaded, what, Delivery::NotSent)
}

pub(super) fn stopping() -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "mcpd is being stopped", Delivery::NotSent).by_stopping_daemon()
}
