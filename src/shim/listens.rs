//! What the agent listens to, which goes on with the next daemon. Pure.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`: a request that stays open, whose id is in every notification that it
//! brings. A client sends it again after a connection has ended; behind the shim no connection ends for the agent.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::asking::own;
use crate::era::meta;
use crate::jsonrpc::members::members;
use crate::list_kind::ListKind;

/// Most requests that are kept; one more ends with its daemon, as all others do.
const MOST: usize = 256;
/// Most bytes of them, likewise.
const BYTES: usize = 1 << 20;
/// For so long an end is kept back: a daemon that ends says so to each, and is gone within that time.
const GRACE: Duration = Duration::from_secs(10);

/// Those of one agent, in order.
#[derive(Debug, Default)]
pub(super) struct Listens(Vec<Listen>);

#[derive(Debug)]
struct Listen {
    /// Raw.
    id: Bytes,
    line: Bytes,
    /// What was acknowledged, raw.
    granted: Option<Bytes>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A daemon was asked, and has said nothing. It may have waited for this daemon since then.
    Asked(Option<Instant>),
    /// The agent was told that it is in force.
    Open,
    /// The same, of a daemon that is there no more.
    Lapsed,
    /// The daemon has ended it with this line, most likely because it ends itself.
    Ended { line: Bytes, at: Instant },
}

/// A request that was not acknowledged by the daemon that has gone.
#[derive(Debug)]
pub(super) struct Unheard {
    pub(super) id: Bytes,
    pub(super) line: Bytes,
    /// Since when it had waited for that one, if it had.
    pub(super) waited_since: Option<Instant>,
}

/// What an acknowledgement is to the agent.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// News.
    First,
    /// It knows: all that is new is what it may have missed, which these lines say.
    Again(Vec<Bytes>),
    /// The same, of something else than before, which is news.
    Differently(Vec<Bytes>),
}

impl Listens {
    /// Whether this one could be kept, too.
    pub(super) fn has_room(&self, line: &Bytes) -> bool {
        let bytes: usize = self.0.iter().map(|listen| listen.line.len()).sum();
        self.0.len() < MOST && bytes + line.len() <= BYTES
    }

    /// The request `line` with this raw id was queued for the daemon.
    pub(super) fn push(&mut self, id: Bytes, line: &Bytes, waited_since: Option<Instant>) {
        self.0.push(Listen { id, line: own(line), granted: None, stage: Stage::Asked(waited_since) });
    }

    /// The daemon acknowledges one, with these params.
    pub(super) fn acknowledged(&mut self, params: Option<&Bytes>) -> Heard {
        let told = params.and_then(|params| members(params, ["_meta", "notifications"]).ok());
        let Some([Some(meta), granted]) = told else { return Heard::First };
        let Ok([Some(id)]) = members(&meta, [meta::SUBSCRIPTION]) else { return Heard::First };
        let Some(listen) = self.0.iter_mut().find(|listen| listen.id == id) else { return Heard::First };
        let granted = granted.as_ref().map(own);
        let is_lapsed = matches!(std::mem::replace(&mut listen.stage, Stage::Open), Stage::Lapsed);
        let before = std::mem::replace(&mut listen.granted, granted.clone());
        let missed = || granted.as_ref().map_or_else(Vec::new, |granted| missed(granted, &id));
        match (is_lapsed, before == granted) {
            (false, _) => Heard::First,
            (true, true) => Heard::Again(missed()),
            (true, false) => Heard::Differently(missed()),
        }
    }

    /// The daemon has answered this request, which ends it. Whether the agent is to hear of that now: not if it may go on with
    /// another daemon.
    pub(super) fn answered(&mut self, id: &Bytes, is_failure: bool, line: &Bytes, now: Instant) -> bool {
        let Some(listen) = self.0.iter_mut().find(|listen| listen.id == *id) else { return true };
        if is_failure || matches!(listen.stage, Stage::Asked(_)) {
            self.cancel(id);
            return true;
        }
        listen.stage = Stage::Ended { line: line.clone(), at: now };
        false
    }

