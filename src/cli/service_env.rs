//! The `service.env` file, which gives the unit the variables it needs from the login environment.
//!
//! The unit needs `PATH`, proxies, certificate authorities, directories of version managers, `MCPD_…`, and every variable that the
//! configuration refers to. Only the owner can read the file; `systemctl show` does not print it, unlike `Environment=` of a unit.

mod syntax;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use self::syntax::{assignment, can_hold, parse};
use super::service::lasting;
use crate::config::interpolate::{Process, Sources};
use crate::config::{LoadedConfig, environment};
use crate::disk::replace_private;
use crate::login_env;

/// Variables that systemd has or gets from the login session. In a file they would outlive the session.
const SESSION_VARIABLES: [&str; 14] = [
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
const PREFIX: &str = "MCPD_";
const HEADER: &str = "# Written by mcpd from the login environment; `mcpd reload --environment` writes it anew.\n";

/// The variables for the unit. It has no `Debug`, because values may be secret.
pub(super) struct LoginEnvironment {
    pub(super) variables: BTreeMap<String, String>,
    /// Variables that the configuration refers to and the login environment lacks.
    pub(super) missing: Vec<String>,
    /// Variables that the file cannot contain: with control characters, or not in UTF-8.
    pub(super) unfit: Vec<String>,
    /// Why `variables` come from this process instead of the login shell.
    pub(super) trouble: Option<String>,
}

/// Reads the variables for this configuration from the login shell; without a configuration, those that every one needs.
pub(super) async fn of_login(loaded: Option<&LoadedConfig>) -> LoginEnvironment {
    let login = login_env::environment(std::env::vars_os()).await;
    let references = loaded.map(references).unwrap_or_default();
    // If the shell does not answer, this process's environment is used.
    let all = if login.trouble.is_some() { std::env::vars_os().collect() } else { login.variables };
    let is_needed = |name: &str| {
        name == "PATH" || name.starts_with(PREFIX) || environment::is_setup(name) || references.contains(name)
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

/// The variables that this configuration refers to, without session variables.
pub(super) fn references(loaded: &LoadedConfig) -> BTreeSet<String> {
    let mut names = loaded.variables();
    names.retain(|name| !SESSION_VARIABLES.contains(&name.as_str()));
    names
}

/// The path: `$XDG_STATE_HOME/mcpd/service.env`, else below `~/.local/state`.
pub(super) fn file() -> Option<PathBuf> {
    Some(Process.state_home()?.join("mcpd/service.env"))
}

/// The variables in the file; empty if it does not exist.
pub(super) fn read(file: &Path) -> BTreeMap<String, String> {
    parse(&fs::read_to_string(file).unwrap_or_default())
}

/// The content of a file with these variables.
pub(super) fn text(variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(HEADER.to_owned(), |text, (name, value)| text + &assignment(name, value))
}

/// Writes a file atomically that only the user can read.
pub(super) fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    replace_private(file, text.as_bytes())
}

/// The variables to set and to unset in a daemon that has the variables of `former`.
pub(super) fn changes(
    former: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let unset = former.keys().map(|name| (name.clone(), None));
    unset.chain(new.iter().map(|(name, value)| (name.clone(), Some(value.clone())))).collect()
}

impl LoginEnvironment {
    /// Lines for a person, each a verb and names of variables. Values are left out.
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
    fn variable_that_is_no_longer_in_the_file_is_unset() {
        let variables = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let changes = changes(&variables(&[("A", "1"), ("B", "2")]), &variables(&[("B", "3"), ("C", "4")]));
        let expected = [("A", None), ("B", Some("3")), ("C", Some("4"))];
        assert_eq!(changes, expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).into());
    }

    #[test]
    fn file_is_private_to_its_owner() {
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
