//! The `service.env` file, which gives the unit the variables it needs from the login environment.
//!
//! The unit needs `PATH`, proxies, certificate authorities, directories of version managers, `MCPD_…`, and every variable that the
//! configuration refers to. Only the owner can read the file; `systemctl show` does not print it, unlike `Environment=` of a unit.
//!
//! Source: systemd.exec(5), `EnvironmentFile=`. A value in double quotes may span lines; a backslash takes the meaning from `"`, `\`,
//! `` ` `` and `$`. Other control characters than tab and line feed make systemd drop a variable, and log its value.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::config::interpolate::{Process, Sources};
use crate::config::{LoadedConfig, environment};
use crate::disk::replace_private;
use crate::login_env::{self, LoginTrouble};

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
    pub(super) trouble: Option<LoginTrouble>,
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

/// Whether systemd accepts a variable with this name and value in a file.
fn can_hold(name: &str, value: &str) -> bool {
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_forbidden = |c: char| (u32::from(c) < 0x20 || c == '\u{7f}') && !matches!(c, '\t' | '\n');
    is_name && !value.contains(is_forbidden)
}

/// One line with its line feed.
fn assignment(name: &str, value: &str) -> String {
    let mut line = format!("{name}=\"");
    for c in value.chars() {
        if NEEDS_ESCAPE.contains(&c) {
            line.push('\\');
        }
        line.push(c);
    }
    line + "\"\n"
}

const NEEDS_ESCAPE: [char; 4] = ['"', '\\', '`', '$'];

/// Parses comments and [`assignment`]s. Skips other lines.
pub(super) fn parse(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = rest.split('\n').next().unwrap_or_default();
        let quoted = line.split_once("=\"").filter(|(name, _)| can_hold(name, ""));
        let Some((name, _)) = quoted else {
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            continue;
        };
        let (value, behind) = unquoted(&rest[name.len() + 2..]);
        variables.insert(name.to_owned(), value);
        rest = behind.split_once('\n').map_or("", |(_, rest)| rest);
    }
    variables
}

/// The text before the closing quote, and the text after it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, escaped)) if NEEDS_ESCAPE.contains(&escaped) => value.push(escaped),
                Some((_, '\n')) | None => {}
                Some((_, other)) => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn link_in_a_session_directory_is_replaced_by_its_target() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let link = place.path().join("multishell");
        std::os::unix::fs::symlink("/usr/bin", &link).expect("a fresh directory");
        let link = link.display();
        assert_eq!(lasting(&format!("/bin:{link}:/tmp/x:relative::/bin:/opt/x")), "/bin:/usr/bin:/opt/x");
    }

    #[test]
    fn values_are_quoted_as_systemd_reads_them() {
        assert_eq!(assignment("A", r#"a "b" $c \d `e`"#), "A=\"a \\\"b\\\" \\$c \\\\d \\`e\\`\"\n");
        assert_eq!(assignment("B", "one\ntwo # three"), "B=\"one\ntwo # three\"\n");
    }

    #[test]
    fn values_that_systemd_would_drop_and_log_are_not_written() {
        for (name, value, expected) in [
            ("A", "tab\tand\nline feed, ä€😀", true),
            ("_a1", "", true),
            ("A", "\r", false),
            ("A", "\u{1b}[m", false),
            ("A", "\u{7f}", false),
            ("1A", "x", false),
            ("A-B", "x", false),
            ("", "x", false),
        ] {
            assert_eq!(can_hold(name, value), expected, "{name}={value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_read(
            variables in proptest::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", "([ -~\t\nä€😀]|[\"\\\\`$#;='\n]){0,40}", 0..6),
        ) {
            let text = variables.iter().fold("# A comment\n".to_owned(), |text, (name, value)| {
                text + &assignment(name, value)
            });
            prop_assert_eq!(parse(&text), variables);
        }

        #[test]
        fn any_text_can_be_read(text in any::<String>()) {
            parse(&text);
        }
    }
}
