//! The texts of the user's units, and how mcpd recognizes its own files. Pure.
//!
//! The first line of each file names mcpd and has a digest of the rest. A file with another digest was edited by a person.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

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
pub(super) const ENVIRONMENT_DROP_IN: &str = "mcpd.service.d/10-environment.conf";
/// The drop-in of earlier versions for the `PATH`.
pub(super) const FORMER_PATH_DROP_IN: &str = "mcpd.service.d/10-path.conf";
/// The drop-in that sandboxes mcpd and its servers.
pub(super) const HARDENED_DROP_IN: &str = "mcpd.service.d/20-hardened.conf";
/// Every file that `mcpd service install` writes or wrote.
pub(super) const NAMES: [&str; 6] =
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
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
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
