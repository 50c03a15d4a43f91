//! Reads the pages of a list to the end, or up to a limit. Pure.
//!
//! A server may send endless pages, or the same cursor again ([`Pager`]). The list then ends at the limit and is marked as truncated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::catalog::{CacheHint, Item, List, sent_bytes};
use crate::config::Malformed;
use crate::jsonrpc::members::{members, text};
use crate::list_kind::ListKind;
use crate::pins::Fingerprint;
use crate::printable::excerpt;
use crate::validity::{Action, Problem, Reason, Unlisted, Validity};

/// Maximum pages of one list.
const MAX_PAGES: usize = 500;
/// Maximum items of one list.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// Maximum bytes of all definitions of one list: more than any model reads, and less than one message. A definition that does not
/// fit is left out.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Maximum bytes of one list as received, with the definitions that are left out.
const MAX_READ: usize = 8 * MAX_BYTES;
/// Maximum length of a name or URI, in bytes. Policy decides which of the remaining names can be exposed, and reports the others.
const MAX_KEY: usize = 8 << 10;
/// Maximum number of definitions without a usable key that are reported.
const MAX_UNLISTED: usize = 100;
/// Maximum number of characters of a key that is too long in a report.
const MAX_SHOWN_KEY: usize = 100;
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
    pager: Pager,
    /// Whether definitions are judged, and so mended or left out.
    judges: bool,
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
    /// A list without pages. With [`Malformed::Pass`], its definitions pass as they are.
    #[must_use]
    pub fn of(kind: ListKind, malformed: Malformed) -> Self {
        let judges = malformed == Malformed::Mend;
        Self { kind, list: List::default(), bytes: 0, read: 0, pager: Pager::default(), judges }
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
        // Some languages write an empty list as null.
        let Ok(definitions) = serde_json::from_slice::<Option<Vec<&RawValue>>>(&items) else { return Err(self) };
        let hint = CacheHint::read(result);
        self.list.cache_hint =
            if self.pager.is_at_first() { hint } else { hint.zip(self.list.cache_hint).map(|(a, b)| a.and(b)) };
        for definition in definitions.into_iter().flatten() {
            self.add(definition.get().as_bytes());
        }
        self.read += result.len();
        let is_full = self.list.items.len() >= MAX_ITEMS || self.read > MAX_READ;
        Ok(match self.pager.next(cursor) {
            NextPage::At(cursor) if !is_full => Next::Page(self, cursor),
            NextPage::End => Next::Done(self.list),
            NextPage::At(_) | NextPage::LeftOut => Next::Done(List { truncated: true, ..self.list }),
        })
    }

    /// The pages read so far, marked as truncated; `None` if there are none.
    #[must_use]
    pub fn partial(self) -> Option<List> {
        let has_pages = !self.pager.is_at_first();
        has_pages.then(|| List { truncated: true, ..self.list })
    }

    /// Adds one definition. One without a usable key cannot be listed. Other defects are mended or left out by catalogs.
    fn add(&mut self, definition: &[u8]) {
        if self.list.items.len() >= MAX_ITEMS || self.bytes + definition.len() > MAX_BYTES {
            self.list.truncated = true;
            return;
        }
        // Copied, so that it does not keep the whole message in memory.
        let json = Bytes::copy_from_slice(definition);
        let key_name = self.kind.key();
        let Ok([raw_key]) = members(&json, [key_name]) else {
            let is_object = json.starts_with(b"{");
            let problem = if is_object { Problem::Duplicate } else { Problem::Not("an object") };
            return self.leave_out(if is_object { key_name } else { "" }, None, problem);
        };
        let Some(raw_key) = raw_key else { return self.leave_out(key_name, None, Problem::Missing) };
        if raw_key.len() > MAX_KEY {
            let start = text(&raw_key).map(|key| excerpt(&String::from_utf8_lossy(&key), MAX_SHOWN_KEY).into());
            return self.leave_out(key_name, start, Problem::TooLong);
        }
        let Some(key) = text(&raw_key).and_then(|key| Some(std::str::from_utf8(&key).ok()?.into())) else {
            let problem = if raw_key[..] == *b"null" { Problem::Null } else { Problem::Not("a text") };
            return self.leave_out(key_name, None, problem);
        };
        let validity = if self.judges { Validity::of_item(self.kind, &json) } else { Validity::default() };
        self.bytes += json.len();
        // Counted here, as a list is read once, but catalogs are built from it many times.
        let model_bytes = if self.kind == ListKind::Tools { sent_bytes(&json) } else { 0 };
        let fingerprint = Fingerprint::default();
        self.list.items.push(Item { key, raw_key, json, model_bytes, validity, fingerprint });
    }

    fn leave_out(&mut self, path: &str, key: Option<Arc<str>>, problem: Problem) {
        if self.list.unlisted.len() < MAX_UNLISTED {
            let reason = Reason { path: path.into(), problem, action: Action::LeftOut, is_legacy_only: false };
            self.list.unlisted.push(Unlisted { key, reason });
        }
    }
}

