//! What the kernel counted in the cgroup of an instance, and what that says about its end. Pure.

use crate::config::{Limits, size};

/// Why an instance ended, if its limits had to do with it; `how` is what was seen of its end. `memory` and `pids` are the
/// texts of `memory.events` and `pids.events`, empty where there are none.
pub(super) fn explain(how: Option<&str>, limits: Limits, memory: &str, pids: &str) -> Option<String> {
    if count(memory, "oom_kill") > 0 {
        // Counted where a limit was reached: here, or further up.
        let own = limits.memory_max.filter(|_| count(memory, "oom") > 0).and_then(|limit| u64::try_from(limit).ok());
        return Some(match own {
            Some(limit) => format!("was killed: over its memory limit of {}", size::text(limit)),
            None => "was killed: the machine, or mcpd as a whole, was out of memory".to_owned(),
        });
    }
    let limit = limits.tasks_max.filter(|_| count(pids, "max") > 0)?;
    Some(format!("{}; it had reached its limit of {limit} tasks", how?))
}

/// The number that stands behind `key` on a line of its own.
fn count(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Limits = Limits { memory_max: Some(512 << 20), tasks_max: None };
    const TASKS: Limits = Limits { memory_max: None, tasks_max: Some(64) };
    const BOTH: Limits = Limits { memory_max: Some(1000), ..TASKS };
    const EXITED: Option<&str> = Some("exited with code 1");

    #[test]
    fn an_end_is_put_down_to_a_limit_only_if_the_kernel_counted_it() {
        let calm = "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n";
        let over = "low 0\nhigh 0\nmax 90\noom 1\noom_kill 3\noom_group_kill 1\n";
        let old = "low 0\nhigh 0\nmax 90\noom 2\noom_kill 1\n";
        let elsewhere = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n";
        let refused = "max 7\n";
        let machine = Some("was killed: the machine, or mcpd as a whole, was out of memory");
        let table = [
            (EXITED, MEMORY, calm, "", None),
            (None, MEMORY, over, "", Some("was killed: over its memory limit of 512MiB")),
            (EXITED, MEMORY, old, "", Some("was killed: over its memory limit of 512MiB")),
            (None, BOTH, over, refused, Some("was killed: over its memory limit of 1000B")),
            (None, MEMORY, elsewhere, "", machine),
            (None, TASKS, elsewhere, "max 0\n", machine),
            (EXITED, TASKS, "", refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (EXITED, BOTH, calm, refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (None, TASKS, "", refused, None),
            (EXITED, TASKS, "", "max 0\n", None),
            (EXITED, MEMORY, "", refused, None),
            (EXITED, BOTH, "", "", None),
            (EXITED, BOTH, "oom_kill\noom_kill many\n", "max -1\n", None),
        ];
        for (how, limits, memory, pids, expected) in table {
            assert_eq!(explain(how, limits, memory, pids).as_deref(), expected, "{limits:?} {memory:?} {pids:?}");
        }
    }
}
