//! What files of the configuration held when they were read, to tell later whether they hold something else.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::super::interpolate::Sources;
use super::MAX_FILE;
use super::files::{is_missing, layers_in};
use super::trust::permission_error;

/// What a file held; of a directory of layers, which names were in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The whole path.
    pub path: PathBuf,
    /// SHA-256 in hexadecimal; `None` if nothing was there, or it could not be used.
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

/// Whether there is something else by now than what had this digest. What cannot be read now is not known to differ.
pub fn changed(path: &Path, sha256: Option<&str>, sources: &dyn Sources) -> bool {
    let now = match sources.file(path, MAX_FILE) {
        // Still the file that could not be used.
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