    /// The agent does not want this one any more.
    pub(super) fn cancel(&mut self, id: &Bytes) {
        self.0.retain(|listen| listen.id != *id);
    }

    /// The daemon has gone: what is to be asked as if for the first time. The rest is kept until there is another one.
    pub(super) fn lapse(&mut self) -> Vec<Unheard> {
        let mut unheard = Vec::new();
        for Listen { id, line, granted, stage } in std::mem::take(&mut self.0) {
            match stage {
                Stage::Asked(waited_since) => unheard.push(Unheard { id, line, waited_since }),
                Stage::Open | Stage::Lapsed | Stage::Ended { .. } => {
                    self.0.push(Listen { id, line, granted, stage: Stage::Lapsed });
                }
            }
        }
        unheard
    }

    /// What the next daemon is to be asked.
    pub(super) fn lapsed(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().filter(|listen| matches!(listen.stage, Stage::Lapsed)).map(|listen| &listen.line)
    }

    /// All of them end: their ids.
    pub(super) fn end(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|listen| listen.id)
    }

    /// When [`Listens::overdue`] has something.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().filter_map(|listen| listen.ended().map(|at| at + GRACE)).min()
    }

    /// The ends of those whose daemon has not gone after all.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Bytes> {
        let is_over = |listen: &mut Listen| listen.ended().is_some_and(|at| at + GRACE <= now);
        let over = self.0.extract_if(.., is_over);
        over.filter_map(|listen| if let Stage::Ended { line, .. } = listen.stage { Some(line) } else { None }).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Listen {
    fn ended(&self) -> Option<Instant> {
        if let Stage::Ended { at, .. } = self.stage { Some(at) } else { None }
    }
}

/// What says that everything may have changed that is listened to by this filter, to the request with this raw id.
fn missed(granted: &Bytes, id: &[u8]) -> Vec<Bytes> {
    let wanted = ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"];
    let Ok([tools, prompts, resources, uris]) = members(granted, wanted) else { return Vec::new() };
    let lists = [(tools, ListKind::Tools), (prompts, ListKind::Prompts), (resources, ListKind::Resources)];
    let lists = lists.into_iter().filter(|(wanted, _)| wanted.as_deref() == Some(b"true"));
    let mut told: Vec<_> = lists.map(|(_, kind)| notification(kind.change_notification(), id, b"")).collect();
    let uris = uris.unwrap_or_default();
    let uris: Vec<&RawValue> = serde_json::from_slice(&uris).unwrap_or_default();
    told.extend(uris.iter().map(|uri| {
        let uri = [b",\"uri\":", uri.get().as_bytes()].concat();
        notification("notifications/resources/updated", id, &uri)
    }));
    told
}

