//! Digests of the configuration files, to detect later changes.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::super::interpolate::Sources;
use super::MAX_FILE;
use super::files::{is_missing, layers_in};
use super::trust::permission_error;

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
