//! Calls that have ended lately, and what they come to. Pure: the time is told, in milliseconds on any clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::calls::report::CallReport;

/// Calls that are kept. When there are more the oldest goes, and what is told covers less.
const MOST: usize = 100_000;

/// What is kept of a call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// When it ended.
    pub(super) at: i64,
    pub(super) took_us: u64,
    /// Absent if there was no such tool.
    pub(super) server: Option<Rc<str>>,
    pub(super) tool: Rc<str>,
    pub(super) client: Option<Rc<str>>,
    pub(super) outcome: Rc<str>,
    /// Of request and reply.
    pub(super) bytes: u64,
}

impl Call {
    /// Whether it came to nothing, other than because the agent did not want it any more.
    pub(super) fn is_error(&self) -> bool {
        !matches!(&*self.outcome, "ok" | "cancelled")
    }
}

/// Calls in the order in which they were told.
#[derive(Debug, Default)]
pub(super) struct Window {
    calls: VecDeque<Call>,
    /// Each name is kept once.
    names: HashSet<Rc<str>>,
    /// All calls that ended after this are known, but for those that were missed.
    since: i64,
    /// Calls that were not told because they came too fast.
    pub(super) missed: u64,
}

/// What some calls come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) calls: usize,
    pub(super) errors: usize,
    pub(super) bytes: u64,
    /// How long half of them took at most, 95 and 99 of a hundred, in microseconds.
    pub(super) p50: Option<u64>,
    pub(super) p95: Option<u64>,
    pub(super) p99: Option<u64>,
}

impl Window {
    /// Nothing is known of what ended before `since`.
    pub(super) fn new(since: i64) -> Self {
        Self { since, ..Self::default() }
    }

    /// Nothing is known of what ended before its oldest call.
    pub(super) fn is_cut(&mut self) {
        self.since = self.calls.iter().map(|call| call.at).min().unwrap_or(self.since);
    }

    pub(super) fn add(&mut self, at: i64, report: &CallReport) {
        let call = Call {
            at,
            // Longer than half a million years is as good as that.
            took_us: std::time::Duration::try_from_secs_f64(report.duration_ms / 1e3)
                .map_or(u64::MAX, |took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            server: report.server.as_deref().map(|name| self.kept(name)),
            tool: self.kept(&report.tool),
            client: report.client.as_deref().map(|name| self.kept(name)),
            outcome: self.kept(&report.outcome),
            bytes: (report.request_bytes + report.reply_bytes) as u64,
        };
        self.calls.push_back(call);
        if self.calls.len() > MOST {
            self.since = self.calls.pop_front().map_or(self.since, |oldest| self.since.max(oldest.at));
        }
    }

    /// The name as it is kept. Names of no call any more go when there are many.
    fn kept(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.get(name) {
            return Rc::clone(known);
        }
        if self.names.len() > 2 * MOST {
            self.names.retain(|name| Rc::strong_count(name) > 1);
        }
        let name: Rc<str> = name.into();
        self.names.insert(Rc::clone(&name));
        name
    }

    /// From when on the calls since `from` are known.
    pub(super) fn covered(&self, from: i64) -> i64 {
        self.since.max(from)
    }

    /// Those that ended at `from` or later.
    pub(super) fn calls(&self, from: i64) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.at >= from)
    }

    /// The slowest of them first.
    pub(super) fn slowest(&self, from: i64, count: usize) -> Vec<&Call> {
        let mut calls: Vec<_> = self.calls(from).collect();
        let slower = |call: &&Call| (Reverse(call.took_us), Reverse(call.at));
        if calls.len() > count {
            // Most are never sorted.
            calls.select_nth_unstable_by_key(count, slower);
            calls.truncate(count);
        }
        calls.sort_by_key(slower);
        calls
    }

    /// The latest of them first. They are told in the order in which they ended, which is finer than their times.
    pub(super) fn last(&self, from: i64, count: usize) -> Vec<&Call> {
        self.calls.iter().rev().filter(|call| call.at >= from).take(count).collect()
    }
}

