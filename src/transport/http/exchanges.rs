//! The exchanges of one way that have not ended, and how many there may be. Pure but for what aborts them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::AbortHandle;

use super::report::Source;

/// Exchanges at once; further lines wait in the outbox. A call has one until it is answered, and for a while longer if it was
/// given up.
const MOST: usize = 512;
/// Bytes that were sent by them, in largest messages; further lines wait, too.
const MOST_BYTES: usize = 4;

/// Those of one way.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: HashMap<Source, Open>,
    /// Of what was sent.
    bytes: usize,
    /// Requests that wait to be sent: the numbers of their lines, and their ids.
    announced: VecDeque<(u64, u64)>,
}

/// One that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    /// The id of the request that it is, if it is one.
    pub(super) request: Option<u64>,
    pub(super) bytes: usize,
    pub(super) abort: AbortHandle,
    pub(super) is_given_up: Arc<AtomicBool>,
}

impl Exchanges {
    /// The line of this number will be a request with this id.
    pub(super) fn announce(&mut self, line: u64, request: u64) {
        self.announced.push_back((line, request));
    }

    /// The id of the line of this number, if it is a request. Lines before it are asked for no more.
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

    /// One has ended.
    pub(super) fn end(&mut self, source: Source) -> Option<Open> {
        let open = self.open.remove(&source)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    pub(super) fn get(&self, source: Source) -> Option<&Open> {
        self.open.get(&source)
    }

    /// That of a request.
    pub(super) fn of(&self, request: u64) -> Option<(Source, &Open)> {
        self.open.iter().find(|(_, open)| open.request == Some(request)).map(|(source, open)| (*source, open))
    }

    pub(super) fn are_too_many(&self, max_message: usize) -> bool {
        self.open.len() >= MOST || self.bytes >= MOST_BYTES * max_message
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
