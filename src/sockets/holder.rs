//! Finds the process that holds a lock, in `/proc/locks`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The process that holds the lock on the file `path`. Some file systems and namespaces do not show it.
pub(super) fn of(path: &Path) -> Option<u32> {
    let file = fs::symlink_metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    holder(&fs::read_to_string("/proc/locks").ok()?, &format!("{major:02x}:{minor:02x}:{}", file.ino()))
}

/// The holder of the file's lock in the text of `/proc/locks`. Lines of waiting processes have an arrow before the type.
fn holder(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file)).then(|| words[4].parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_waits_for_a_lock_does_not_hold_it() {
        let locks = "1: POSIX  ADVISORY  WRITE 3 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 41 fe:00:13 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 42 fe:00:13 0 EOF\n3: FLOCK  ADVISORY  WRITE 43 00:2a:13 0 EOF\n";
        for (file, expected) in [("fe:00:13", Some(41)), ("00:2a:13", Some(43)), ("fe:00:12", None), ("fe:00:1", None)]
        {
            assert_eq!(holder(locks, file), expected, "{file}");
        }
    }
}