/// Follows the cursors of one list.
#[derive(Debug, Default)]
pub(crate) struct Pager {
    /// At most [`MAX_PAGES`].
    cursors: Vec<Bytes>,
}

/// What comes after a page.
pub(crate) enum NextPage {
    /// The page at this cursor, which is raw JSON.
    At(Bytes),
    /// Nothing.
    End,
    /// Pages that are not read.
    LeftOut,
}

impl Pager {
    /// Whether no page but the first was requested.
    pub(crate) fn is_at_first(&self) -> bool {
        self.cursors.is_empty()
    }

    /// What comes after a page with this raw `nextCursor`.
    pub(crate) fn next(&mut self, cursor: Option<Bytes>) -> NextPage {
        // An empty string is a valid cursor (MCP, `server/utilities/pagination`); null means the end.
        let Some(cursor) = cursor.filter(|raw| raw[..] != b"null"[..]) else { return NextPage::End };
        let is_last = self.cursors.len() + 1 >= MAX_PAGES;
        if is_last || cursor.len() > MAX_CURSOR || self.cursors.contains(&cursor) {
            return NextPage::LeftOut;
        }
        let cursor = Bytes::copy_from_slice(&cursor);
        self.cursors.push(cursor.clone());
        NextPage::At(cursor)
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

    fn tools_listing() -> Listing {
        Listing::of(ListKind::Tools, Malformed::Mend)
    }

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
        let Some(Next::Page(listing, cursor)) = page(tools_listing(), &tools(&["a"], r#","nextCursor":"""#)) else {
            panic!("no next page")
        };
        assert_eq!(&cursor[..], b"\"\"");
        assert_eq!(done(listing, &tools(&["b"], r#","nextCursor":null"#)), (vec!["a".into(), "b".into()], false));
    }

    #[test]
    fn a_cursor_that_comes_again_ends_the_list() {
        let first = page(tools_listing(), r#"{"tools":[],"nextCursor":"x"}"#);
        let Some(Next::Page(listing, _)) = first else { panic!("{first:?}") };
        assert_eq!(done(listing, &tools(&["a"], r#","nextCursor":"x""#)), (vec!["a".into()], true));
    }

    #[test]
    fn pages_before_a_malformed_one_are_listed() {
        let first = page(tools_listing(), &tools(&["a"], r#","nextCursor":"x""#));
        let Some(Next::Page(listing, _)) = first else { panic!("{first:?}") };
        let Err(listing) = listing.page(&Bytes::from_static(b"{}")) else { panic!("it is no page") };
        let partial = listing.partial().expect("one page");
        assert_eq!((partial.items.len(), partial.truncated), (1, true));
        assert!(tools_listing().partial().is_none());
    }

    #[test]
    fn cursors_without_end_end_at_the_limit() {
        let mut listing = tools_listing();
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
        assert_eq!(done(tools_listing(), &all), (vec!["a".into(), "b".into()], true));
    }

    #[test]
    fn pages_are_read_up_to_a_limit_even_without_valid_items() {
        let huge = "x".repeat(MAX_BYTES);
        let mut listing = tools_listing();
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
    fn items_without_a_key_are_named_and_invalid_lists_refused() {
        let odd =
            r#"{"tools":[1,{"name":2},{"x":1},{"name":null},{"name":"x","name":"x"},{"name":"a","inputSchema":{}}]}"#;
        let Some(Next::Done(list)) = page(tools_listing(), odd) else { panic!("not done") };
        let unlisted: Vec<_> = list.unlisted.iter().map(|one| (&*one.reason.path, one.reason.problem)).collect();
        let name = |problem| ("name", problem);
        let expected = [Problem::Not("a text"), Problem::Missing, Problem::Null, Problem::Duplicate].map(name);
        assert_eq!(unlisted[0], ("", Problem::Not("an object")));
        assert_eq!((&unlisted[1..], list.items.len()), (&expected[..], 1));
        assert_eq!(done(tools_listing(), r#"{"tools":null}"#), (vec![], false));
        for result in ["[]", "{}", r#"{"tools":{}}"#, "null"] {
            assert!(page(tools_listing(), result).is_none(), "{result}");
        }
    }
}