/// What `calls` come to, for each key that they have; in the order of keys, so that nothing jumps.
pub(super) fn sums<'c, K: Ord>(
    calls: impl Iterator<Item = &'c Call>,
    key: impl Fn(&'c Call) -> K,
) -> BTreeMap<K, Sums> {
    let mut groups: BTreeMap<K, (Sums, Vec<u64>)> = BTreeMap::new();
    for call in calls {
        let (sums, times) = groups.entry(key(call)).or_default();
        sums.calls += 1;
        sums.errors += usize::from(call.is_error());
        sums.bytes += call.bytes;
        times.push(call.took_us);
    }
    let whole = |(key, (sums, mut times)): (K, (Sums, Vec<u64>))| {
        times.sort_unstable();
        let [p50, p95, p99] = [50, 95, 99].map(|percent| percentile(&times, percent));
        (key, Sums { p50, p95, p99, ..sums })
    };
    groups.into_iter().map(whole).collect()
}

/// The least of `sorted` that `percent` of a hundred are not above.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: &str, tool: &str, took_ms: f64, outcome: &str) -> CallReport {
        let report = serde_json::json!({
            "time": "", "session": 1, "uid": 0, "profile": "default", "server": server, "tool": tool, "outcome": outcome,
            "duration_ms": took_ms, "request_bytes": 10, "reply_bytes": 90,
        });
        serde_json::from_value(report).expect("a call")
    }

    #[test]
    fn percentiles_are_exact() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (sorted, percent, expected) in [
            (&hundred[..], 50, Some(50)),
            (&hundred, 95, Some(95)),
            (&hundred, 99, Some(99)),
            (&hundred[..1], 99, Some(1)),
            (&hundred[..2], 50, Some(1)),
            (&hundred[..3], 50, Some(2)),
            (&hundred[..20], 95, Some(19)),
            (&[], 50, None),
        ] {
            assert_eq!(percentile(sorted, percent), expected, "{percent} of {}", sorted.len());
        }
    }

    #[test]
    fn sums_are_those_of_the_calls_since_a_time() {
        let mut window = Window::new(-5000);
        for (at, server, took, outcome) in [
            (-4000, "a", 1.0, "ok"),
            (-3000, "a", 2.5, "ok"),
            (-2000, "b", 7.0, "error"),
            (-1000, "a", 9.0, "cancelled"),
            (0, "a", 4.0, "tool_error"),
        ] {
            window.add(at, &call(server, "t", took, outcome));
        }
        let of = |from| sums(window.calls(from), |call| call.server.clone().unwrap_or_default());
        let all = of(i64::MIN);
        let expected = Sums { calls: 4, errors: 1, bytes: 400, p50: Some(2500), p95: Some(9000), p99: Some(9000) };
        assert_eq!((all.len(), all["a"]), (2, expected));
        assert_eq!((of(-1000)["a"].calls, of(-1000).contains_key("b")), (2, false));
        let times = |calls: Vec<&Call>| calls.iter().map(|call| call.took_us / 1000).collect::<Vec<_>>();
        assert_eq!(times(window.slowest(i64::MIN, 3)), [9, 7, 4]);
        assert_eq!(times(window.last(-3000, 9)), [4, 9, 7, 2]);
        assert_eq!((window.covered(-9000), window.covered(-1)), (-5000, -1));
    }

    #[test]
    fn what_is_kept_is_bounded_and_says_from_when_on_it_is_whole() {
        let mut window = Window::new(i64::MIN);
        for at in 0..=i64::try_from(MOST).expect("it fits") + 4 {
            window.add(at, &call("a", &format!("tool{at}"), 1.0, "ok"));
        }
        assert_eq!((window.calls.len(), window.covered(i64::MIN)), (MOST, 4));
        for at in 0..MOST + 9 {
            window.kept(&format!("other{at}"));
        }
        assert!(window.names.len() <= 2 * MOST + 1, "{}", window.names.len());
    }
}
