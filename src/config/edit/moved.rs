//! Secrets that stand in files of their own, with a reference in the configuration.

use std::io;
use std::path::{Path, PathBuf};

use super::file::{ConfigFile, WriteError};

/// Where they are, beside the configuration.
const DIRECTORY: &str = "secrets";

/// A secret and the file that it is to stand in.
pub(crate) struct Moved {
    file: ConfigFile,
    text: String,
    /// What stands for it in the configuration.
    pub(crate) reference: String,
}

impl Moved {
    /// The `value` that is called `key` at a server, moved out of the configuration at `config`; `None` if no reference could
    /// lead to the file.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub(crate) fn out_of(
        config: &Path,
        home: Option<&Path>,
        server: &str,
        (key, value): (&str, &str),
    ) -> io::Result<Option<Self>> {
        let file = ConfigFile::open(&directory(config)?.join(format!("{server}.{key}")))?;
        let short = home.and_then(|home| file.path().strip_prefix(home).ok());
        let shown = short.map_or_else(|| file.path().to_owned(), |path| Path::new("~").join(path));
        let shown = shown.to_str().filter(|path| !path.contains(['}', '$', '\0', '\n']));
        let Some(reference) = shown.map(|path| format!("${{file:{path}}}")) else { return Ok(None) };
        // Its last newline is not taken for a part of it.
        Ok(Some(Self { file, text: format!("{value}\n"), reference }))
    }

    /// Where it is to stand.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// What the file is to hold.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Writes it, for its owner only.
    ///
    /// # Errors
    /// As [`ConfigFile::write`].
    pub(crate) fn write(self) -> Result<(), WriteError> {
        self.file.write_private(&self.text)
    }
}

/// The files that secrets of a server were moved to.
pub(crate) fn left_of(config: &Path, server: &str) -> Vec<PathBuf> {
    let entries = directory(config).and_then(std::fs::read_dir).into_iter().flatten().flatten();
    let of_server = |name: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'));
    let mut left: Vec<_> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(of_server)).map(|entry| entry.path()).collect();
    left.sort();
    left
}

/// Beside the configuration as it is named, wherever a symbolic link leads: what that leads to may be published.
fn directory(config: &Path) -> io::Result<PathBuf> {
    Ok(std::path::absolute(config)?.with_file_name(DIRECTORY))
}
