//! The files of the user's units: their texts, how mcpd recognizes its own, and planned changes of them.
//!
//! The first line of each file names mcpd and has a digest of the rest. A file with another digest was edited by a person.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cli::service_env::write_private;
use crate::sha256;

/// The files in `systemd/`, with the program where `cargo install` puts it.
const SERVICE: &str = include_str!("../../../systemd/mcpd.service");
const SOCKET: &str = include_str!("../../../systemd/mcpd.socket");
const PROFILE_SOCKET: &str = include_str!("../../../systemd/mcpd@.socket");
const HARDENED: &str = include_str!("../../../systemd/hardened.conf");
const PROGRAM: &str = "%h/.cargo/bin/mcpd";
/// Begins the first line of mcpd's files.
const MARK: &str = "# Written by `mcpd service install`";

/// A file below the directory of a user's units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its path below that directory.
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// The drop-in that names the file of variables.
const ENVIRONMENT_DROP_IN: &str = "mcpd.service.d/10-environment.conf";
/// The drop-in of earlier versions for the `PATH`.
pub(super) const FORMER_PATH_DROP_IN: &str = "mcpd.service.d/10-path.conf";
/// The drop-in that sandboxes mcpd and its servers.
pub(super) const HARDENED_DROP_IN: &str = "mcpd.service.d/20-hardened.conf";
/// Every file that `mcpd service install` writes or wrote.
const NAMES: [&str; 6] =
    ["mcpd.service", "mcpd.socket", "mcpd@.socket", ENVIRONMENT_DROP_IN, FORMER_PATH_DROP_IN, HARDENED_DROP_IN];

/// The units for this program.
pub(super) fn units(program: &str) -> [Unit; 3] {
    let service = SERVICE.replace(PROGRAM, &program_argument(program));
    let texts = [("mcpd.service", &*service), ("mcpd.socket", SOCKET), ("mcpd@.socket", PROFILE_SOCKET)];
    texts.map(|(name, text)| Unit { name, text: signed(text) })
}

/// See [`ENVIRONMENT_DROP_IN`]. Source: systemd.exec(5), `EnvironmentFile=`: the path is not quoted, and is a pattern of glob(7).
pub(super) fn environment_drop_in(file: &str) -> Unit {
    let pattern = file.chars().fold(String::new(), |pattern, c| match c {
        '%' => pattern + "%%",
        '*' | '?' | '[' | '\\' => pattern + "\\" + c.encode_utf8(&mut [0; 4]),
        c => pattern + c.encode_utf8(&mut [0; 4]),
    });
    let text = format!(
        "# Variables of the login environment; `mcpd reload --environment` writes them anew.\n[Service]\nEnvironmentFile=-{pattern}\n"
    );
    Unit { name: ENVIRONMENT_DROP_IN, text: signed(&text) }
}

/// See [`HARDENED_DROP_IN`].
pub(super) fn hardened_drop_in() -> Unit {
    Unit { name: HARDENED_DROP_IN, text: signed(HARDENED) }
}

/// The settings of [`hardened_drop_in`], a line each.
pub(super) fn hardening() -> impl Iterator<Item = &'static str> {
    HARDENED.lines().filter(|line| !line.starts_with(['#', '[']) && line.contains('='))
}

/// The author of a file, by its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// `mcpd service install`.
    Ours,
    /// `mcpd service install`, and a person edited it.
    Edited,
    Another,
}

pub(super) fn author(text: &str) -> Author {
    let Some((first, rest)) = text.split_once('\n').filter(|(first, _)| first.starts_with(MARK)) else {
        return Author::Another;
    };
    if first.ends_with(&format!(" {}", digest(rest))) { Author::Ours } else { Author::Edited }
}

fn signed(text: &str) -> String {
    format!(
        "{MARK} of mcpd {}, which leaves it alone once you change it. {}\n{text}",
        env!("CARGO_PKG_VERSION"),
        digest(text)
    )
}

/// A short digest. It detects edits, but not deliberate collisions.
fn digest(text: &str) -> String {
    sha256::hexadecimal(text)[..16].to_owned()
}

/// Source: systemd.service(5), "Command lines": words are separated by spaces, `%` begins a specifier and `$` a variable. The program
/// itself knows no variables.
pub(super) fn program_argument(program: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,=~".contains(c);
    if program.chars().all(is_plain) { program.to_owned() } else { quoted(program) }
}

/// Source: systemd.syntax(7), "Quoting", and systemd.unit(5), "Specifiers".
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// A planned change of one file.
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// The new text; `None` to remove the file.
    pub(super) text: Option<String>,
    pub(super) kind: ChangeKind,
    /// Only the user may read the file, and its text is not printed.
    pub(super) is_private: bool,
}

/// A change that was applied and can be undone.
pub(super) struct UndoableChange {
    path: PathBuf,
    /// The former file.
    backup: Option<PathBuf>,
    kind: ChangeKind,
}

/// The present file compared with the planned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The file does not exist.
    New,
    Same,
    /// mcpd wrote the present file.
    Update,
    /// A person wrote or edited the present file.
    Foreign,
}

