//! The variables of the login environment that the unit needs, and the file that holds them for systemd.
//!
//! Needed are the `PATH`, proxies, certificate authorities, the directories of version managers, `MCPD_…`, and what the configuration
//! refers to. The file is its owner's alone: unlike `Environment=` of a unit, `systemctl show` does not print it.

mod syntax;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use self::syntax::{assignment, can_hold, parse};
use super::service::{lasting, variable};
use crate::config::{Loaded, environment};
use crate::disk::replace_private;
use crate::login_env;

/// Variables of one login session, or of the user, which systemd has or gets from the session. A file would make them outlive it.
const OF_SESSION: [&str; 14] = [
    "CREDENTIALS_DIRECTORY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LOGNAME",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "XDG_SESSION_TYPE",
];
/// What begins a variable of mcpd's own.
const OWN_PREFIX: &str = "MCPD_";
/// First line of the file.
const HEADER: &str = "# Written by mcpd from the login environment; `mcpd reload --environment` writes it anew.\n";

/// What the login environment has of what the unit needs. `Debug` is left out, as values may be secret.
pub(super) struct LoginEnvironment {
    pub(super) variables: BTreeMap<String, String>,
    /// What the configuration refers to, and the login environment lacks.
    pub(super) missing: Vec<String>,
    /// What the file cannot hold: values with control characters, or not in UTF-8.
    pub(super) unfit: Vec<String>,
    /// Why it is this process's environment instead.
    pub(super) trouble: Option<String>,
}

/// Asks the login shell for what this configuration needs; without one, for what every configuration needs.
pub(super) async fn of_login(loaded: Option<&Loaded>) -> LoginEnvironment {
    let login = login_env::environment(std::env::vars_os()).await;
    let references = loaded.map(references).unwrap_or_default();
    // A shell that does not answer leaves what this process has.
    let all = if login.trouble.is_some() { std::env::vars_os().collect() } else { login.variables };
    let is_needed = |name: &str| {
        name == "PATH" || name.starts_with(OWN_PREFIX) || environment::is_setup(name) || references.contains(name)
    };
    let mut found =
        LoginEnvironment { variables: BTreeMap::new(), missing: Vec::new(), unfit: Vec::new(), trouble: login.trouble };
    for (name, value) in all {
        let Some(name) = name.into_string().ok().filter(|name| is_needed(name)) else { continue };
        match value.into_string() {
            Ok(value) if can_hold(&name, &value) => drop(found.variables.insert(name, value)),
            _ => found.unfit.push(name),
        }
    }
    if let Some(path) = found.variables.get_mut("PATH") {
        *path = lasting(path);
    }
    let is_missing = |name: &String| !found.variables.contains_key(name) && !found.unfit.contains(name);
    found.missing = references.into_iter().filter(is_missing).collect();
    found
}

/// The variables that this configuration refers to, without those of the login session.
pub(super) fn references(loaded: &Loaded) -> BTreeSet<String> {
    let mut names = loaded.variables();
    names.retain(|name| !OF_SESSION.contains(&name.as_str()));
    names
}

/// Where the variables are: `$XDG_STATE_HOME/mcpd/service.env`, else below `~/.local/state`.
pub(super) fn file() -> Option<PathBuf> {
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
    Some(state.join("mcpd/service.env"))
}

/// The variables in the file; none if it is not there.
pub(super) fn read(file: &Path) -> BTreeMap<String, String> {
    parse(&fs::read_to_string(file).unwrap_or_default())
}

/// The file with these variables.
pub(super) fn text(variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(HEADER.to_owned(), |text, (name, value)| text + &assignment(name, value))
}

/// Writes a text that only the user may read, as a whole or not at all.
///
/// # Errors
/// If that is impossible.
pub(super) fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    replace_private(file, text.as_bytes())
}

/// What to set and unset in a daemon that has the variables of `former`.
pub(super) fn changes(
    former: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let unset = former.keys().map(|name| (name.clone(), None));
    unset.chain(new.iter().map(|(name, value)| (name.clone(), Some(value.clone())))).collect()
}

impl LoginEnvironment {
    /// A line for each thing that a person should know, with names only: what it is about, and the names.
    pub(super) fn summary(&self) -> Vec<(&'static str, String)> {
        let names = |names: &[String]| names.join(", ");
        let set: Vec<_> = self.variables.keys().cloned().collect();
        let mut lines = vec![("sets", names(&set))];
        if !self.missing.is_empty() {
            let why = "not in the login environment, and the configuration refers to";
            lines.push(("lacks", format!("{why} {}", names(&self.missing))));
        }
        if !self.unfit.is_empty() {
            let why = "control characters in the value, which systemd refuses, or not UTF-8";
            lines.push(("left", format!("{}: {why}", names(&self.unfit))));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_in_the_file_is_unset() {
        let variables = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let changes = changes(&variables(&[("A", "1"), ("B", "2")]), &variables(&[("B", "3"), ("C", "4")]));
        let expected = [("A", None), ("B", Some("3")), ("C", Some("4"))];
        assert_eq!(changes, expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).into());
    }

    #[test]
    fn file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("mcpd/service.env");
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        write_private(&file, &text(&variables)).expect("its own");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!([mode(&file), mode(file.parent().expect("a directory"))], [0o600, 0o700]);
        assert_eq!(read(&file), variables);
    }
}
