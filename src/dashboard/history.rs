//! Load, errors, latency, memory and processor time of each server in the last hour, in points of 30 s. Pure: the caller has the clock.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

/// The time that one point covers, in milliseconds.
pub(super) const STEP_MS: i64 = 30_000;
/// Points of each server.
pub(super) const POINTS: i64 = 120;
/// Steps of a latency by which it grows tenfold. A latency is known to a tenth.
const STEPS_OF_TEN: f64 = 25.0;

/// What happened in the time of one point.
#[derive(Debug, Default, Clone)]
struct Point {
    calls: u32,
    errors: u32,
    /// How many calls took so long, by the step of the latency.
    latencies: BTreeMap<i16, u32>,
    memory: Option<u64>,
    /// Sum of the measured percentages, and their number.
    cpu: (f64, u32),
    /// It has something that pages do not have yet.
    is_new: bool,
}

#[derive(Debug, Default)]
struct Series {
    points: VecDeque<(i64, Point)>,
}

/// All servers, by name. Calls of unknown tools belong to none.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, Series>);

impl History {
    /// A call that ended at `at` and took `took_ms`.
    pub(super) fn call(&mut self, server: &str, at: i64, now: i64, took_ms: f64, is_error: bool) {
        let Some(point) = self.series(server).point(at, now) else { return };
        point.calls += 1;
        point.errors += u32::from(is_error);
        *point.latencies.entry(step(took_ms)).or_default() += 1;
        point.is_new = true;
    }

    /// The memory of a server, and its processor time in percent since the last measurement.
    pub(super) fn usage(&mut self, server: &str, now: i64, memory: u64, cpu: Option<f64>) {
        let Some(point) = self.series(server).point(now, now) else { return };
        let shown = (point.memory, point.cpu_percent());
        point.memory = point.memory.max(Some(memory));
        if let Some(percent) = cpu {
            point.cpu = (point.cpu.0 + percent, point.cpu.1 + 1);
        }
        point.is_new |= shown != (point.memory, point.cpu_percent());
    }

    /// Only these servers are configured.
    pub(super) fn retain<'s>(&mut self, servers: impl Iterator<Item = &'s str> + Clone) {
        self.0.retain(|name, _| servers.clone().any(|server| server == name));
    }

    /// All points: `{"server": [[number, calls, errors, median, 95th percentile, memory, processor], …]}`.
    pub(super) fn all(&self) -> Value {
        let points = |series: &Series| series.points.iter().map(|(number, point)| point.value(*number)).collect();
        self.0.iter().map(|(name, series)| (name.clone(), Value::Array(points(series)))).collect()
    }

    /// The points that have changed since; `None` if there are none.
    pub(super) fn changed(&mut self) -> Option<Value> {
        let mut all = serde_json::Map::new();
        for (name, series) in &mut self.0 {
            let new = series
                .points
                .iter_mut()
                .filter_map(|(number, point)| std::mem::take(&mut point.is_new).then(|| point.value(*number)));
            let new: Vec<_> = new.collect();
            if !new.is_empty() {
                all.insert(name.clone(), new.into());
            }
        }
        (!all.is_empty()).then(|| all.into())
    }

    fn series(&mut self, server: &str) -> &mut Series {
        if !self.0.contains_key(server) {
            self.0.insert(server.to_owned(), Series::default());
        }
        self.0.entry(server.to_owned()).or_default()
    }
}

impl Series {
    /// The point of the time `at`; `None` if that is too long ago.
    fn point(&mut self, at: i64, now: i64) -> Option<&mut Point> {
        let (number, first) = (at.div_euclid(STEP_MS), now.div_euclid(STEP_MS) - POINTS + 1);
        while self.points.front().is_some_and(|(number, _)| *number < first) {
            self.points.pop_front();
        }
        if number < first {
            return None;
        }
        let index = self.points.partition_point(|(found, _)| *found < number);
        if self.points.get(index).is_none_or(|(found, _)| *found != number) {
            self.points.insert(index, (number, Point::default()));
        }
        self.points.get_mut(index).map(|(_, point)| point)
    }
}

impl Point {
    fn value(&self, number: i64) -> Value {
        let cpu = self.cpu_percent();
        json!([number, self.calls, self.errors, self.percentile(50), self.percentile(95), self.memory, cpu])
    }

    /// Of one core, to a tenth.
    fn cpu_percent(&self) -> Option<f64> {
        let (sum, count) = self.cpu;
        (count > 0).then(|| (sum / f64::from(count) * 10.0).round() / 10.0)
    }

    /// In milliseconds.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (u64::from(self.calls) * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.latencies.iter().find(|(_, count)| {
            seen += u64::from(**count);
            seen >= rank
        });
        found.map(|(step, _)| (10f64.powf(f64::from(*step) / STEPS_OF_TEN) * 1000.0).round() / 1000.0)
    }
}

/// From a microsecond on.
#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a duration is small")]
fn step(took_ms: f64) -> i16 {
    (took_ms.max(0.001).log10() * STEPS_OF_TEN).round() as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 7_200_000;

    #[test]
    fn calls_count_in_the_point_of_their_end_and_old_ones_not_at_all() {
        let mut history = History::default();
        for (ago, took, is_error) in
            [(0, 10.0, false), (1, 10.0, false), (60_000, 1000.0, true), (STEP_MS * POINTS, 1.0, false)]
        {
            history.call("a", NOW - ago, NOW, took, is_error);
        }
        let number = NOW / STEP_MS;
        let expected = json!({"a": [
            [number - 2, 1, 1, 1000.0, 1000.0, null, null],
            [number - 1, 1, 0, 10.0, 10.0, null, null],
            [number, 1, 0, 10.0, 10.0, null, null],
        ]});
        assert_eq!(history.all(), expected);
        assert_eq!(history.changed(), Some(expected));
        assert_eq!(history.changed(), None);
        history.call("a", NOW, NOW, 10.0, false);
        assert_eq!(history.changed(), Some(json!({"a": [[number, 2, 0, 10.0, 10.0, null, null]]})));
        history.retain(["b"].into_iter());
        assert_eq!(history.all(), json!({}));
    }

    #[test]
    fn a_point_has_the_most_memory_and_the_mean_processor_time() {
        let mut history = History::default();
        for (at, memory, cpu) in [(0, 100, None), (2000, 300, Some(50.0)), (4000, 200, Some(25.0)), (6000, 200, None)] {
            history.usage("a", at, memory, cpu);
        }
        assert_eq!(history.all(), json!({"a": [[0, 0, 0, null, null, 300, 37.5]]}));
    }

    #[test]
    fn percentiles_are_known_to_a_tenth() {
        let mut history = History::default();
        (1..=100).for_each(|took| history.call("a", 0, 0, f64::from(took), false));
        let all = history.all();
        for (index, expected) in [(3, 50.0), (4, 95.0)] {
            let found = all["a"][0][index].as_f64().expect("a number");
            assert!((found / expected - 1.0).abs() < 0.1, "{found}, not {expected}");
        }
    }
}
