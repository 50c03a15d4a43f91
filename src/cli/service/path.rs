//! The `PATH` for servers: the login shell's, without directories that exist for one session only.

use std::path::{Path, PathBuf};

use crate::config::interpolate::{Process, Sources};

/// Programs that most servers need.
const LAUNCHERS: [&str; 3] = ["npx", "uvx", "node"];

/// Each directory once, without directories of one session. Links that version managers create there are resolved.
pub(in crate::cli) fn lasting(path: &str) -> String {
    let temporary: Vec<_> = ["XDG_RUNTIME_DIR", "TMPDIR"]
        .into_iter()
        .filter_map(|name| Process.directory(name))
        .chain(["/tmp".into()])
        .collect();
    let home = Process.home();
    let is_at_home = |path: &Path| home.as_ref().is_some_and(|home| path.starts_with(home));
    let is_temporary = |path: &Path| !is_at_home(path) && temporary.iter().any(|root| path.starts_with(root));
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::env::split_paths(path).filter(|entry| entry.is_absolute()) {
        let entry = if is_temporary(&entry) { entry.canonicalize().unwrap_or(entry) } else { entry };
        if !is_temporary(&entry) && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries.iter().map(|entry| entry.display().to_string()).collect::<Vec<_>>().join(":")
}

/// One line for each launcher, with its path.
pub(super) fn launchers(path: &str) -> Vec<String> {
    let find = |name: &str| {
        Process.on_path(name, path).map_or_else(|| "not found".to_owned(), |file| file.display().to_string())
    };
    LAUNCHERS.iter().map(|name| format!("{name}: {}", find(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_in_a_session_directory_is_replaced_by_its_target() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let link = place.path().join("multishell");
        std::os::unix::fs::symlink("/usr/bin", &link).expect("a fresh directory");
        let link = link.display();
        assert_eq!(lasting(&format!("/bin:{link}:/tmp/x:relative::/bin:/opt/x")), "/bin:/usr/bin:/opt/x");
    }
}