/// A notification to the request with this raw id. `more` are members of its params, raw, with a comma before them.
fn notification(method: &str, id: &[u8], more: &[u8]) -> Bytes {
    let head =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"_meta\":{{\"{}\":", meta::SUBSCRIPTION);
    [head.as_bytes(), id, b"}", more, b"}}\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn params(id: &str, granted: &str) -> Bytes {
        bytes(&format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{granted}}}"#))
    }

    fn listens(ids: &[&str]) -> Listens {
        let mut listens = Listens::default();
        for id in ids {
            listens.push(bytes(id), &bytes(&format!("listen {id}\n")), None);
        }
        listens
    }

    /// The same, of which the agent was told this and the daemon knows nothing any more.
    fn lapsed(ids: &[&str], granted: &str) -> Listens {
        let mut listens = listens(ids);
        for id in ids {
            assert_eq!(listens.acknowledged(Some(&params(id, granted))), Heard::First, "{id}");
        }
        assert_eq!(listens.lapse().len(), 0);
        listens
    }

    #[test]
    fn what_was_acknowledged_is_asked_for_again_and_what_was_not_as_if_for_the_first_time() {
        let now = Instant::now();
        let mut listens = listens(&["1", "\"1\""]);
        listens.push(bytes("3"), &bytes("listen 3\n"), Some(now));
        assert_eq!(listens.acknowledged(Some(&params("\"1\"", "{}"))), Heard::First);
        let unheard: Vec<_> = listens.lapse().into_iter().map(|unheard| (unheard.id, unheard.waited_since)).collect();
        assert_eq!(unheard, [(bytes("1"), None), (bytes("3"), Some(now))]);
        assert_eq!(listens.lapsed().collect::<Vec<_>>(), ["listen \"1\"\n"]);
    }

    #[test]
    fn the_second_acknowledgement_tells_of_what_may_have_been_missed() {
        let told = |method: &str, uri: &str| {
            let meta = "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"a\"}";
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{meta}{uri}}}}}\n")
        };
        for (granted, expected) in [
            ("{}", vec![]),
            ("7", vec![]),
            (r#"{"toolsListChanged":true,"promptsListChanged":false}"#, vec![told("tools/list_changed", "")]),
            (
                r#"{"resourceSubscriptions":["a:\/","b:"],"resourcesListChanged":true,"promptsListChanged":true}"#,
                vec![
                    told("prompts/list_changed", ""),
                    told("resources/list_changed", ""),
                    told("resources/updated", r#","uri":"a:\/""#),
                    told("resources/updated", r#","uri":"b:""#),
                ],
            ),
        ] {
            let mut listens = lapsed(&["\"a\""], granted);
            let expected: Vec<_> = expected.into_iter().map(Bytes::from).collect();
            let again = listens.acknowledged(Some(&params("\"a\"", granted)));
            assert_eq!(again, Heard::Again(expected.clone()), "{granted}");
            let other = lapsed(&["\"a\""], "[]").acknowledged(Some(&params("\"a\"", granted)));
            assert_eq!(other, Heard::Differently(expected), "{granted}");
            assert_eq!(listens.acknowledged(Some(&params("\"a\"", granted))), Heard::First, "it is open");
            assert_eq!(listens.lapsed().count(), 0);
        }
        assert_eq!(lapsed(&["1"], "{}").acknowledged(Some(&params("2", "{}"))), Heard::First);
        assert_eq!(lapsed(&["1"], "{}").acknowledged(None), Heard::First);
    }

    #[test]
    fn an_end_is_news_only_if_the_daemon_stays() {
        let (now, end) = (Instant::now(), bytes("end\n"));
        let mut listens = lapsed(&["1", "2", "3"], "{}");
        for id in ["1", "2"] {
            assert!(!listens.answered(&bytes(id), false, &end, now));
        }
        assert!(listens.answered(&bytes("3"), true, &end, now), "it is refused");
        assert!(listens.answered(&bytes("4"), false, &end, now), "it is another request");
        listens.cancel(&bytes("2"));
        assert_eq!((listens.due(), listens.len()), (Some(now + GRACE), 1));
        assert_eq!(listens.overdue(now), Vec::<Bytes>::new());
        listens.lapse();
        assert_eq!((listens.due(), listens.lapsed().count()), (None, 1));
        assert!(!listens.answered(&bytes("1"), false, &end, now));
        assert_eq!((listens.overdue(now + GRACE), listens.len()), (vec![end.clone()], 0));
        let mut unheard = super::tests::listens(&["1"]);
        assert!(unheard.answered(&bytes("1"), false, &end, now), "the agent knows of no subscription");
        assert_eq!(unheard.len(), 0);
    }

    #[test]
    fn there_is_room_for_so_many_and_so_large_ones() {
        let mut full = Listens::default();
        for id in 0..MOST {
            assert!(full.has_room(&bytes("x")));
            full.push(Bytes::from(id.to_string()), &bytes("x"), None);
        }
        assert!(!full.has_room(&bytes("x")));
        let large = Bytes::from(vec![b'x'; BYTES]);
        assert!(Listens::default().has_room(&large));
        let mut one = listens(&["1"]);
        assert!(!one.has_room(&large));
        one.cancel(&bytes("1"));
        assert!(one.has_room(&large));
        assert_eq!(listens(&["1", "2"]).end().count(), 2);
    }
}
