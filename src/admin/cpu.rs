//! The processor time of servers in percent of one core, between the last two measurements of the daemon. Pure.

use std::collections::HashMap;

use super::report::{InstanceReport, Report, ServerReport};
use crate::manager::report::UsageReport;

/// Measurements that are closer to each other are the same one: the daemon measures at most every 2 s.
const SAME_MS: i64 = 500;

/// What is measured: a server, or the instance with this guard.
type Key = (String, Option<u32>);

#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    /// Time of the last measurement.
    at: Option<i64>,
    cpu_ms: HashMap<Key, u64>,
    percent: HashMap<Key, f64>,
}

impl CpuMeter {
    /// Reads a report that was received at `now`. Returns whether it has a new measurement.
    pub(crate) fn update(&mut self, now: i64, report: &Report) -> bool {
        let Some(age) = report.usage_age_ms else { return false };
        let at = now - i64::try_from(age).unwrap_or(i64::MAX);
        let elapsed = self.at.map_or(i64::MAX, |before| at - before);
        if elapsed < SAME_MS {
            return false;
        }
        let elapsed = u32::try_from(elapsed).map_or(f64::MAX, f64::from);
        let measured: HashMap<_, _> = report.servers.iter().flat_map(measured).collect();
        let percent = |(key, cpu_ms): (&Key, &u64)| {
            let used = cpu_ms.checked_sub(*self.cpu_ms.get(key)?)?;
            let used = u32::try_from(used).map_or(f64::MAX, f64::from);
            Some((key.clone(), (used / elapsed * 1000.0).round() / 10.0))
        };
        self.percent = measured.iter().filter_map(percent).collect();
        (self.at, self.cpu_ms) = (Some(at), measured);
        true
    }

    /// Whether a process was measured twice, or none runs.
    pub(crate) fn is_known(&self, report: &Report) -> bool {
        let runs = |server: &ServerReport| server.guard_pid.is_some() || !server.instances.is_empty();
        !self.percent.is_empty() || !report.servers.iter().any(runs)
    }

    pub(crate) fn of_server(&self, server: &ServerReport) -> Option<f64> {
        self.percent.get(&(server.name.clone(), None)).copied()
    }

    pub(crate) fn of_instance(&self, server: &str, instance: &InstanceReport) -> Option<f64> {
        self.percent.get(&(server.to_owned(), Some(instance.guard_pid?))).copied()
    }
}

fn measured(server: &ServerReport) -> impl Iterator<Item = (Key, u64)> {
    let entry = |guard: Option<u32>, usage: UsageReport| ((server.name.clone(), guard), usage.cpu_ms);
    let of_instance = move |one: &InstanceReport| Some(entry(Some(one.guard_pid?), one.usage?));
    server.usage.map(|usage| entry(None, usage)).into_iter().chain(server.instances.iter().filter_map(of_instance))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(age: Option<u64>, cpu_ms: Option<u64>) -> Report {
        let usage = cpu_ms.map(|cpu_ms| json!({"memory_bytes": 1, "cpu_ms": cpu_ms, "processes": 1}));
        let instance = json!({"purpose": "pool 1", "state": "ready", "guard_pid": 7, "calls": 0, "in_flight": 0, "errors": 0,
                              "restarts": 0, "usage": usage});
        let server = json!({"name": "a", "state": "ready", "tools_exposed": 3, "tools_denied": 0, "calls": 9, "in_flight": 0,
                            "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0, "usage": usage,
                            "instances": [instance]});
        let report = json!({"version": "1", "pid": 1, "uptime_ms": 1, "settled": true, "usage_age_ms": age, "servers": [server],
                            "agents": [], "profiles": []});
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn without_a_process_there_is_nothing_to_wait_for() {
        let mut report = report(None, None);
        report.servers[0].instances.clear();
        assert!(CpuMeter::default().is_known(&report));
    }

    #[test]
    fn percentage_is_that_between_two_measurements() {
        let mut meter = CpuMeter::default();
        for (now, age, cpu_ms, expected, is_known) in [
            (0, None, None, None, false),
            (10, Some(10), Some(5000), None, false),
            // The same measurement, read again.
            (1011, Some(1010), Some(5000), None, false),
            (3000, Some(1000), Some(5500), Some(25.0), true),
            (4000, Some(1999), Some(5500), Some(25.0), true),
            (5000, Some(1000), Some(5501), Some(0.1), true),
            (9000, Some(1000), Some(13_501), Some(200.0), true),
            // Another daemon.
            (12_000, Some(0), Some(20), None, false),
            (14_000, Some(0), Some(20), Some(0.0), true),
            (16_000, Some(0), None, None, false),
        ] {
            let report = report(age, cpu_ms);
            meter.update(now, &report);
            let server = &report.servers[0];
            let found =
                (meter.of_server(server), meter.of_instance("a", &server.instances[0]), meter.is_known(&report));
            assert_eq!(found, (expected, expected, is_known), "at {now}");
        }
    }
}
