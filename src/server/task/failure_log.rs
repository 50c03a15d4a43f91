//! Logs a warning for each failed start and each unexpected end of an instance.
//!
//! One line per event: server, exit code, reason, the delay until the next start, and the last line on stderr of the process that
//! has ended.

use std::time::Instant;

use super::ServerTask;
use crate::era::Era;
use crate::printable::{excerpt, one_line};
use crate::server::error::ServerError;
use crate::server::instance::Instance;
use crate::server::lifecycle::{Event, State};
use crate::server::start_error::Exit;
use crate::server::stderr;

/// Maximum characters of a line of stderr.
const MAX_LINE_LEN: usize = 500;

/// What the processes of the instances leave: their stderr, and how the latest one has ended.
#[derive(Debug)]
pub(super) struct LastProcess {
    stderr: stderr::Writer,
    pid: Option<u32>,
    exit: Option<Exit>,
    /// A download that one of them has not finished was removed from the private cache.
    has_cleared_cache: bool,
}

impl LastProcess {
    pub(super) fn new(stderr: stderr::Writer) -> Self {
        Self { stderr, pid: None, exit: None, has_cleared_cache: false }
    }

    /// What all processes write to.
    pub(super) fn stderr(&self) -> &stderr::Writer {
        &self.stderr
    }

    /// The next attempt to start one begins.
    pub(super) fn clear(&mut self) {
        (self.pid, self.exit) = (None, None);
    }

    pub(super) fn note_start(&mut self, pid: u32) {
        self.pid = Some(pid);
    }

    pub(super) fn note_exit(&mut self, exit: &Exit) {
        self.exit = Some(exit.clone());
    }

    pub(super) fn has_cleared_cache(&self) -> bool {
        self.has_cleared_cache
    }

    pub(super) fn note_cleared_cache(&mut self) {
        self.has_cleared_cache = true;
    }

    /// Its last line on stderr.
    fn last_line(&self) -> Option<String> {
        self.stderr.log().last_of(self.pid?)
    }

    /// What it has written last without an end of line, such as a question.
    fn unended_line(&self) -> Option<String> {
        self.stderr.log().unended_of(self.pid?)
    }
}

impl ServerTask {
    /// Logs that the server is in another state than `before`: a warning with the reason if something has failed.
    pub(super) fn log_state(&self, before: Option<&State>) {
        let state = self.lifecycle.state();
        let was_up = matches!(before, Some(State::Ready { .. } | State::Unresponsive { .. }));
        match state {
            State::Backoff { attempt, until, reason, .. } => {
                let what = if was_up { "ended" } else { "start failed" };
                let delay = until.saturating_duration_since(Instant::now()).as_millis();
                self.warn(&format!("{what}, will be restarted"), reason, Some((*attempt, delay)));
            }
            State::Failed { reason } if was_up => self.warn("ended, will not be restarted", reason, None),
            State::Failed { reason } => self.warn("start failed, will not be tried again", reason, None),
            State::NeedsLogin { reason } => self.warn("needs a login", reason, None),
            State::Stopped if was_up => {
                tracing::info!(server = %self.config.name, instance = self.purpose.label.as_deref(), "exited with nothing to do; the next call starts it");
            }
            State::Unresponsive { reason, .. } if !self.marked_down() => self.warn("does not answer", reason, None),
            _ => {
                tracing::info!(server = %self.config.name, instance = self.purpose.label.as_deref(), "{}", state.name())
            }
        }
    }

    /// Logs that an instance has exited at the first request of one era, and that the server is restarted with that of the other.
    pub(super) fn log_other_era(&self, died_opening: Era, event: &Event) {
        if let Event::Ended(reason) = event {
            let [unanswered, next] = [died_opening, died_opening.other()].map(|era| match era {
                Era::Legacy => "initialize",
                Era::Modern => "server/discover",
            });
            self.warn(&format!("exited before it answered `{unanswered}`, restarting with `{next}`"), reason, None);
        }
    }

    fn warn(&self, what: &str, reason: &ServerError, retry: Option<(u32, u128)>) {
        let exit = self.last_process.exit.as_ref();
        tracing::warn!(
            server = %self.config.name,
            instance = self.purpose.label.as_deref(),
            code = exit.and_then(|exit| exit.code),
            signal = exit.and_then(|exit| exit.signal),
            attempt = retry.map(|(attempt, _)| attempt),
            retry_in = retry.map(|(_, delay)| tracing::field::display(format!("{delay}ms"))),
            reason = %one_line(&self.masked(&reason.to_string())),
            stderr = self.last_process.last_line().map(|line| tracing::field::display(excerpt(&self.masked(&line), MAX_LINE_LEN))),
            "{what}"
        );
    }

    /// The error with what the instance has left that may explain it. Secrets in the server's words are masked.
    pub(super) fn explained(&self, error: ServerError, instance: &Instance) -> ServerError {
        let mut evidence = instance.wire.evidence();
        self.last_process.unended_line().into_iter().for_each(|line| evidence.note_question(line));
        error.masked(|text| self.masked(text)).explained(evidence.masked(|text| self.masked(text)))
    }

    /// The text without the secrets that the daemon knows, in any form, and without programs of the server's secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        let text = self.context.secrets.mask_of_known().apply(text).text;
        self.config.launch.as_ref().map_or_else(|_| text.clone(), |launch| launch.secrets().masked(&text))
    }
}
