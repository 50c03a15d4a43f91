//! What the way to a server makes of what has happened on it.

use super::super::listener::Listener;
use super::super::phase::Phase;
use super::super::place::Learnt;
use super::super::report::{News, Ownership, Source};
use super::super::{Lost, Parting};
use super::{Http, LISTENER};
use crate::jsonrpc::Message;
use crate::jsonrpc::pending::minted;
use crate::transport::{Arrival, Incoming};

/// Messages in a row for which a server may not let mcpd in: a single call may be refused for its own sake.
const NOT_ADMITTED: u32 = 3;

impl Http {
    /// What it is for the server's task, if anything.
    pub(super) fn take(&mut self, source: Source, news: News) -> Option<Result<Arrival, Parting>> {
        match news {
            News::Message(incoming, ownership) => {
                let within = self.open.get(source).and_then(|open| open.request);
                if let Incoming::Message { message: Message::Response { id, outcome }, .. } = &incoming {
                    self.answered(source, outcome.is_ok(), minted(id).filter(|id| within != Some(*id)));
                }
                let within = within.filter(|_| ownership == Ownership::OfRequest);
                return Some(Ok(Arrival::Incoming { incoming, within }));
            }
            News::Session(session) => {
                if self.phase.is_opened_by(source) {
                    self.desk.change(|place| place.set_session(&session));
                }
            }
            News::Learnt(Learnt { token, url }) => {
                url.into_iter().for_each(|url| self.desk.change(|place| place.set_url(url)));
                if let Some(token) = token {
                    self.keep_token(token.refresh_at());
                    self.desk.change(|place| place.set_token(token));
                }
            }
            News::Attended => {
                if let Phase::Opened { initialized: Some(initialized) } = self.phase {
                    self.phase = Phase::Introducing { initialized, source: None };
                    return Some(Ok(Arrival::Moved));
                }
            }
            News::Endpoint(url) => {
                if let Phase::Seeking { line, request } = std::mem::replace(&mut self.phase, Phase::OpenOld) {
                    self.desk.change(|place| place.set_url(url));
                    self.exchange(line, request);
                }
            }
            News::Done => {
                self.not_admitted = 0;
                let done = self.open.end(source)?;
                self.introduced(source);
                // What was taken for the answer may have been none, such as a batch where there are none. If it was one, this
                // says nothing more than that there is room again.
                let answered = done.request.filter(|_| !self.is_old());
                let lost = |request| Arrival::Lost { request, lost: Lost::NoAnswer };
                return Some(Ok(answered.map_or(Arrival::Moved, lost)));
            }
            News::Lost(lost) => return self.lost(source, lost),
            News::Forgotten => {
                let open = self.open.end(source)?;
                open.abort.abort();
                let lost = Lost::Cut { reason: "did not answer".to_owned() };
                return open.request.map(|request| Ok(Arrival::Lost { request, lost }));
            }
            News::Parted(parting) => self.parting = Some(parting),
        }
        None
    }

    /// The way is open if it is the handshake that is answered. A request that is answered on another stream needs its own no more.
    fn answered(&mut self, source: Source, has_result: bool, elsewhere: Option<u64>) {
        if self.phase.is_opened_by(source) {
            self.phase = if has_result { Phase::Opened { initialized: None } } else { Phase::New };
        }
        let own = elsewhere.and_then(|request| self.open.of(request)).map(|(source, _)| source);
        if let Some(open) = own.and_then(|own| self.open.end(own)) {
            open.abort.abort();
        }
    }

    /// The server has heard that the handshake is over, or has not wanted to.
    fn introduced(&mut self, source: Source) {
        if matches!(self.phase, Phase::Introducing { source: Some(introducing), .. } if introducing == source) {
            self.phase = Phase::Open;
        }
    }

    pub(super) fn listener(&self) -> Listener {
        Listener { report: self.desk.reporter(LISTENER), max: self.max }
    }

    fn lost(&mut self, source: Source, lost: Lost) -> Option<Result<Arrival, Parting>> {
        let open = self.open.end(source)?;
        match &self.phase {
            // Which era it speaks in may be the reason.
            Phase::Opening { source: opening, .. }
                if *opening == source && (self.has_modern || !self.open.is_empty()) =>
            {
                self.phase = Phase::Probing;
            }
            Phase::Opening { source: opening, line } if *opening == source => {
                if !lost.may_be_old() {
                    self.parting.get_or_insert_with(|| lost.parting());
                    return None;
                }
                self.phase = Phase::Seeking { line: line.clone(), request: open.request };
                let listener = self.listener();
                self.run(listener.attend_old(lost.parting()));
                return None;
            }
            Phase::Introducing { .. } => self.introduced(source),
            _ => {}
        }
        self.not_admitted = if lost.is_no_admission() { self.not_admitted + 1 } else { 0 };
        // Nothing speaks for its being there, or for its letting mcpd in again.
        let is_away = matches!(lost, Lost::NotSent { .. }) && self.open.is_empty();
        if is_away || self.not_admitted >= NOT_ADMITTED {
            self.parting.get_or_insert_with(|| lost.parting());
        }
        Some(Ok(open.request.map_or(Arrival::Moved, |request| Arrival::Lost { request, lost })))
    }
}
