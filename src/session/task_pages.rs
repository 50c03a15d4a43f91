//! The pages of `tasks/list` that the agent has requested. One page is gathered at a time, by polling each task on it. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::account::Charge;
use crate::server::messages::call::CallKey;

#[derive(Debug, Default)]
pub(super) struct TaskPages {
    current: Option<Page>,
    waiting: VecDeque<PageRequest>,
}

/// A request for the page that begins after the task with number `after`.
#[derive(Debug)]
pub(super) struct PageRequest {
    /// Raw.
    pub(super) id: Bytes,
    pub(super) after: u64,
    pub(super) charge: Charge,
}

#[derive(Debug)]
pub(super) struct Page {
    /// Raw id of the request.
    pub(super) id: Bytes,
    pub(super) items: Vec<Item>,
    /// Where the next one begins.
    pub(super) next: Option<u64>,
    #[expect(dead_code, reason = "it counts the request until it is dropped")]
    pub(super) charge: Charge,
}

#[derive(Debug)]
pub(super) struct Item {
    /// Number of the task.
    pub(super) number: u64,
    /// The call that polls it.
    pub(super) key: CallKey,
    pub(super) polled: PollResult,
}

/// The result of polling a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PollResult {
    /// The response has not arrived.
    Awaited,
    /// The current state, a raw object.
    Fresh(Bytes),
    /// No new state: the list has the last known state.
    Unchanged,
    /// The task does not exist any more.
    Gone,
}

impl TaskPages {
    pub(super) fn len(&self) -> usize {
        usize::from(self.current.is_some()) + self.waiting.len()
    }

    /// Whether the request with this raw id is for a page.
    pub(super) fn contains(&self, id: &Bytes) -> bool {
        self.current.as_ref().is_some_and(|page| page.id == *id) || self.waiting.iter().any(|request| request.id == *id)
    }

    pub(super) fn push(&mut self, id: &Bytes, after: u64, charge: Charge) {
        self.waiting.push_back(PageRequest { id: Bytes::copy_from_slice(id), after, charge });
    }

    /// The next page to gather, if none is being gathered.
    pub(super) fn next(&mut self) -> Option<PageRequest> {
        if self.current.is_some() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Begins to gather a page.
    pub(super) fn gather(&mut self, page: Page) {
        self.current = Some(page);
    }

    /// The call `key` was answered. It may be the poll of a task on the page. Returns the page if it is complete.
    pub(super) fn record_poll(&mut self, key: CallKey, polled: PollResult) -> Option<Page> {
        let item = self.current.as_mut()?.items.iter_mut().find(|item| item.key == key)?;
        item.polled = polled;
        self.take_complete()
    }

    /// The page, if every task on it was polled.
    pub(super) fn take_complete(&mut self) -> Option<Page> {
        self.current.take_if(|page| page.items.iter().all(|item| item.polled != PollResult::Awaited))
    }

    /// The agent cancels the request. Returns the items of the page, if it is being gathered.
    pub(super) fn cancel(&mut self, id: &Bytes) -> Vec<Item> {
        self.waiting.retain(|request| request.id != *id);
        self.current.take_if(|page| page.id == *id).map_or_else(Vec::new, |page| page.items)
    }

    /// Drops all pages. Returns the raw ids of the requests.
    pub(super) fn clear(&mut self) -> Vec<Bytes> {
        let current = self.current.take().map(|page| page.id);
        current.into_iter().chain(self.waiting.drain(..).map(|request| request.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::a_charge;

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn page(id: &'static str, serials: &[u64]) -> Page {
        let item = |serial: &u64| Item { number: *serial, key: key(*serial), polled: PollResult::Awaited };
        Page { id: Bytes::from(id), items: serials.iter().map(item).collect(), next: None, charge: a_charge() }
    }

    fn next(pages: &mut TaskPages) -> Option<(Bytes, u64)> {
        pages.next().map(|request| (request.id, request.after))
    }

    #[test]
    fn pages_are_gathered_one_after_another_each_until_its_last_answer() {
        let (mut pages, [one, other]) = (TaskPages::default(), ["1", "2"].map(Bytes::from));
        pages.push(&one, 0, a_charge());
        pages.push(&other, 5, a_charge());
        assert_eq!(next(&mut pages), Some((one.clone(), 0)));
        pages.gather(page("1", &[7, 8]));
        assert!(pages.next().is_none() && pages.contains(&one) && pages.contains(&other) && pages.len() == 2);
        assert!(
            pages.record_poll(key(9), PollResult::Gone).is_none()
                && pages.record_poll(key(8), PollResult::Gone).is_none()
        );
        let polled = |page: Page| page.items.into_iter().map(|item| item.polled).collect::<Vec<_>>();
        let fresh = PollResult::Fresh(Bytes::from("x"));
        assert_eq!(pages.record_poll(key(7), fresh.clone()).map(polled), Some(vec![fresh, PollResult::Gone]));
        assert_eq!(next(&mut pages), Some((other, 5)));
        pages.gather(page("2", &[]));
        assert!(pages.take_complete().is_some_and(|page| page.id == "2") && pages.len() == 0);
    }

    #[test]
    fn a_cancelled_page_is_not_gathered() {
        let (mut pages, ids) = (TaskPages::default(), ["1", "2", "3"].map(Bytes::from));
        ids.iter().for_each(|id| pages.push(id, 0, a_charge()));
        pages.next();
        pages.gather(page("1", &[7]));
        assert!(pages.cancel(&ids[1]).is_empty() && !pages.contains(&ids[1]));
        assert_eq!(pages.cancel(&ids[0]).iter().map(|item| item.key).collect::<Vec<_>>(), [key(7)]);
        assert!(pages.record_poll(key(7), PollResult::Gone).is_none() && pages.clear() == ["3"] && pages.len() == 0);
    }
}
