//! TaskSubscription the pages of a list to their end, or to a limit.
//!
//! Pure. A server may send cursors for ever, the same one again, or pages without end: the list then ends where the limit is,
//! and says so.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::catalog::{CacheHint, Item, List};
use crate::jsonrpc::members::{members, text};
use crate::list_kind::ListKind;
use crate::token_estimate;

/// Most pages of one list.
const MAX_PAGES: usize = 500;
/// Most items of one list.
const MAX_ITEMS: usize = 10_000;
/// Most bytes of one list's definitions together: far more than any model reads, and less than one message. One
/// that does not fit beside those before it is left out.
const MAX_BYTES: usize = 8 << 20;
/// Most bytes of one list as they come, left out or not.
const MAX_READ: usize = 8 * MAX_BYTES;
/// Longest name or URI, in bytes. Which names are fit to be exposed is decided by policy, so that it can be told.
const MAX_KEY: usize = 8 << 10;
/// Longest cursor, in bytes.
const MAX_CURSOR: usize = 4 << 10;

/// A list being followed.
#[derive(Debug)]
pub struct Listing {
    kind: ListKind,
    list: List,
    /// Of the definitions kept.
    bytes: usize,
    /// Of all pages.
    read: usize,
    cursors: HashSet<Bytes>,
}

/// What to do after a page.
#[derive(Debug)]
pub enum Next {
    /// Ask for the page at this cursor, raw JSON.
    Page(Listing, Bytes),
    /// That was the last one.
    Done(List),
}

impl Listing {
    /// One of which no page was taken yet.
    #[must_use]
    pub fn of(kind: ListKind) -> Self {
        Self { kind, list: List::default(), bytes: 0, read: 0, cursors: HashSet::new() }
    }

    /// What is listed.
    #[must_use]
    pub fn kind(&self) -> ListKind {
        self.kind
    }

    /// Takes the raw result of one request.
    ///
    /// # Errors
    /// The list as it was, if that is no result of its method.
    pub fn page(mut self, result: &Bytes) -> Result<Next, Self> {
        let Ok([Some(items), cursor]) = members(result, [self.kind.member(), "nextCursor"]) else { return Err(self) };
        let Ok(definitions) = serde_json::from_slice::<Vec<&RawValue>>(&items) else { return Err(self) };
        let hint = CacheHint::read(result);
        self.list.keep = if self.cursors.is_empty() { hint } else { hint.zip(self.list.keep).map(|(a, b)| a.and(b)) };
        for definition in definitions {
            self.add(definition.get().as_bytes());
        }
        self.read += result.len();
        // An empty string is a cursor like any other (MCP, `server/utilities/pagination`); null is none.
        let Some(cursor) = cursor.filter(|raw| raw[..] != b"null"[..]) else { return Ok(Next::Done(self.list)) };
        let cursor = Bytes::copy_from_slice(&cursor);
        let limit = self.cursors.len() + 1 >= MAX_PAGES || self.list.items.len() >= MAX_ITEMS || self.read > MAX_READ;
        if limit || cursor.len() > MAX_CURSOR || !self.cursors.insert(cursor.clone()) {
            self.list.truncated = true;
            return Ok(Next::Done(self.list));
        }
        Ok(Next::Page(self, cursor))
    }

    /// The pages so far, marked as cut; `None` if there are none.
    #[must_use]
    pub fn partial(self) -> Option<List> {
        let has_pages = !self.cursors.is_empty();
        has_pages.then(|| List { truncated: true, ..self.list })
    }

    /// What is no object with a key (and, if it is a tool, a schema) is left out, and costs the others nothing. Passed on,
    /// it would cost an agent everything there is, since clients take a list as a whole or not at all.
    fn add(&mut self, definition: &[u8]) {
        if self.list.items.len() >= MAX_ITEMS || self.bytes + definition.len() > MAX_BYTES {
            self.list.truncated = true;
            return;
        }
        // Copied, so that what else stood in the message does not stay in memory with it.
        let definition = Bytes::copy_from_slice(definition);
        let Ok([Some(raw_key), schema]) = members(&definition, [self.kind.key(), "inputSchema"]) else { return };
        let is_tool = schema.is_some_and(|schema| schema.starts_with(b"{"));
        if self.kind == ListKind::Tools && !is_tool {
            return;
        }
        if raw_key.len() > MAX_KEY {
            self.list.truncated = true;
            return;
        }
        let Some(key) = text(&raw_key).and_then(|key| Some(std::str::from_utf8(&key).ok()?.into())) else { return };
        self.bytes += definition.len();
        // Counted here, since a list is read once, and catalogs are built of it again and again.
        let passed_on = if self.kind == ListKind::Tools { token_estimate::sent_bytes(&definition) } else { 0 };
        self.list.items.push(Item { key, raw_key, definition, passed_on });
    }
}

/// How often a changed list is asked for again: at once, but no more than [`Pace::BURST`] times within
/// [`Pace::WINDOW`], so that a server that announces a change at every list does not keep both busy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: VecDeque<Instant>,
}

