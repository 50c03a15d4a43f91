//! Which configuration files can be trusted, and their digests, to detect later changes.
//!
//! Anyone who can write to a configuration file can make mcpd run any program.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::super::interpolate::{Permissions, Sources};

/// Maximum size of a configuration file.
pub(in crate::config) const MAX_FILE: u64 = 4 << 20;

/// The digest of a file's text, or of the names in a directory of layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The absolute path.
    pub path: PathBuf,
    /// SHA-256 in hexadecimal. `None` if the file was missing or could not be used.
    pub sha256: Option<String>,
}

impl Stamp {
    pub(super) fn file(path: &Path, text: Option<&str>) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, sha256: text.map(digest) }
    }

    pub(super) fn directory(path: &Path, names: Option<&[String]>) -> Self {
        Self::file(path, names.map(|names| names.join("\n")).as_deref())
    }
}

/// Whether the file differs from the one with this digest. An unreadable file counts as unchanged.
pub fn changed(path: &Path, sha256: Option<&str>, sources: &dyn Sources) -> bool {
    let now = match sources.file(path, MAX_FILE) {
        // The file still cannot be used.
        Ok(file) if sha256.is_none() && permission_error(file.permissions, sources.user()).is_some() => return false,
        Ok(file) => Some(digest(&file.text)),
        Err(error) if is_missing(&error) => None,
        Err(_) => match layers_in(path, sources) {
            Ok(names) => Some(digest(&names.join("\n"))),
            Err(_) => return false,
        },
    };
    now.as_deref() != sha256
}

fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The error for a file that `user`, who runs mcpd, cannot trust.
pub(super) fn permission_error(file: Permissions, user: u32) -> Option<io::Error> {
    let Permissions { owner, group, mode } = file;
    let complaint = if owner != user && owner != 0 {
        format!("it belongs to user {owner}, who could have mcpd run any program as user {user}: `chown` it")
    } else if mode & 0o002 != 0 {
        format!("everybody may write to it (mode {mode:04o}), and have mcpd run any program: `chmod o-w` it")
    } else if mode & 0o020 != 0 && !file.has_private_group() {
        format!("group {group} may write to it (mode {mode:04o}), and have mcpd run any program: `chmod g-w` it")
    } else {
        return None;
    };
    Some(io::Error::new(io::ErrorKind::PermissionDenied, complaint))
}

/// The names of the layers in a directory, sorted.
pub(super) fn layers_in(directory: &Path, sources: &dyn Sources) -> io::Result<Vec<String>> {
    let mut names = sources.list(directory)?;
    names.retain(|name| !name.starts_with('.') && name.ends_with(".toml"));
    names.sort_unstable();
    Ok(names)
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nobody_else_can_write_are_trusted() {
        let check = |(owner, group, mode), expected: Option<&str>| {
            let found = permission_error(Permissions { mode, owner, group }, 1000).map(|error| error.to_string());
            let found = found.as_deref();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        };
        for fine in [(1000, 1000, 0o644), (1000, 1000, 0o664), (1000, 100, 0o644), (0, 0, 0o664), (0, 50, 0o640)] {
            check(fine, None);
        }
        check((1001, 1000, 0o600), Some("belongs to user 1001"));
        check((1000, 1000, 0o666), Some("everybody may write to it (mode 0666)"));
        check((1000, 1000, 0o602), Some("everybody"));
        check((1000, 100, 0o664), Some("group 100 may write to it (mode 0664)"));
        check((0, 1000, 0o664), Some("group 1000"));
    }
}
