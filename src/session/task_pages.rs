//! The pages of `tasks/list` that the agent waits for: one is gathered at a time, from one answer of a server for each task
//! on it. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::server::messages::call::CallKey;

/// Those of one agent.
#[derive(Debug, Default)]
pub(super) struct TaskPages {
    now: Option<Page>,
    /// Raw ids of requests, with the number of the task after which their pages begin.
    waiting: VecDeque<(Bytes, u64)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Page {
    /// Raw id of the request.
    pub(super) id: Bytes,
    pub(super) items: Vec<Item>,
    /// Where the next one begins.
    pub(super) next: Option<u64>,
}

/// A task on a page.
#[derive(Debug)]
pub(super) struct Item {
    /// Number of the task.
    pub(super) number: u64,
    /// The request for it.
    pub(super) key: CallKey,
    pub(super) told: Told,
}

/// What its server tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing yet.
    Awaited,
    /// This object.
    Fresh(Bytes),
    /// Nothing of use: it is as it was.
    Nothing,
    /// That there is none.
    Gone,
}

impl TaskPages {
    /// How many are waited for.
    pub(super) fn len(&self) -> usize {
        usize::from(self.now.is_some()) + self.waiting.len()
    }

    /// Whether the request of this raw id is for one.
    pub(super) fn contain(&self, id: &Bytes) -> bool {
        self.now.as_ref().is_some_and(|page| page.id == *id) || self.waiting.iter().any(|(own, _)| own == id)
    }

    /// The agent asks for one.
    pub(super) fn ask(&mut self, id: &Bytes, after: u64) {
        self.waiting.push_back((Bytes::copy_from_slice(id), after));
    }

    /// The next one to be gathered, if none is.
    pub(super) fn next(&mut self) -> Option<(Bytes, u64)> {
        if self.now.is_some() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// It is being gathered.
    pub(super) fn gather(&mut self, page: Page) {
        self.now = Some(page);
    }

    /// The request `key` was answered, which may be one for a task on the page. The page, if that is complete.
    pub(super) fn take(&mut self, key: CallKey, told: Told) -> Option<Page> {
        let item = self.now.as_mut()?.items.iter_mut().find(|item| item.key == key)?;
        item.told = told;
        self.take_complete()
    }

    /// The page, if every answer to it is there.
    pub(super) fn take_complete(&mut self) -> Option<Page> {
        self.now.take_if(|page| page.items.iter().all(|item| item.told != Told::Awaited))
    }

    /// The agent does not want that one any more. The requests for what was to be on it, and the numbers of its tasks.
    pub(super) fn cancel(&mut self, id: &Bytes) -> Vec<Item> {
        self.waiting.retain(|(own, _)| own != id);
        self.now.take_if(|page| page.id == *id).map_or_else(Vec::new, |page| page.items)
    }

    /// Gives all of them up. The raw ids of their requests.
    pub(super) fn give_up(&mut self) -> Vec<Bytes> {
        let now = self.now.take().map(|page| page.id);
        now.into_iter().chain(self.waiting.drain(..).map(|(id, _)| id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn page(id: &'static str, serials: &[u64]) -> Page {
        let item = |serial: &u64| Item { number: *serial, key: key(*serial), told: Told::Awaited };
        Page { id: Bytes::from(id), items: serials.iter().map(item).collect(), next: None }
    }

    #[test]
    fn pages_are_gathered_one_after_another_each_until_its_last_answer() {
        let (mut pages, [one, other]) = (TaskPages::default(), ["1", "2"].map(Bytes::from));
        pages.ask(&one, 0);
        pages.ask(&other, 5);
        assert_eq!(pages.next(), Some((one.clone(), 0)));
        pages.gather(page("1", &[7, 8]));
        assert!(pages.next().is_none() && pages.contain(&one) && pages.contain(&other) && pages.len() == 2);
        assert!(pages.take(key(9), Told::Gone).is_none() && pages.take(key(8), Told::Gone).is_none());
        let told = |page: Page| page.items.into_iter().map(|item| item.told).collect::<Vec<_>>();
        let fresh = Told::Fresh(Bytes::from("x"));
        assert_eq!(pages.take(key(7), fresh.clone()).map(told), Some(vec![fresh, Told::Gone]));
        assert_eq!(pages.next(), Some((other, 5)));
        pages.gather(page("2", &[]));
        assert!(pages.take_complete().is_some_and(|page| page.id == "2") && pages.len() == 0);
    }

    #[test]
    fn what_is_cancelled_is_gathered_no_longer() {
        let (mut pages, ids) = (TaskPages::default(), ["1", "2", "3"].map(Bytes::from));
        ids.iter().for_each(|id| pages.ask(id, 0));
        pages.next();
        pages.gather(page("1", &[7]));
        assert!(pages.cancel(&ids[1]).is_empty() && !pages.contain(&ids[1]));
        assert_eq!(pages.cancel(&ids[0]).iter().map(|item| item.key).collect::<Vec<_>>(), [key(7)]);
        assert!(pages.take(key(7), Told::Gone).is_none() && pages.give_up() == ["3"] && pages.len() == 0);
    }
}
