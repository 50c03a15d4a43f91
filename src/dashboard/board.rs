//! What all open pages show. A page that opens gets everything, then differences. Pure: the caller has the clock.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::history::{History, POINTS, STEP_MS};
use super::sentences::Advice;
use crate::admin::CpuMeter;
use crate::admin::report::Report;
use crate::calls::report::CallReport;

/// Calls that a page shows when it opens.
const SHOWN_CALLS: usize = 300;
/// Calls that pages get at once. More are counted.
const MAX_CALLS: usize = 100;
/// Members that change all the time. Pages count times on by themselves, and get memory and processor time with the points.
const MOVING: [&str; 6] = ["uptime_ms", "checked_ms", "connected_ms", "retry_in_ms", "running_ms", "usage"];

/// A part of the report that is sent as a whole.
#[derive(Debug, Default)]
struct Part {
    latest: Value,
    /// Without [`MOVING`] members.
    compared: Value,
}

impl Part {
    /// Whether it differs from the former one.
    fn replace(&mut self, latest: Value) -> bool {
        let mut compared = latest.clone();
        remove_moving(&mut compared);
        self.latest = latest;
        let former = mem::replace(&mut self.compared, compared);
        former != self.compared
    }
}

fn remove_moving(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !MOVING.contains(&&**name));
            members.values_mut().for_each(remove_moving);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_moving),
        _ => {}
    }
}

/// An event for pages.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub(super) name: &'static str,
    pub(super) data: Value,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    /// `daemon`, `agents`, `running`, `profiles`, `configuration`, `notes` and `outage`.
    parts: BTreeMap<&'static str, Part>,
    order: Vec<String>,
    servers: BTreeMap<String, Part>,
    history: History,
    cpu: CpuMeter,
    calls: VecDeque<CallReport>,
    /// Calls that pages do not have yet: the last of `calls`.
    new_calls: usize,
    /// Calls that no page shows.
    skipped: u64,
}

impl Board {
    /// The daemon has answered. Returns what pages do not have yet.
    pub(super) fn report(&mut self, report: &Report, advice: &Advice, now: i64) -> Option<Event> {
        let Value::Object(mut whole) = value(report) else { return None };
        let servers = whole.remove("servers");
        let mut changes = Map::new();
        for (name, latest) in [
            ("agents", whole.remove("agents").unwrap_or_default()),
            ("running", whole.remove("running_calls").unwrap_or_else(|| json!([]))),
            ("profiles", whole.remove("profiles").unwrap_or_default()),
            ("configuration", value(&advice.configuration)),
            ("notes", value(&advice.notes)),
            ("outage", Value::Null),
            ("daemon", whole.into()),
        ] {
            self.change(name, latest, &mut changes);
        }
        let mut changed = Map::new();
        let Some(Value::Array(servers)) = servers else { return None };
        let is_measured = self.cpu.update(now, report);
        for (report, latest) in report.servers.iter().zip(servers) {
            let name = &report.name;
            if let (true, Some(usage)) = (is_measured, report.usage) {
                self.history.usage(name, now, usage.memory_bytes, self.cpu.of_server(report));
            }
            let latest = json!({"report": latest, "advice": advice.servers.get(name)});
            let part = self.servers.entry(name.clone()).or_default();
            if part.replace(latest) {
                changed.insert(name.clone(), part.latest.clone());
            }
        }
        let order: Vec<_> = report.servers.iter().map(|server| server.name.clone()).collect();
        if order != self.order {
            self.history.retain(order.iter().map(String::as_str));
            self.servers.retain(|name, _| order.contains(name));
            changes.insert("order".to_owned(), value(&order));
            self.order = order;
        }
        if !changed.is_empty() {
            changes.insert("servers".to_owned(), changed.into());
        }
        (!changes.is_empty()).then(|| Event { name: "change", data: changes.into() })
    }

    /// The daemon does not answer.
    pub(super) fn outage(&mut self, reason: &str) -> Option<Event> {
        let mut changes = Map::new();
        self.change("outage", reason.into(), &mut changes);
        (!changes.is_empty()).then(|| Event { name: "change", data: changes.into() })
    }

    fn change(&mut self, name: &'static str, latest: Value, changes: &mut Map<String, Value>) {
        let part = self.parts.entry(name).or_default();
        if part.replace(latest) {
            changes.insert(name.to_owned(), part.latest.clone());
        }
    }

