//! The `PATH` that servers are found on: the login shell's, without what is there for one session only.

use std::path::{Path, PathBuf};

use super::manager::variable;
use crate::config::interpolate::{Process, Sources};

/// What is most often needed to run servers.
const LAUNCHERS: [&str; 3] = ["npx", "uvx", "node"];

/// Each directory once, and none that ends with a session: version managers put links there to where a version is.
pub(in crate::cli) fn lasting(path: &str) -> String {
    let passing: Vec<_> =
        ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(variable).chain(["/tmp".into()]).collect();
    let home = variable("HOME");
    let is_at_home = |path: &Path| home.as_ref().is_some_and(|home| path.starts_with(home));
    let is_passing = |path: &Path| !is_at_home(path) && passing.iter().any(|short| path.starts_with(short));
    let mut kept: Vec<PathBuf> = Vec::new();
    for entry in std::env::split_paths(path).filter(|entry| entry.is_absolute()) {
        let entry = if is_passing(&entry) { entry.canonicalize().unwrap_or(entry) } else { entry };
        if !is_passing(&entry) && !kept.contains(&entry) {
            kept.push(entry);
        }
    }
    kept.iter().map(|entry| entry.display().to_string()).collect::<Vec<_>>().join(":")
}

/// A line for each of the usual launchers of servers: where it is.
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
    fn what_ends_with_a_session_is_replaced_by_what_it_leads_to() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let link = place.path().join("multishell");
        std::os::unix::fs::symlink("/usr/bin", &link).expect("a fresh directory");
        let link = link.display();
        assert_eq!(lasting(&format!("/bin:{link}:/tmp/x:relative::/bin:/opt/x")), "/bin:/usr/bin:/opt/x");
    }
}
