//! Writes the secret files, then the configuration, so that the configuration never refers to a missing file.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::edit::file::ConfigFile;
use crate::config::import::{Content, SecretFile};

/// Writes the known secrets and the `text` of the configuration. Returns the secrets without content. If the configuration cannot
/// be written, the secret files are removed again.
pub(in crate::cli) fn all(file: ConfigFile, text: &str, secrets: Vec<SecretFile>) -> Result<Vec<SecretFile>, String> {
    let (known, unanswered): (Vec<_>, Vec<_>) =
        secrets.into_iter().partition(|secret| matches!(secret.content, Content::Known(_)));
    let mut written = Vec::new();
    let outcome = known.iter().try_for_each(|secret| {
        let Content::Known(content) = &secret.content else { return Ok(()) };
        write_secret(&secret.path, content)?;
        written.push(&secret.path);
        Ok(())
    });
    let outcome = outcome.and_then(|()| file.write(text).map_err(|error| error.to_string()));
    match outcome {
        Ok(()) => Ok(unanswered),
        Err(error) => {
            written.iter().for_each(|path| drop(fs::remove_file(path)));
            Err(error)
        }
    }
}

/// Writes a file that only its owner can read, and makes its directory private.
fn write_secret(path: &Path, content: &str) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot write {}: {error}", path.display());
    ConfigFile::open(path).map_err(cannot)?.write(content).map_err(|error| error.to_string())?;
    make_private(path.parent().unwrap_or(path)).map_err(cannot)
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mode = fs::metadata(directory)?.permissions().mode();
    if mode & 0o077 != 0 { fs::set_permissions(directory, Permissions::from_mode(0o700)) } else { Ok(()) }
}
