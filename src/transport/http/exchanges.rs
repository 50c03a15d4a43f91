//! Unfinished exchanges of one connection, and their limits. Pure except for the abort handles.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::AbortHandle;

use super::event_queue::Source;
use crate::message_limit::buffer_unit;

/// Maximum of exchanges; further lines wait in the outbox. A call has one until its response, and for a while after its
/// cancellation.
const MAX_EXCHANGES: usize = 512;
/// Maximum of bytes sent by them, in buffer units; further lines wait, too.
const MAX_MESSAGES: usize = 4;

/// The exchanges of one connection.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: HashMap<Source, Open>,
    /// Bytes sent by unfinished exchanges.
    bytes: usize,
    /// Line numbers and ids of requests that wait to be sent.
    announced: VecDeque<(u64, u64)>,
}

/// An unfinished exchange.
#[derive(Debug)]
pub(super) struct Open {
    /// The request's id; `None` for other messages.
    pub(super) request: Option<u64>,
    pub(super) bytes: usize,
    pub(super) abort: AbortHandle,
    pub(super) is_cancelled: Arc<AtomicBool>,
}

impl Exchanges {
    /// Registers that a line will be the request with this id.
    pub(super) fn announce(&mut self, line: u64, request: u64) {
        self.announced.push_back((line, request));
    }

    /// The id of a line that is a request. Earlier entries are dropped.
    pub(super) fn announced(&mut self, line: u64) -> Option<u64> {
        while self.announced.front().is_some_and(|(other, _)| *other < line) {
            self.announced.pop_front();
        }
        let (_, request) = *self.announced.front().filter(|(other, _)| *other == line)?;
        self.announced.pop_front();
        Some(request)
    }

    pub(super) fn insert(&mut self, source: Source, open: Open) {
        self.bytes += open.bytes;
        self.open.insert(source, open);
    }

    /// Removes an exchange that has ended.
    pub(super) fn end(&mut self, source: Source) -> Option<Open> {
        let open = self.open.remove(&source)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    pub(super) fn get(&self, source: Source) -> Option<&Open> {
        self.open.get(&source)
    }

    /// The exchange of a request.
    pub(super) fn of(&self, request: u64) -> Option<(Source, &Open)> {
        self.open.iter().find(|(_, open)| open.request == Some(request)).map(|(source, open)| (*source, open))
    }

    pub(super) fn are_too_many(&self, max_message: usize) -> bool {
        self.open.len() >= MAX_EXCHANGES || self.bytes >= MAX_MESSAGES * buffer_unit(max_message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
