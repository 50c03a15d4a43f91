//! Reads the pages of a list to the end, or up to a limit. Pure.
//!
//! A server may send endless pages, or the same cursor again. The list then ends at the limit and is marked as truncated.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::catalog::{CacheHint, Item, List};
use crate::jsonrpc::members::{members, text};
use crate::list_kind::ListKind;
use crate::token_estimate;

/// Maximum pages of one list.
const MAX_PAGES: usize = 500;
/// Maximum items of one list.
const MAX_ITEMS: usize = 10_000;
/// Maximum bytes of all definitions of one list: more than any model reads, and less than one message. A definition that does not
/// fit is left out.
const MAX_BYTES: usize = 8 << 20;
/// Maximum bytes of one list as received, with the definitions that are left out.
const MAX_READ: usize = 8 * MAX_BYTES;
/// Maximum length of a name or URI, in bytes. Policy decides which of the remaining names can be exposed, and reports the others.
const MAX_KEY: usize = 8 << 10;
/// Maximum length of a cursor, in bytes.
const MAX_CURSOR: usize = 4 << 10;

/// A list that is being read.
#[derive(Debug)]
pub struct Listing {
    kind: ListKind,
    list: List,
    /// Bytes of the definitions in `list`.
    bytes: usize,
    /// Bytes of all pages.
    read: usize,
    cursors: HashSet<Bytes>,
}

/// What to do after a page.
#[derive(Debug)]
pub enum Next {
    /// Request the page at this cursor, which is raw JSON.
    Page(Listing, Bytes),
    /// The list is complete, or truncated.
    Done(List),
}

impl Listing {
    /// A list without pages.
    #[must_use]
    pub fn of(kind: ListKind) -> Self {
        Self { kind, list: List::default(), bytes: 0, read: 0, cursors: HashSet::new() }
    }

    /// The kind of the items.
    #[must_use]
    pub fn kind(&self) -> ListKind {
        self.kind
    }

    /// Adds the raw result of one request.
    ///
    /// # Errors
    /// The unchanged list, if `result` is not valid for its method.
    pub fn page(mut self, result: &Bytes) -> Result<Next, Self> {
        let Ok([Some(items), cursor]) = members(result, [self.kind.member(), "nextCursor"]) else { return Err(self) };
        let Ok(definitions) = serde_json::from_slice::<Vec<&RawValue>>(&items) else { return Err(self) };
        let hint = CacheHint::read(result);
        self.list.cache_hint =
            if self.cursors.is_empty() { hint } else { hint.zip(self.list.cache_hint).map(|(a, b)| a.and(b)) };
        for definition in definitions {
            self.add(definition.get().as_bytes());
        }
        self.read += result.len();
        // An empty string is a valid cursor (MCP, `server/utilities/pagination`); null means the end.
        let Some(cursor) = cursor.filter(|raw| raw[..] != b"null"[..]) else { return Ok(Next::Done(self.list)) };
        let cursor = Bytes::copy_from_slice(&cursor);
        let limit = self.cursors.len() + 1 >= MAX_PAGES || self.list.items.len() >= MAX_ITEMS || self.read > MAX_READ;
        if limit || cursor.len() > MAX_CURSOR || !self.cursors.insert(cursor.clone()) {
            self.list.truncated = true;
            return Ok(Next::Done(self.list));
        }
        Ok(Next::Page(self, cursor))
    }

    /// The pages read so far, marked as truncated; `None` if there are none.
    #[must_use]
    pub fn partial(self) -> Option<List> {
        let has_pages = !self.cursors.is_empty();
        has_pages.then(|| List { truncated: true, ..self.list })
    }

    /// Adds one definition. Leaves out invalid ones: those without a key, and tools without a schema. Clients reject a whole list
    /// because of one invalid item.
    fn add(&mut self, definition: &[u8]) {
        if self.list.items.len() >= MAX_ITEMS || self.bytes + definition.len() > MAX_BYTES {
            self.list.truncated = true;
            return;
        }
        // Copied, so that it does not keep the whole message in memory.
        let json = Bytes::copy_from_slice(definition);
        let Ok([Some(raw_key), schema]) = members(&json, [self.kind.key(), "inputSchema"]) else { return };
        let is_tool = schema.is_some_and(|schema| schema.starts_with(b"{"));
        if self.kind == ListKind::Tools && !is_tool {
            return;
        }
        if raw_key.len() > MAX_KEY {
            self.list.truncated = true;
            return;
        }
        let Some(key) = text(&raw_key).and_then(|key| Some(std::str::from_utf8(&key).ok()?.into())) else { return };
        self.bytes += json.len();
        // Counted here, as a list is read once, but catalogs are built from it many times.
        let model_bytes = if self.kind == ListKind::Tools { token_estimate::sent_bytes(&json) } else { 0 };
        self.list.items.push(Item { key, raw_key, json, model_bytes });
    }
}

/// Limits how often a changed list is requested: at most [`Pace::BURST`] times within [`Pace::WINDOW`]. So a server that
/// announces a change after every list does not keep mcpd and itself busy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: VecDeque<Instant>,
}

impl Pace {
    const BURST: usize = 4;
    const WINDOW: Duration = Duration::from_secs(2);

    /// The earliest time for the next list; `None` or a past time if it may start now.
    pub(super) fn allowed_at(&self) -> Option<Instant> {
        (self.begun.len() >= Self::BURST).then(|| self.begun.front().map(|first| *first + Self::WINDOW)).flatten()
    }

    /// Records the start of a list.
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