impl Change {
    /// Plans to write this unit below `directory`.
    ///
    /// # Errors
    /// If the present file cannot be read.
    pub(super) fn plan(directory: &Path, unit: Unit) -> io::Result<Self> {
        let path = directory.join(unit.name);
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == unit.text => ChangeKind::Same,
            Ok(found) if author(&found) == Author::Ours => ChangeKind::Update,
            Ok(_) => ChangeKind::Foreign,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ChangeKind::New,
            Err(error) => return Err(named(&path, &error)),
        };
        Ok(Self { path, text: Some(unit.text), kind, is_private: false })
    }

    /// Plans to write a private file of mcpd.
    ///
    /// # Errors
    /// If the present file cannot be read.
    pub(super) fn private(path: PathBuf, text: String) -> io::Result<Self> {
        let kind = match fs::read_to_string(&path) {
            Ok(found) if found == text && is_private_to_owner(&path)? => ChangeKind::Same,
            Ok(_) => ChangeKind::Update,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ChangeKind::New,
            Err(error) => return Err(named(&path, &error)),
        };
        Ok(Self { path, text: Some(text), kind, is_private: true })
    }

    /// Plans to remove the file `name` below `directory`; `None` if it does not exist.
    pub(super) fn removal(directory: &Path, name: &str) -> Option<Self> {
        let path = directory.join(name);
        let found = fs::read_to_string(&path).ok()?;
        let kind = if author(&found) == Author::Ours { ChangeKind::Update } else { ChangeKind::Foreign };
        Some(Self { path, text: None, kind, is_private: false })
    }

    /// Whether the file has to change.
    pub(super) fn is_due(&self) -> bool {
        self.kind != ChangeKind::Same
    }

    /// Applies the change atomically, after a backup of the former file.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub(super) fn apply(&self) -> io::Result<UndoableChange> {
        let named = |error: io::Error| named(&self.path, &error);
        let backup = if self.kind == ChangeKind::New { None } else { Some(back_up(&self.path).map_err(named)?) };
        match &self.text {
            Some(text) => self.write(text).map_err(named)?,
            None => fs::remove_file(&self.path).map_err(named)?,
        }
        Ok(UndoableChange { path: self.path.clone(), backup, kind: self.kind })
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if self.is_private {
            return write_private(&self.path, text);
        }
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl UndoableChange {
    /// Makes the change permanent. Returns the backup's path if a person wrote or edited the former file.
    pub(super) fn commit(self) -> Option<PathBuf> {
        let backup = self.backup?;
        if self.kind == ChangeKind::Foreign {
            return Some(backup);
        }
        // A remaining backup of mcpd's own text does no harm.
        let _ = fs::remove_file(backup);
        None
    }

    /// Restores the former file, or removes a new one.
    ///
    /// # Errors
    /// If the file cannot be restored or removed.
    pub(super) fn undo(self) -> io::Result<()> {
        match self.backup {
            Some(backup) => fs::rename(backup, self.path),
            None => fs::remove_file(self.path),
        }
    }
}

/// The error with the path that it is about.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn is_private_to_owner(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 == 0)
}

/// Links the file to `NAME.old`, or to the next free number. systemd reads neither.
fn back_up(path: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let suffix = if number == 0 { ".old".to_owned() } else { format!(".old.{number}") };
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::hard_link(path, &name) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The existing files that `mcpd service install` wrote, each with its author now.
pub(super) fn own_files(directory: &Path) -> Vec<(PathBuf, Author)> {
    let paths = crate::cli::service::units::NAMES.map(|name| directory.join(name));
    let known = paths.into_iter().filter_map(|path| {
        let author = author(&fs::read_to_string(&path).ok()?);
        Some((path, author))
    });
    known.filter(|(_, author)| *author != Author::Another).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ours_is_known_until_it_is_edited() {
        for unit in
            units("/usr/bin/mcpd").into_iter().chain([environment_drop_in("/x/service.env"), hardened_drop_in()])
        {
            assert_eq!(author(&unit.text), Author::Ours, "{}", unit.text);
            assert_eq!(author(&format!("{}\n", unit.text)), Author::Edited);
            assert_eq!(author(unit.text.split_once('\n').expect("lines").1), Author::Another);
            assert!(NAMES.contains(&unit.name));
        }
        assert_eq!([author(""), author("# Written by somebody\n")], [Author::Another; 2]);
    }

    #[test]
    fn the_service_runs_this_program_wherever_it_is() {
        for (program, expected) in [
            ("/usr/bin/mcpd", "/usr/bin/mcpd"),
            ("/home/a b/mcpd", "\"/home/a b/mcpd\""),
            ("/opt/100%/mcpd", "\"/opt/100%%/mcpd\""),
        ] {
            let [service, ..] = units(program);
            assert!(service.text.contains(&format!("\nExecStart={expected} serve --own-cgroup\n")), "{}", service.text);
            assert!(service.text.contains(&format!("\nExecReload={expected} reload\n")), "{}", service.text);
            assert!(!service.text.contains(PROGRAM));
        }
    }

    #[test]
    fn path_of_the_environment_file_is_taken_literally() {
        let unit = environment_drop_in("/home/a b/100%/[x]*/service.env");
        let expected = "\nEnvironmentFile=-/home/a b/100%%/\\[x]\\*/service.env\n";
        assert!(unit.text.contains(expected), "{}", unit.text);
    }
}
