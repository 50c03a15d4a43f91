//! A daemon goes, and another one comes.

use std::time::Instant;

use bytes::Bytes;

use super::long::Long;
use super::{Conversation, News, Stage, gone, unavailable};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply;
use crate::shim::asking::Asking;
use crate::shim::greeting::{Welcome, repeated, welcome};
use crate::shim::held::Waiting;
use crate::shim::renewal::request;
use crate::transport::Outbox;

impl Conversation {
    /// The connection to the daemon has ended.
    pub(in crate::shim) fn lost(&mut self, now: Instant) {
        self.stage = Stage::Away;
        if let Some(since) = self.draining_since.take() {
            self.held.resume(now.saturating_duration_since(since));
        }
        self.renewal.forget_all();
        let mut unsent = std::mem::take(&mut self.to_daemon);
        for sent in self.unanswered.end() {
            // To be introduced once more has no effect.
            let is_introduction = sent.asking.introduces();
            let line = match &self.memory.introduction {
                Some(introduction) if is_introduction => Some(introduction.line.clone()),
                _ => unsent.take(sent.number),
            };
            match line {
                // Daemons that come and go at once do not have it wait for longer.
                Some(line) => self.hold_sent(sent.number, line, sent.asking, sent.waited_since.unwrap_or(now)),
                None => self.refuse(&sent.asking, &gone()),
            }
        }
        self.lapse(now);
        for cancelled in self.memory.take_questions_back() {
            self.to_agent.push(cancelled);
        }
        self.long = self.long.take().map(|fate| if fate == Long::Passed { Long::Lost } else { fate });
        if !std::mem::replace(&mut self.is_lost, true) {
            self.news.push(News::Lost);
        }
    }

    /// There is a connection to a daemon.
    pub(in crate::shim) fn connected(&mut self) {
        self.to_daemon = Outbox::default();
        let id = self.renewal.id();
        let introduction = self.memory.introduction.as_ref();
        let greeting =
            introduction.and_then(|known| repeated(&known.line, &id, known.protocol.as_ref()?, self.memory.ids_from()));
        match greeting.or_else(|| self.discovery(&id)) {
            Some(greeting) => {
                self.to_daemon.push(greeting);
                self.stage = Stage::Greeting(id);
            }
            None => {
                self.stage = Stage::Live;
                self.send_held();
            }
        }
    }

    /// The daemon has answered the introduction that was repeated.
    pub(super) fn greeted(&mut self, outcome: Result<&Bytes, &Bytes>) {
        // It is about to go itself, or full: its end of the connection comes, and then the next one.
        if outcome.is_err_and(is_passing) {
            return;
        }
        if self.memory.protocol().is_none() {
            return self.discovered(outcome.ok());
        }
        let answer = match outcome.map(welcome) {
            Ok(answer) => answer,
            Err(error) => {
                return self.end(format!(
                    "another daemon has come, which refuses the agent: {}",
                    String::from_utf8_lossy(error)
                ));
            }
        };
        match answer {
            Some(Welcome { protocol, daemon }) if Some(&protocol) == self.memory.protocol() => {
                self.compare(daemon);
                self.resume();
            }
            Some(Welcome { protocol, .. }) => {
                let protocol = String::from_utf8_lossy(&protocol).into_owned();
                self.end(format!("another daemon has come, which serves in version {protocol} of MCP"));
            }
            None => self.end("another daemon has come, which answers `initialize` with what is no answer".to_owned()),
        }
    }

    fn resume(&mut self) {
        self.stage = Stage::Live;
        if self.memory.is_ready() {
            self.to_daemon.push(reply::notification("notifications/initialized"));
        }
        if let Some(level) = &self.memory.level {
            let id = self.renewal.id();
            self.to_daemon.push(request(&id, "logging/setLevel", "level", level));
        }
        self.listen_again();
        self.renewal.begin(&self.memory.subscriptions);
        self.renew();
        self.send_held();
        if self.memory.is_ready() {
            for change in self.memory.changes() {
                self.to_agent.push(change);
            }
        }
        self.is_back();
    }

    /// There is a daemon again, if there was none.
    pub(super) fn is_back(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.news.push(News::Back);
        }
    }

    pub(super) fn send_held(&mut self) {
        while let Some(Waiting { line, asking, since, .. }) = self.held.take_first() {
            let is_introduction = asking.introduces();
            self.send(line, asking, Some(since));
            // The agent may have said so without waiting for the answer.
            if is_introduction && self.memory.is_ready() {
                self.to_daemon.push(reply::notification("notifications/initialized"));
            }
        }
    }

    /// Nobody is waited for any more: why.
    pub(in crate::shim) fn end(&mut self, why: String) {
        while let Some(Waiting { asking, .. }) = self.held.take_first() {
            self.refuse(&asking, &unavailable(&why));
        }
        for id in self.listens.end() {
            self.refuse(&Asking::plain(id), &unavailable(&why));
        }
        self.stage = Stage::Over(why);
    }
}

/// Whether a refusal says nothing of the next daemon.
pub(super) fn is_passing(error: &Bytes) -> bool {
    matches!(ErrorCode::of(error), Some(ErrorCode::Overloaded | ErrorCode::Unavailable | ErrorCode::ShuttingDown))
}
