//! Process facts from /proc.

use std::{fs, io};

/// Nanoseconds of CPU time, all threads together.
///
/// From `schedstat`, since the ticks of `stat` are 10 ms long, too coarse for a round.
pub(crate) fn cpu_nanos(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_cpu = text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
        sum += on_cpu.ok_or_else(|| io::Error::other("schedstat cannot be read"))?;
    }
    Ok(sum)
}

/// A line of `smaps_rollup` (`Rss`, `Pss`), in KiB.
pub(crate) fn memory_kib(pid: u32, key: &str) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).ok_or_else(|| io::Error::other(format!("no {key} of process {pid}")))
}

/// The load average of the last minute.
pub(crate) fn load() -> io::Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// The first argument of the process.
pub(crate) fn name(pid: u32) -> io::Result<String> {
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
    Ok(arguments.split('\0').next().unwrap_or_default().to_owned())
}

/// Whether the process runs, zombies excluded.
pub(crate) fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

/// Children, their children, and so on; parents come before their children.
pub(crate) fn descendants(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?.file_name();
        let Some(child) = entry.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes that have ended meanwhile are skipped.
        if let Some((_, parent)) = stat(child) {
            parents.push((child, parent));
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0));
        next += 1;
    }
    found.remove(0);
    Ok(found)
}

/// State and parent.
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold any character, so the fields are counted from the last one.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
