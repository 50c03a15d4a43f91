//! The token of a loopback listener: a file of each profile, for its owner alone. It is made when it is first needed.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::config::interpolate::{Process, Sources};
use crate::disk::replace_private;
use crate::random;

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 10;

/// The token of a profile. Logs do not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Arc<str>);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// Neither `XDG_STATE_HOME` nor `HOME` is set.
    #[error("there is no place for the token: neither XDG_STATE_HOME nor HOME is set")]
    NoDirectory,
    /// Its file cannot be used.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// No token can be made.
    #[error(transparent)]
    Random(#[from] random::NoRandomNumbers),
}

impl Token {
    /// Whether a request has this token. It compares digests, so that the time tells nothing about the token.
    pub(super) fn is(&self, given: &str) -> bool {
        Sha256::digest(given) == Sha256::digest(&*self.0)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn file(profile: &str) -> Result<PathBuf, TokenError> {
    let state = Process.state_home().ok_or(TokenError::NoDirectory)?;
    Ok(state.join("mcpd/tokens").join(profile))
}

/// The token of a profile. If it has none, one is made.
///
/// # Errors
/// If its file cannot be read, or made.
pub(crate) fn read_or_create(profile: &str) -> Result<Token, TokenError> {
    let path = file(profile)?;
    let found = fs::metadata(&path).and_then(|found| match found.len() {
        0..=MAX_FILE => fs::read_to_string(&path),
        _ => Err(io::Error::other("it is no token")),
    });
    match found {
        Ok(text) if !text.trim().is_empty() => Ok(Token(text.trim().into())),
        Ok(_) => rotate(profile),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(&path),
        Err(source) => Err(TokenError::File { path, source }),
    }
}

/// Makes the first token, unless another process has made it meanwhile.
fn create(path: &Path) -> Result<Token, TokenError> {
    let token = random::token()?;
    let directory = path.parent().unwrap_or(path);
    let made = || -> io::Result<String> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // It is made with mode 0600.
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(format!("{token}\n").as_bytes())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => fs::read_to_string(path),
            made => made.map(|_| token).map_err(|error| error.error),
        }
    };
    let made = made().map_err(|source| TokenError::File { path: path.to_owned(), source });
    made.map(|token| Token(token.trim().into()))
}

/// Replaces the token of a profile.
///
/// # Errors
/// If its file cannot be written; the old token then stays.
pub(crate) fn rotate(profile: &str) -> Result<Token, TokenError> {
    let path = file(profile)?;
    let token = random::token()?;
    let directory = path.parent().unwrap_or(&path);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    let written = made.and_then(|()| replace_private(&path, format!("{token}\n").as_bytes()));
    written.map_err(|source| TokenError::File { path: path.clone(), source })?;
    Ok(Token(token.into()))
}