impl Pace {
    const BURST: usize = 4;
    const WINDOW: Duration = Duration::from_secs(2);

    /// When the next list may begin; not in the future if it may at once.
    pub(super) fn allowed_at(&self) -> Option<Instant> {
        (self.begun.len() >= Self::BURST).then(|| self.begun.front().map(|first| *first + Self::WINDOW)).flatten()
    }

    /// A list begins now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun.push_back(now);
        while self.begun.len() > Self::BURST {
            self.begun.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(listing: Listing, result: &str) -> Option<Next> {
        listing.page(&Bytes::copy_from_slice(result.as_bytes())).ok()
    }

    fn done(listing: Listing, result: &str) -> (Vec<String>, bool) {
        let Some(Next::Done(list)) = page(listing, result) else { panic!("not done after {result}") };
        (list.items.iter().map(|tool| tool.key.to_string()).collect(), list.truncated)
    }

    /// The result of a list of tools of these names.
    fn tools(names: &[&str], rest: &str) -> String {
        let tool = |name: &&str| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#);
        format!(r#"{{"tools":[{}]{rest}}}"#, names.iter().map(tool).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn pages_are_joined_in_order_and_an_empty_cursor_counts() {
        let Some(Next::Page(listing, cursor)) =
            page(Listing::of(ListKind::Tools), &tools(&["a"], r#","nextCursor":"""#))
        else {
            panic!("no next page")
        };
        assert_eq!(&cursor[..], b"\"\"");
        assert_eq!(done(listing, &tools(&["b"], r#","nextCursor":null"#)), (vec!["a".into(), "b".into()], false));
    }

    #[test]
    fn a_cursor_that_comes_again_ends_the_list() {
        let first = page(Listing::of(ListKind::Tools), r#"{"tools":[],"nextCursor":"x"}"#);
        let Some(Next::Page(listing, _)) = first else { panic!("{first:?}") };
        assert_eq!(done(listing, &tools(&["a"], r#","nextCursor":"x""#)), (vec!["a".into()], true));
    }

    #[test]
    fn pages_before_a_malformed_one_are_listed() {
        let first = page(Listing::of(ListKind::Tools), &tools(&["a"], r#","nextCursor":"x""#));
        let Some(Next::Page(listing, _)) = first else { panic!("{first:?}") };
        let Err(listing) = listing.page(&Bytes::from_static(b"{}")) else { panic!("it is no page") };
        let partial = listing.partial().expect("one page");
        assert_eq!((partial.items.len(), partial.truncated), (1, true));
        assert!(Listing::of(ListKind::Tools).partial().is_none());
    }

    #[test]
    fn cursors_without_end_end_at_the_limit() {
        let mut listing = Listing::of(ListKind::Tools);
        for n in 0.. {
            match page(listing, &tools(&["t"], &format!(r#","nextCursor":{n}"#))) {
                Some(Next::Page(more, _)) => listing = more,
                Some(Next::Done(list)) => return assert!(list.truncated && list.items.len() == MAX_PAGES),
                None => panic!("page {n} refused"),
            }
        }
    }

    #[test]
    fn an_item_that_does_not_fit_is_left_out() {
        let huge = "x".repeat(MAX_BYTES);
        let all = format!(
            r#"{{"tools":[{{"name":"a","inputSchema":{{}}}},{{"name":"{huge}"}},{{"name":"b","inputSchema":{{}}}}]}}"#
        );
        assert_eq!(done(Listing::of(ListKind::Tools), &all), (vec!["a".into(), "b".into()], true));
    }

    #[test]
    fn pages_are_read_up_to_a_limit_even_without_valid_items() {
        let huge = "x".repeat(MAX_BYTES);
        let mut listing = Listing::of(ListKind::Tools);
        for n in 1.. {
            match page(listing, &tools(&[&huge], &format!(r#","nextCursor":{n}"#))) {
                Some(Next::Page(more, _)) => listing = more,
                Some(Next::Done(list)) => return assert!(list.items.is_empty() && n * MAX_BYTES >= MAX_READ),
                None => panic!("page {n} refused"),
            }
        }
    }

    #[test]
    fn the_first_lists_of_a_burst_begin_at_once_and_the_rest_are_spread() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        for _ in 0..Pace::BURST {
            assert!(pace.allowed_at().is_none());
            pace.begin(start);
        }
        assert_eq!(pace.allowed_at(), Some(start + Pace::WINDOW));
        pace.begin(start + Pace::WINDOW);
        assert_eq!(pace.allowed_at(), Some(start + Pace::WINDOW));
    }

    #[test]
    fn invalid_tools_are_left_out_and_invalid_lists_refused() {
        let odd = r#"{"tools":[1,{"name":2},{"x":1},{"name":"x"},{"name":"y","inputSchema":true},{"name":"a","inputSchema":{}},null]}"#;
        assert_eq!(done(Listing::of(ListKind::Tools), odd), (vec!["a".into()], false));
        for result in ["[]", "{}", r#"{"tools":{}}"#, "null"] {
            assert!(page(Listing::of(ListKind::Tools), result).is_none(), "{result}");
        }
    }
}