    pub(super) fn call(&mut self, call: CallReport, now: i64) {
        let ago = call.ended_ago().map_or(0, |ago| i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
        if let Some(server) = &call.server {
            let is_error = !matches!(&*call.outcome, "ok" | "cancelled");
            self.history.call(server, now.saturating_sub(ago), now, call.duration_ms, is_error);
        }
        self.calls.push_back(call);
        self.new_calls += 1;
        if self.calls.len() > SHOWN_CALLS {
            self.calls.pop_front();
        }
    }

    pub(super) fn missed(&mut self, count: u64) {
        self.skipped += count;
    }

    /// New calls and points, which pages get some times in a second.
    pub(super) fn news(&mut self) -> Vec<Event> {
        let new = mem::take(&mut self.new_calls);
        let sent = new.min(MAX_CALLS).min(self.calls.len());
        let skipped = mem::take(&mut self.skipped) + (new - sent) as u64;
        let calls = self.calls.iter().skip(self.calls.len() - sent).map(value).collect::<Vec<_>>();
        let calls = (new > 0 || skipped > 0).then(|| json!({"calls": calls, "skipped": skipped}));
        let calls = calls.map(|data| Event { name: "calls", data });
        let points = self.history.changed().map(|data| Event { name: "points", data });
        calls.into_iter().chain(points).collect()
    }

    /// Everything, for a page that opens.
    pub(super) fn everything(&self, now: i64) -> Event {
        let mut all: Map<_, _> =
            self.parts.iter().map(|(name, part)| ((*name).to_owned(), part.latest.clone())).collect();
        let servers: Map<_, _> = self.servers.iter().map(|(name, part)| (name.clone(), part.latest.clone())).collect();
        for (name, value) in [
            ("order", value(&self.order)),
            ("servers", servers.into()),
            ("points", self.history.all()),
            // New ones follow for all pages.
            ("calls", self.calls.iter().take(self.calls.len().saturating_sub(self.new_calls)).map(value).collect()),
            ("now", now.into()),
            ("step_ms", STEP_MS.into()),
            ("steps", POINTS.into()),
        ] {
            all.insert(name.to_owned(), value);
        }
        Event { name: "everything", data: all.into() }
    }
}

fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::sentences::ServerAdvice;
    use super::*;

    fn report(servers: &Value) -> Report {
        let report = json!({"version": "1", "pid": 1, "uptime_ms": 1, "settled": true, "servers": servers, "agents": [], "profiles": []});
        serde_json::from_value(report).expect("a report")
    }

    fn server(name: &str, state: &str, uptime_ms: u64) -> Value {
        json!({
            "name": name, "state": state, "uptime_ms": uptime_ms, "tools_exposed": 0, "tools_denied": 0, "calls": 0, "in_flight": 0,
            "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0
        })
    }

    #[test]
    fn pages_get_only_what_has_changed() {
        let mut board = Board::default();
        let (a, b) = (server("a", "ready", 5), server("b", "ready", 5));
        let first = board.report(&report(&json!([a, b])), &Advice::default(), 0).expect("everything is new");
        assert_eq!(first.data["order"], json!(["a", "b"]));
        assert_eq!(first.data["daemon"]["version"], "1");

        let later = [server("a", "ready", 6), server("b", "ready", 6)];
        assert_eq!(board.report(&report(&later.into()), &Advice::default(), 0), None, "times go on by themselves");
        assert_eq!(board.everything(0).data["servers"]["a"]["report"]["uptime_ms"], 6);

        let down = ServerAdvice { failures: vec!["it is down".to_owned()], ..ServerAdvice::default() };
        let advice = Advice { servers: [("b".to_owned(), down)].into(), ..Advice::default() };
        let changed = board.report(&report(&json!([server("a", "ready", 7), server("b", "backoff", 0)])), &advice, 0);
        let changed = changed.expect("b is down").data;
        assert_eq!(changed.as_object().expect("an object").keys().collect::<Vec<_>>(), ["servers"]);
        assert_eq!(changed["servers"]["b"]["report"]["state"], "backoff");
        assert_eq!(changed["servers"]["b"]["advice"]["failures"], json!(["it is down"]));
        assert_eq!(changed["servers"].get("a"), None);

        let left = board.report(&report(&json!([server("a", "ready", 8)])), &Advice::default(), 0).expect("b is gone");
        assert_eq!(left.data, json!({"order": ["a"]}));
    }

    #[test]
    fn outage_is_shown_until_the_daemon_answers() {
        let mut board = Board::default();
        board.report(&report(&json!([])), &Advice::default(), 0);
        assert_eq!(board.outage("not running").expect("new").data, json!({"outage": "not running"}));
        assert_eq!(board.outage("not running"), None);
        let back = board.report(&report(&json!([])), &Advice::default(), 0);
        assert_eq!(back.expect("it is back").data, json!({"outage": null}));
    }

    #[test]
    fn calls_beyond_a_limit_are_counted() {
        let mut board = Board::default();
        let call: CallReport = serde_json::from_value(json!({
            "time": "", "session": 1, "uid": 0, "profile": "default", "server": "a", "tool": "t", "outcome": "ok", "duration_ms": 1.0,
            "request_bytes": 1, "reply_bytes": 1
        }))
        .expect("a call");
        (0..1000).for_each(|_| board.call(call.clone(), 0));
        assert_eq!(board.everything(0).data["calls"], json!([]), "they follow");
        board.missed(7);
        let news = board.news();
        assert_eq!((news[0].name, news[1].name), ("calls", "points"));
        assert_eq!(news[0].data["calls"].as_array().map(Vec::len), Some(MAX_CALLS));
        assert_eq!(news[0].data["skipped"], 1000 + 7 - MAX_CALLS);
        assert_eq!(news[1].data["a"][0][1], 1000);
        assert_eq!(board.news(), []);
        assert_eq!(board.everything(0).data["calls"].as_array().map(Vec::len), Some(SHOWN_CALLS));
    }
}
