//! What goes to the agent: answers always, notifications as long as it reads.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::net::unix::OwnedWriteHalf;

use super::Session;
use super::in_flight::InFlight;
use super::notices::Notice;
use crate::calls::Outcome;
use crate::jsonrpc::mcpd_error::{Delivery, is_refusal_of_stopping_daemon};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, parse};
use crate::kind::Kind;
use crate::server::messages::call::{CallKey, ToAgent};
use crate::server::messages::tasks::TaskNews;

/// An agent for which more bytes wait has fallen behind: notifications go to [`super::notices`] until it has caught up.
const BEHIND: usize = 256 << 10;

impl Session {
    /// Writes what the agent takes; one that has caught up is told what it has missed. Pending if it takes nothing, ready if
    /// there is nothing to write, too.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, write: &mut OwnedWriteHalf) -> Poll<io::Result<()>> {
        if self.outbox.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let (was_behind, was_full) = (self.is_behind(), !self.may_read_more());
        ready!(self.outbox.poll_write(cx, write))?;
        if was_behind && !self.is_behind() {
            self.tell_notices();
        }
        if was_full {
            self.tell_of_changes();
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing is delivered of a call that was cancelled, even if its id is in use again.
    pub(super) fn deliver(&mut self, message: ToAgent) {
        match message {
            ToAgent::Answer { key, line, outcome, task } => {
                if !self.notices.is_empty() {
                    self.end_notices(key);
                }
                if self.subscriptions.end(key, matches!(outcome, Outcome::Ok | Outcome::ToolError)) {
                    // Its server may have made way for another meanwhile, or taken what was ended for all there is.
                    self.renew_subscriptions(&self.agent());
                }
                self.take_answer(key, line, outcome, task);
            }
            ToAgent::Progress { key, line } => self.tell_or_keep(Some(key), line),
            ToAgent::ServerNotification(unasked) => self.tell_unasked(unasked),
            ToAgent::Question(question) => self.question(*question),
        }
    }

    fn take_answer(&mut self, key: CallKey, line: Bytes, outcome: Outcome, news: Option<Box<TaskNews>>) {
        let tool = self.tasks.end_ask(key);
        let Some((id, InFlight { account, server, may_tell, .. })) = self.calls.end(key) else {
            return self.glanced(key, outcome, news);
        };
        let line = may_tell.iter().fold(line, |line, may_tell| self.with_sealed_id(may_tell, news.as_deref(), line));
        let taken = news.map_or(Ok(()), |news| self.take_news((key, tool), *news, &server));
        let (line, outcome) = match taken {
            Ok(()) => (line, outcome),
            Err(error) => (reply::error(Some(&id), &error), Outcome::Malformed),
        };
        let (line, outcome) = if matches!(outcome, Outcome::Error { .. }) && speaks_for_daemon(&line) {
            (reply::error(Some(&id), &misleading(server.name())), Outcome::Malformed)
        } else {
            (line, outcome)
        };
        self.tell(account, &server, outcome, line.len());
        self.respond(Some(&id), [line]);
    }

    /// Tells a notification, of a call if that is given. An agent that has fallen behind loses the oldest, never an answer.
    pub(super) fn tell_or_keep(&mut self, key: Option<CallKey>, line: Bytes) {
        if self.is_behind() {
            self.setup.facts.dropped.add(self.notices.push(Notice { key, line }));
        } else {
            self.tell_notice(key, line);
        }
    }

    fn tell_notice(&mut self, key: Option<CallKey>, line: Bytes) {
        if key.is_none_or(|key| self.calls.contains(key) || self.has_open_task(key) || self.listens.contain_key(key)) {
            self.outbox.push(line);
        }
    }

    /// Tells what has waited.
    fn tell_notices(&mut self) {
        for Notice { key, line } in self.notices.take() {
            self.tell_notice(key, line);
        }
    }

    /// Tells it before a call ends, unless there is no room: then what waits of that call can never be told.
    fn end_notices(&mut self, key: CallKey) {
        if self.may_read_more() {
            self.tell_notices();
        } else {
            self.setup.facts.dropped.add(self.notices.remove(key));
        }
    }

    fn is_behind(&self) -> bool {
        self.outbox.bytes() > BEHIND
    }

    pub(super) fn may_read_more(&self) -> bool {
        self.outbox.bytes() + self.batches.bytes() <= self.setup.max_message
    }

    /// Tells the agent which of the lists it has have changed: once, however often they did, and only if there is room.
    pub(super) fn tell_of_changes(&mut self) {
        if !self.may_read_more() {
            return;
        }
        self.tell_listeners_of_changes();
        if !self.initialized {
            return;
        }
        let view = self.setup.view.borrow().clone();
        let mut said = None;
        for kind in Kind::ALL {
            let version = view.catalog.version(kind);
            if self.told[kind].is_some_and(|told| told != version) {
                self.told[kind] = Some(version);
                // One says it of resources and of their templates.
                if said != Some(kind.change()) {
                    said = Some(kind.change());
                    self.outbox.push(reply::notification(kind.change()));
                }
            }
        }
    }
}

/// Whether an error of a server claims that the daemon is being stopped: `mcpd connect` would hold all requests because of it.
fn speaks_for_daemon(line: &Bytes) -> bool {
    let response = parse(&line.slice(..line.len().saturating_sub(1)));
    matches!(response, Ok(Message::Response { outcome: Err(error), .. }) if is_refusal_of_stopping_daemon(&error))
}

fn misleading(server: &str) -> ErrorObject {
    let message = format!("server `{server}` answered with an error that is reserved for mcpd");
    ErrorObject::new(reply::INTERNAL_ERROR, message).about_server(server).with_delivery(Delivery::Unknown)
}
