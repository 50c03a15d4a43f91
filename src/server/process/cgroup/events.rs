//! Derives the limit that ended an instance from the kernel's counters of its cgroup. Pure.

use super::limits::Limits;
use crate::server::exit::ReachedLimit;

/// The limit that caused the end of an instance, if any. `memory` and `pids` are the contents of `memory.events` and
/// `pids.events`, empty if missing.
pub(super) fn limit_reached(limits: Limits, memory: &str, pids: &str) -> Option<ReachedLimit> {
    if count(memory, "oom_kill") > 0 {
        // `oom` is counted in the cgroup whose limit was reached: this one, or one above it.
        let own =
            limits.memory_max.max.filter(|_| count(memory, "oom") > 0).and_then(|limit| u64::try_from(limit).ok());
        return Some(ReachedLimit::Memory(own));
    }
    limits.tasks_max.max.filter(|_| count(pids, "max") > 0).map(ReachedLimit::Processes)
}

/// The number on the line that starts with `key`.
fn count(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limit;
    use crate::server::exit::Exit;

    const fn limit(max: usize) -> Limit {
        Limit { max: Some(max), is_default: false }
    }

    const NONE: Limits = Limits { memory_max: Limit::NONE, tasks_max: Limit::NONE, cpu_weight: 100 };
    const MEMORY: Limits = Limits { memory_max: limit(512 << 20), ..NONE };
    const TASKS: Limits = Limits { tasks_max: limit(64), ..NONE };
    const BOTH: Limits = Limits { memory_max: limit(1000), ..TASKS };

    #[test]
    fn limit_is_named_as_the_cause_only_if_the_kernel_counted_it() {
        let calm = "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n";
        let over = "low 0\nhigh 0\nmax 90\noom 1\noom_kill 3\noom_group_kill 1\n";
        let old = "low 0\nhigh 0\nmax 90\noom 2\noom_kill 1\n";
        let elsewhere = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n";
        let refused = "max 7\n";
        let text = |limit| Exit { code: Some(1), limit: Some(limit), signal: None }.to_string();
        let machine = Some("was killed: the machine, or mcpd as a whole, was out of memory");
        let table = [
            (MEMORY, calm, "", None),
            (MEMORY, over, "", Some("was killed: over its memory limit of 512MiB")),
            (MEMORY, old, "", Some("was killed: over its memory limit of 512MiB")),
            (BOTH, over, refused, Some("was killed: over its memory limit of 1000B")),
            (MEMORY, elsewhere, "", machine),
            (TASKS, elsewhere, "max 0\n", machine),
            (TASKS, "", refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (BOTH, calm, refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (TASKS, "", "max 0\n", None),
            (MEMORY, "", refused, None),
            (BOTH, "", "", None),
            (BOTH, "oom_kill\noom_kill many\n", "max -1\n", None),
        ];
        for (limits, memory, pids, expected) in table {
            let found = limit_reached(limits, memory, pids).map(text);
            assert_eq!(found.as_deref(), expected, "{limits:?} {memory:?} {pids:?}");
        }
    }
}
